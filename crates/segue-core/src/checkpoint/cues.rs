//! The phrases by which a sentence shows what it is.
//!
//! They decide where a sentence is told, and that it goes before those without any; what has none is still kept as far
//! as there is room. Each stands for whole words, as they are written in a [`Unit`].

use std::collections::HashMap;
use std::sync::LazyLock;

use super::ItemKind;
use super::units::Unit;
use crate::Role;

/// What a sentence is, and how plainly it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sense {
    pub(super) kind: ItemKind,
    pub(super) strength: u32,
}

/// A list of phrases: what those mean who use one, and how plainly.
struct Cues {
    role: Role,
    kind: ItemKind,
    weight: u32,
    phrases: &'static [&'static str],
}

/// Of two that fit as well the first counts.
const CUES: [Cues; 16] = [
    cues(Role::User, ItemKind::Directive, 6, RULES),
    cues(Role::User, ItemKind::Goal, 5, GOALS),
    cues(Role::User, ItemKind::Attempt, 4, FAILURES),
    cues(Role::User, ItemKind::Decision, 4, CHOICES),
    cues(Role::User, ItemKind::Pending, 4, OPEN),
    cues(Role::User, ItemKind::Pending, 3, SOON),
    cues(Role::User, ItemKind::Blocker, 3, OBSTACLES),
    cues(Role::User, ItemKind::Directive, 2, WISHES),
    cues(Role::Assistant, ItemKind::Attempt, 5, FAILURES),
    cues(Role::Assistant, ItemKind::Decision, 5, CHOICES),
    cues(Role::Assistant, ItemKind::Pending, 5, OPEN),
    cues(Role::Assistant, ItemKind::Blocker, 4, OBSTACLES),
    cues(Role::Assistant, ItemKind::Decision, 3, REASONS),
    cues(Role::Assistant, ItemKind::Focus, 3, UNDER_WAY),
    cues(Role::Assistant, ItemKind::NextStep, 3, SOON),
    cues(Role::Assistant, ItemKind::Done, 2, DONE),
];

const fn cues(role: Role, kind: ItemKind, weight: u32, phrases: &'static [&'static str]) -> Cues {
    Cues {
        role,
        kind,
        weight,
        phrases,
    }
}

/// The words after the first one of a phrase, and which cue it is.
type Rest = (Vec<&'static str>, usize);

/// The phrases that begin with a word.
static BY_FIRST_WORD: LazyLock<HashMap<&str, Vec<Rest>>> = LazyLock::new(|| {
    let mut by_first: HashMap<&str, Vec<Rest>> = HashMap::new();
    for (index, cues) in CUES.iter().enumerate() {
        for phrase in cues.phrases {
            let mut words = phrase.split(' ');
            let first = words.next().unwrap_or_default();
            by_first
                .entry(first)
                .or_default()
                .push((words.collect(), index));
        }
    }
    by_first
});

/// What a sentence is, as far as it shows.
pub(super) fn sense(unit: &Unit, role: Role) -> Option<Sense> {
    let words: Vec<&str> = unit.words().collect();
    let mut found = [0_u32; CUES.len()];
    for (at, first) in words.iter().enumerate() {
        let rest = words.get(at + 1..).unwrap_or_default();
        let phrases = BY_FIRST_WORD.get(first).into_iter().flatten();
        for (_, index) in phrases.filter(|(phrase, _)| rest.starts_with(phrase)) {
            if let Some(found) = found.get_mut(*index) {
                *found += 1;
            }
        }
    }
    let mut best: Option<Sense> = None;
    for (cues, found) in CUES.iter().zip(found) {
        let strength = cues.weight + found.saturating_sub(1).min(2);
        if found > 0 && cues.role == role && best.is_none_or(|best| strength > best.strength) {
            best = Some(Sense {
                kind: cues.kind,
                strength,
            });
        }
    }
    best
}

/// What goes on to hold.
const RULES: &[&str] = &[
    "always",
    "never",
    "must",
    "mustn't",
    "must not",
    "don't",
    "do not",
    "dont",
    "shouldn't",
    "should not",
    "should never",
    "should always",
    "may not",
    "can't be",
    "cannot be",
    "not allowed",
    "forbidden",
    "off limits",
    "off-limits",
    "from now on",
    "from here on",
    "going forward",
    "for the rest of",
    "at all times",
    "in all cases",
    "no matter",
    "without exception",
    "under no circumstances",
    "make sure",
    "be sure",
    "ensure",
    "keep in mind",
    "remember",
    "bear in mind",
    "rule",
    "rules",
    "convention",
    "conventions",
    "policy",
    "avoid",
    "refrain",
    "stay away",
    "leave it alone",
    "alone",
    "untouched",
    "hands off",
    "only ever",
    "only use",
    "stick to",
    "stick with",
    "whenever",
    "every time",
    "each time",
    "unless",
    "before you",
    "ask me",
    "ask first",
    "without asking",
    "no new",
    "nobody",
    "nothing may",
    "required",
    "mandatory",
    "insist",
    "immer",
    "niemals",
    "nie",
    "darf",
    "dürfen",
    "muss",
    "müssen",
    "bitte nicht",
    "toujours",
    "jamais",
    "il faut",
    "siempre",
    "nunca",
];

/// What may be meant for longer.
const WISHES: &[&str] = &[
    "prefer",
    "preferably",
    "preferred",
    "rather",
    "please",
    "would like",
    "i'd like",
    "i want",
    "we want",
    "i expect",
    "i'd expect",
    "grateful",
    "appreciate",
    "keep",
    "we use",
    "use",
    "needs to",
    "has to",
    "have to",
    "should",
    "ought",
    "only",
    "every",
    "all",
    "any",
    "no",
    "not",
    "bitte",
    "nur",
    "s'il",
    "por favor",
];

const GOALS: &[&str] = &[
    "goal",
    "goals",
    "objective",
    "objectives",
    "aim",
    "aims",
    "aiming",
    "the point of",
    "the purpose",
    "the idea is",
    "ultimately",
    "in the end we",
    "end result",
    "end up with",
    "what i'm after",
    "what we're after",
    "what we want",
    "what i want",
    "we are building",
    "we're building",
    "i'm building",
    "i am building",
    "we are trying",
    "we're trying",
    "the plan is",
    "mission",
    "all of this is",
    "all this is",
    "success means",
    "success is",
    "deliver",
    "delivers",
    "deliverable",
    "ziel",
];

const CHOICES: &[&str] = &[
    "decide",
    "decided",
    "decides",
    "deciding",
    "decision",
    "decisions",
    "chose",
    "chosen",
    "choose",
    "chooses",
    "choosing",
    "choice",
    "went with",
    "go with",
    "going with",
    "gone with",
    "opt for",
    "opted",
    "opting",
    "settle on",
    "settled",
    "settling",
    "pick",
    "picked",
    "picking",
    "agreed",
    "instead of",
    "rather than",
    "in favour of",
    "in favor of",
    "ruled out",
    "rule out",
    "rejected",
    "discarded",
    "dismissed",
    "switched to",
    "switch to",
    "switching to",
    "moved to",
    "stick with",
    "sticking with",
    "stay with",
    "staying with",
    "trade-off",
    "tradeoff",
    "the reason",
    "the better",
    "won out",
    "let's use",
    "we'll use",
    "i'll use",
    "entschieden",
];

const REASONS: &[&str] = &[
    "because",
    "since",
    "so that",
    "given that",
    "due to",
    "as a result",
    "therefore",
    "hence",
    "thanks to",
    "would have",
    "otherwise",
    "weil",
    "parce que",
    "porque",
];

const FAILURES: &[&str] = &[
    "tried",
    "trying",
    "attempt",
    "attempts",
    "attempted",
    "attempting",
    "didn't work",
    "did not work",
    "doesn't work",
    "does not work",
    "not work",
    "didn't help",
    "did not help",
    "doesn't help",
    "no help",
    "did nothing",
    "does nothing",
    "no effect",
    "no difference",
    "no luck",
    "no good",
    "no use",
    "useless",
    "to no avail",
    "in vain",
    "unsuccessful",
    "unsuccessfully",
    "without success",
    "failed",
    "fails",
    "failing",
    "failure",
    "still fails",
    "still failing",
    "still fail",
    "still broken",
    "still crashes",
    "still crashing",
    "still crash",
    "still hangs",
    "still hanging",
    "still hang",
    "still times",
    "still red",
    "reverted",
    "rolled back",
    "rolling back",
    "backed out",
    "undid",
    "undone",
    "dead end",
    "blind alley",
    "red herring",
    "made it worse",
    "made things worse",
    "worse",
    "broke",
    "breaks",
    "gave up",
    "abandoned",
    "turned out",
    "turns out",
    "wasn't the",
    "was not the",
    "isn't the cause",
    "not the cause",
    "not the culprit",
    "didn't fix",
    "did not fix",
    "doesn't fix",
    "won't fix",
    "didn't change",
    "did not change",
    "ohne erfolg",
];

const OPEN: &[&str] = &[
    "todo",
    "to do",
    "to-do",
    "fixme",
    "pending",
    "outstanding",
    "remaining",
    "remains",
    "remain",
    "left to",
    "is left",
    "are left",
    "not yet",
    "yet to",
    "yet",
    "haven't",
    "hasn't",
    "has not",
    "have not",
    "later",
    "follow up",
    "follow-up",
    "followup",
    "postponed",
    "deferred",
    "put off",
    "parked",
    "on hold",
    "backlog",
    "for now",
    "left open",
    "open point",
    "open points",
    "open question",
    "open questions",
    "open item",
    "open items",
    "unfinished",
    "incomplete",
    "missing",
    "on my list",
    "on the list",
    "come back to",
    "get back to",
    "return to",
    "needs a",
    "will need",
    "must still",
    "noch",
    "offen",
];

/// What is about to be done, and mostly is at once.
const SOON: &[&str] = &[
    "next",
    "next up",
    "next step",
    "next steps",
    "after that",
    "afterwards",
    "then i",
    "need to",
    "needs to",
    "have to",
    "has to",
    "once that",
    "still",
    "will",
    "i'll",
    "going to",
];

const OBSTACLES: &[&str] = &[
    "blocked",
    "blocker",
    "blockers",
    "blocking",
    "waiting for",
    "waiting on",
    "wait for",
    "can't proceed",
    "cannot proceed",
    "can't continue",
    "cannot continue",
    "can't go on",
    "stuck",
    "need access",
    "no access",
    "permission denied",
    "not permitted",
    "depends on",
    "until",
    "held up",
    "in the way",
    "prevents",
    "unavailable",
];

const UNDER_WAY: &[&str] = &[
    "working on",
    "in the middle of",
    "halfway",
    "half way",
    "in progress",
    "under way",
    "underway",
    "currently",
    "right now",
    "at the moment",
    "busy with",
    "partway",
    "started on",
    "in flight",
    "touching",
    "editing",
];

const DONE: &[&str] = &[
    "done",
    "finished",
    "complete",
    "completed",
    "implemented",
    "added",
    "fixed",
    "passes",
    "passing",
    "pass",
    "green",
    "now works",
    "works now",
    "resolved",
    "landed",
    "merged",
    "in place",
    "created",
    "removed",
    "renamed",
    "updated",
    "wrote",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_shows_what_it_is() {
        use ItemKind::{Attempt, Blocker, Decision, Directive, Done, Goal, Pending};
        for (role, text, kind) in [
            (
                Role::User,
                "Never touch the vendor directory.",
                Some(Directive),
            ),
            (Role::User, "From now on, use tabs.", Some(Directive)),
            (
                Role::User,
                "The goal is a parser that never panics on bad input.",
                Some(Directive),
            ),
            (Role::User, "The goal is a faster parser.", Some(Goal)),
            (Role::User, "hello", None),
            (
                Role::Assistant,
                "I decided on SQLite because it needs no server.",
                Some(Decision),
            ),
            (
                Role::Assistant,
                "Raising the timeout did nothing for the flaky test.",
                Some(Attempt),
            ),
            (
                Role::Assistant,
                "The migration script is still missing.",
                Some(Pending),
            ),
            (
                Role::Assistant,
                "I am waiting for access to the staging database.",
                Some(Blocker),
            ),
            (Role::Assistant, "All tests pass.", Some(Done)),
            (Role::Assistant, "Let me look at the file.", None),
            (Role::Tool, "never", None),
        ] {
            let found = sense(&Unit::new(text), role).map(|sense| sense.kind);
            assert_eq!(found, kind, "{text}");
        }
    }
}
