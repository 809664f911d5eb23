//! The phrases, by what they show: general English, and a few words of other languages.

/// What goes on to hold.
pub(super) const RULES: &str = "\
    always, never, must, mustn't, must not, don't, do not, dont, shouldn't, should not, should never, should always, \
    may not, can't be, cannot be, not allowed, forbidden, off limits, off-limits, from now on, from here on, going \
    forward, for the rest of, at all times, in all cases, no matter, without exception, under no circumstances, make \
    sure, be sure, ensure, keep in mind, remember, bear in mind, rule, rules, convention, conventions, policy, avoid, \
    refrain, stay away, leave it alone, alone, untouched, hands off, only ever, only use, stick to, stick with, \
    whenever, every time, each time, unless, before you, ask me, ask first, without asking, no new, nobody, nothing \
    may, required, mandatory, insist, immer, niemals, nie, darf, dürfen, muss, müssen, bitte nicht, ab jetzt, ab \
    sofort, von nun an, toujours, jamais, il faut, désormais, siempre, nunca, desde ahora, a partir de ahora, at no \
    point, by no means, in no case, on no account, not once, no exceptions, no way, hard rule, hard requirement, \
    house style, house rule, style guide, guideline, guidelines, standard here, our way, how we do, how we work, how \
    it's done, we always, we never, we don't, nobody touches, no one, read-only, reserved, frozen, strictly, strict, \
    has to stay, must stay, need to stay, needs to stay, stays as, keep away, keep out, keep clear, don't ever, do it \
    only, only if, only when, not even, not without, no more than, at most, at least, exactly one, each new, every \
    new, any new, every change, each change, every commit, each commit, every file, every function, every test, \
    anything new, whatever you, if you ever, if you need, if you change, if you touch, if you have to, if in doubt, \
    when in doubt, when you, as soon as you, after you, after each, after every, after any, before each, before \
    every, before any, before committing, before pushing, first thing, run it past, check with me, check with, clear \
    it with, sign off, sign-off, approval, approve, approved, permission, tell me before, let me know before, \
    confirm, important, crucial, essential, careful, beware, caution, watch out, mind the, mind that, be aware, note \
    that, for the record, stop doing, stop using, quit, no longer, not to, by hand, manually, prohibited, banned, \
    ban, verboten, hates, hate, can't stand, deal-breaker, dealbreaker, non-negotiable, throughout, consistently, \
    across the board, everywhere, for everything, in general, as a rule, by default, per default, in this repo, in \
    this project, in this codebase, around here";

/// What may be meant for longer.
pub(super) const WISHES: &str = "\
    prefer, preferably, preferred, rather, please, would like, i'd like, i want, we want, i expect, i'd expect, \
    grateful, appreciate, keep, we use, use, needs to, has to, have to, should, ought, only, every, all, any, no, \
    not, bitte, nur, s'il, por favor, i like, we like, i love, ideally, better if, best if, would be good, would be \
    great, would be nice, it'd be nice, it'd be good, it's better, supposed to, belongs, belong, goes into, goes in, \
    go into, go through, goes through";

/// What it is all for.
pub(super) const GOALS: &str = "\
    goal, goals, objective, objectives, aim, aims, aiming, the point of, the purpose, the idea is, ultimately, in the \
    end we, end result, end up with, what i'm after, what we're after, what we want, what i want, we are building, \
    we're building, i'm building, i am building, we are trying, we're trying, the plan is, mission, all of this is, \
    all this is, success means, success is, deliver, delivers, deliverable, ziel, in the long run, long term, \
    long-term, big picture, bigger picture, end goal, end state, vision, the whole point, what this is about, what \
    matters, purpose, eventually we, our job, the job is, the task is, the project is, this project, we are here to, \
    i'm working on, we are working on, we're working on, by the end, when we're done, when we are done, once we're \
    done, at the end of, deadline, customers, users can, so that users, so that people";

/// What is a large piece of work by itself, be it the whole or a step.
pub(super) const WORKS: &str = "\
    i need a, we need a, i need to, build a, build an, replace, migrate, migrating, migration, port, porting, \
    rewrite, rewriting, by friday, by monday, launch, ship, shipping, release";

/// What a sentence begins with that asks for a piece of work.
pub(super) const TASKS: &str = "\
    add adapt adjust analyse analyze apply bring build bump change check clean close combine commit compare compile \
    complete configure connect continue convert copy correct create cut debug define delete deploy design document \
    draft drop edit enable disable explain expose export extend extract figure fill finish fix format generate get \
    give handle hook implement import improve include inline insert inspect install integrate introduce investigate \
    link list load look make map measure merge migrate mock modify move open optimise optimize parse patch plan port \
    prepare print profile provide publish pull push put read rebase redo reduce refactor regenerate release remove \
    rename reorder repair replace reproduce reset resolve restore restructure rerun rework restart return revert review \
    rewrite rip roll run save scaffold search send set setup ship show simplify skip solve sort speed split start \
    store strip stub summarise summarize support swap switch sync tag take tell test tidy tighten toggle track \
    translate trim try turn tweak undo unify update upgrade validate verify wire wrap write \
    baue erstelle schreib schreibe füge behebe lösche ändere";

/// What was settled.
pub(super) const CHOICES: &str = "\
    decide, decided, decides, deciding, decision, decisions, chose, chosen, choose, chooses, choosing, choice, went \
    with, go with, going with, gone with, opt for, opted, opting, settle on, settled, settling, pick, picked, \
    picking, agreed, instead of, rather than, in favour of, in favor of, ruled out, rule out, rejected, discarded, \
    dismissed, switched to, switch to, switching to, moved to, stick with, sticking with, stay with, staying with, \
    trade-off, tradeoff, the reason, the better, won out, let's use, we'll use, i'll use, entschieden, the choice, \
    conclusion, concluded, settle for, committed to, commit to, favour, favor, favoured, favored, preferred, prefer, \
    preferable, won, wins, win, beats, better fit, better suited, best fit, fits better, simpler, safer, cheaper, \
    cleaner, on balance, all things considered, after weighing, weighed, weighing, compared, pros and cons, outweigh, \
    outweighs, upside, downside, drawback, drawbacks, alternative, alternatives, variant, variants, by design, \
    deliberately, on purpose, intentionally, purposely, for that reason, which is why, that is why, that's why, makes \
    more sense, makes sense to, more sense, not worth, worth it, no need for, no point in, overkill, dropping, drop, \
    dropped, ditch, ditched, scrap, scrapped, keep using, we keep, i kept, stays, stay on, remains the, as the \
    default, the default is, vote, voted, agree, consensus, signed off, for good, i'd rather, we'd rather, i would \
    rather, i'm using, i am using, we use, i use, i used, based on, modelled on, modeled on, goes through, belongs \
    in, treated as, is stored, are stored, is kept, are kept";

/// Why it was.
pub(super) const REASONS: &str = "\
    because, since, so that, given that, due to, as a result, therefore, hence, thanks to, would have, otherwise, \
    weil, parce que, porque, for the sake, in order to, in order not, to avoid, avoids, avoid, the reason, reasons, \
    on account of, owing to, thus, this way, that way, or else, would mean, would need, wouldn't, would not, lets \
    us, allows us, allows, keeps the, saves";

/// What did not work.
pub(super) const FAILURES: &str = "\
    tried, trying, attempt, attempts, attempted, attempting, didn't work, did not work, doesn't work, does not work, \
    not work, didn't help, did not help, doesn't help, no help, did nothing, does nothing, no effect, no difference, \
    no luck, no good, no use, useless, to no avail, in vain, unsuccessful, unsuccessfully, without success, failed, \
    fails, failing, failure, still fails, still failing, still fail, still broken, still crashes, still crashing, \
    still crash, still hangs, still hanging, still hang, still times, still red, reverted, rolled back, rolling \
    back, backed out, undid, undone, dead end, blind alley, red herring, made it worse, made things worse, worse, \
    broke, breaks, gave up, abandoned, turned out, turns out, wasn't the, was not the, isn't the cause, not the \
    cause, not the culprit, didn't fix, did not fix, doesn't fix, won't fix, didn't change, did not change, ohne \
    erfolg, tries, try to, gave it a, a go, had a go, experiment, experimented, failed to, fail to, failing to, \
    unable, could not, couldn't, can't get, cannot get, refuses, refused, refuse, rejects, won't, wouldn't, doesn't \
    accept, doesn't like, to no effect, without effect, without result, without any effect, no improvement, no \
    better, no change, not better, not enough, not the problem, not the issue, not it, isn't it, not viable, not \
    feasible, not possible, impossible, infeasible, unusable, hopeless, pointless, futile, fruitless, nowhere, goes \
    nowhere, went nowhere, leads nowhere, led nowhere, wasted, waste of time, in circles, same error, same result, \
    same failure, same problem, same message, same crash, same place, same symptom, just as, exactly as, as bad, as \
    slow, keeps failing, keeps crashing, keeps timing, kept failing, keeps on, persists, persisted, regression, \
    regressed, regresses, slower, crashed, crashes, crashing, hangs, hung, deadlock, deadlocks, deadlocked, timed \
    out, times out, timing out, corrupted, corrupts, corrupt, leaked, leaks, breaking, broken, backfired, fell \
    apart, fell over, blew up, blows up, choked, chokes, bails, bailed, threw away, thrown away, threw out, took it \
    out, taken out, put back, went back, back to square, undo, roll back, revert, reverting, back out, contrary to, \
    despite, in spite of, even though, even with, even after, no matter how, seemed promising, promising, sounded \
    good, on paper, in theory, mistaken, misguided, wrong idea, wrong track, ruled out, doesn't solve, didn't solve, \
    did not solve, does not solve, doesn't survive, didn't survive, doesn't matter, made no, makes no, only moved, \
    only moves, only hides, masks";

/// What is left to be done.
pub(super) const OPEN: &str = "\
    todo, to do, to-do, fixme, pending, outstanding, remaining, remains, remain, left to, is left, are left, not yet, \
    yet to, yet, haven't, hasn't, has not, have not, later, follow up, follow-up, followup, postponed, deferred, put \
    off, parked, on hold, backlog, for now, left open, open point, open points, open question, open questions, open \
    item, open items, unfinished, incomplete, missing, on my list, on the list, come back to, get back to, return to, \
    needs a, will need, must still, noch, offen, fehlt, fehlen, falta, faltan, pendiente, il manque, still can't, \
    still cannot, still doesn't, still don't, isn't supported, isn't handled, isn't covered, isn't tested, isn't \
    implemented, isn't ready, aren't supported, doesn't support, doesn't handle, known issues, known issue, \
    limitation, limitations, what's left, what is left, next steps, remaining work, still to, still have to, still \
    has to, still need, still needs, still lacks, still lack, still no, still not, still open, still uses, still use, \
    still points, still refers, still has, still have, isn't done, isn't finished, not done, not finished, not \
    started, not implemented, not supported, not handled, not covered, not tested, not wired, not hooked, unhandled, \
    untested, undocumented, unresolved, unanswered, unaddressed, unsolved, uncovered, leftover, leftovers, left over, \
    left out, left for, left undone, leaves us, leaving, lacks, lacking, lack, skipped, skip, disabled, commented \
    out, stub, stubs, stubbed, placeholder, placeholders, dummy, hard-coded, hardcoded, workaround, work-around, \
    quick fix, hack, temporary, temporarily, provisional, interim, for the time being, for the present, so far only, \
    only half, half of, the other half, postpone, defer, delayed, out of scope, another day, another time, some other \
    time, another pr, separate pr, separate ticket, separate issue, separate change, separate commit, own ticket, \
    follow-ups, next week, next sprint, next release, next round, next month, next year, tomorrow, tonight, on \
    monday, on friday, sometime, some time, some day, someday, one day, some point, some stage, at the end, in the \
    end, eventually, sooner or later, before long, in due course, in the future, future work, when there's time, when \
    there is time, when time permits, time permitting, when i get, when we get, when we have, once we, once it, once \
    the, once they, once this, as soon as, until then, can wait, has to wait, will wait, must wait, doesn't need to \
    happen, not urgent, no hurry, no rush, not now, don't forget, mustn't forget, must not forget, remind me, \
    reminder, revisit, revisited, revisiting, come back, coming back, get round, got round, get around, got around, \
    getting to, get to it, circle back, look into, look at later, pick up, pick it up, tackle, worth a, worth doing, \
    worth looking, worth fixing, worth checking, would be worth, deserves, wants a, could use, could do with, in need \
    of, overdue, owe, owes, promised, on my plate, on our plate, on the agenda, in the queue, queued, to-dos, todos, \
    wishlist, wish list, nice to have, tech debt, technical debt, loose end, loose ends, clean up, clean-up, cleanup, \
    tidy up";

/// What will have to be, by whomever.
pub(super) const OWED: &str = "\
    will, will have to, need to, needs to, have to, has to, must, should, ought to, shall, still, needs, once that, \
    wants to, we'll, we will, it'll, won't, until, till";

/// What the speaker is about to do, and mostly does at once.
pub(super) const SOON: &str = "\
    next, next up, next step, next steps, after that, afterwards, then i, i need to, i have to, now to, i'll, i \
    will, let me, let's, going to, i'm going to, about to, i want to, i'd like to, time to, first i, now i";

/// What is in the way, in so many words.
pub(super) const BLOCKED: &str = "\
    is blocked, are blocked, am blocked, i'm blocked, we're blocked, remains blocked, blocked on, blocked by, blocked \
    until, blocker, blockers, can't proceed, cannot proceed, can't continue, cannot continue, need access, awaiting, \
    pending approval, blockiert, bloqueado, bloqueada, bloqué, bloquée";

/// What is in the way.
pub(super) const OBSTACLES: &str = "\
    blocked, blocker, blockers, blocking, waiting for, waiting on, wait for, can't proceed, cannot proceed, can't \
    continue, cannot continue, can't go on, stuck, need access, no access, permission denied, not permitted, depends \
    on, held up, in the way, prevents, unavailable, awaiting, pending approval, need credentials, credentials, no \
    permission, denied, not available, out of our hands, can't until, cannot until, not until, hinges on, rests on, \
    dependent on, gated, gating, bottleneck, deadlocked on, nobody answers, no answer from, no reply";

/// What is being done.
pub(super) const UNDER_WAY: &str = "\
    working on, in the middle of, halfway, half way, in progress, under way, underway, currently, right now, at the \
    moment, busy with, partway, started on, in flight, touching, editing, in the process, in the course of, mid-way, \
    midway, part way, half done, half-done, half finished, half-finished, partly, partially, ongoing, so far, up to \
    now, to date, begun, began, starting on, carrying on, carry on, continuing, converting, moving, rewriting, \
    replacing, reworking, splitting, wiring, porting";

/// What is.
pub(super) const DONE: &str = "\
    done, finished, complete, completed, implemented, added, fixed, passes, passing, pass, green, now works, works \
    now, resolved, landed, merged, in place, created, removed, renamed, updated, wrote, works, fixes, solved, \
    sorted, succeeded, succeeds, successful, successfully, shipped, deployed, committed, pushed, closed, cleaned up, \
    moved, replaced, converted, migrated, adjusted, set up, built, builds, compiles, all good, gone, deleted, \
    installed, erledigt, fertig, behoben, installiert, läuft, umbenannt, gelöscht, listo, lista, hecho, hecha, \
    arreglado, terminado, instalado, terminé, corrigé, installé";

/// What a person says who tells that something was seen to.
pub(super) const REPORTS: &str = "\
    i fixed, i've fixed, i have fixed, i did, i've done, i merged, i pushed, i added, i removed, i sent, i got, we \
    got, is green, are green, is done, are done, it's done, is fixed, are fixed, is merged, is resolved, is sorted, \
    is back, works now, is working, sent them, sent it, sent me, has access, have access, unblocked, ist erledigt, \
    ist fertig, ist gefixt, ya está, est fait";
