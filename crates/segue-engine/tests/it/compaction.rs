//! Compaction, automatic and on request: when it happens, how often, and the brief that follows it.

use jiff::Timestamp;
use segue_core::agent::{RoleOverride, RoleRegistry};
use segue_core::checkpoint::{ItemAuthor, CheckpointReason};
use segue_core::policy::{AutoCompaction, Policy};
use segue_core::scope::{Purpose, RoleName, Scope};
use segue_core::session::{DecisionKind, LegEnd, OpenMode};
use segue_engine::{ChatRequest, EngineError, MessageAuthor, Target, TurnEvent, TurnReport};
use segue_store::{NewCheckpoint, Store, StoreError};

use crate::scripted::{Cue, Stage, done, same, say};

const BUDGET: u64 = 4_000;

/// Creates a stage with automatic compaction.
fn stage(compaction: AutoCompaction) -> Stage {
    // Loads the vocabulary, so that counts are available without delay.
    assert_eq!(segue_tokens::count("hello world"), 2);
    let mut stage = Stage::new();
    stage.engine = stage.beside_it().with_budget(BUDGET).with_policy(Policy {
        compaction,
        ..Policy::default()
    });
    stage
}

/// Returns a text of exactly `tokens` tokens.
fn words(tokens: usize) -> String {
    let text = "word ".repeat(tokens).trim_end().to_owned();
    assert_eq!(segue_tokens::count(&text), tokens as u64);
    text
}

/// Runs a turn of `tokens` tokens, including the prompt.
async fn said(stage: &Stage, tokens: usize, target: Target) -> TurnReport {
    stage.script([say(&words(tokens - 10)), done()]);
    let request = stage.request(&words(10), target);
    stage.chat(request, |_| {}).await.unwrap()
}

fn compacted(report: &TurnReport) -> Vec<&str> {
    let decisions = report.decisions.iter();
    let made = decisions.filter(|decision| decision.kind == DecisionKind::Compacted);
    made.map(|decision| decision.text.as_str()).collect()
}

fn prompts(stage: &Stage) -> Vec<String> {
    stage.agent.heard.lock().unwrap().prompts.clone()
}

fn as_qa() -> Target {
    Target::Scope(Purpose {
        role: Some(RoleName::parse("qa").unwrap()),
        ..Purpose::for_scope(Scope::Project)
    })
}

#[tokio::test]
async fn at_nine_tenths_of_the_budget_and_not_before_what_was_said_is_summed_up() {
    let stage = stage(AutoCompaction::Always);
    let first = said(&stage, 1_000, Target::New).await;
    let second = said(&stage, 2_599, same(&first)).await;
    assert_eq!(compacted(&second), [""; 0], "3,599 of 4,000 are held");
    let legs = stage.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].estimated_tokens, Some(3_599));

    let other = said(&stage, 1_000, Target::New).await;
    let mut events = Vec::new();
    stage.script([say(&words(2_590)), done()]);
    let request = stage.request(&words(10), same(&other));
    let report = stage.chat(request, |event| events.push(event)).await;
    let report = report.unwrap();
    let told = compacted(&report);
    assert_eq!(told.len(), 1, "{report:?}");
    assert!(
        told[0].starts_with("2 turn(s) of 3,600 tokens were summed up in checkpoint 1 of "),
        "{told:?}"
    );
    let last = events.last().unwrap();
    assert!(matches!(last, TurnEvent::Ended { .. }), "{last:?}");
    let legs = stage.store.legs(&other.session).await.unwrap();
    assert_eq!(legs[0].ended.map(|(_, why)| why), Some(LegEnd::Compacted));
    let versions = stage.store.checkpoints(&other.session).await.unwrap();
    assert_eq!((versions[0].covers, versions[0].replaced), (2, 3_600));
    assert_eq!(versions[0].reason, CheckpointReason::Budget);
    // The log contains the decision once.
    let log = stage.store.decisions(&other.session, 50).await.unwrap();
    let noted = log.iter().filter(|(_, noted)| noted.text == told[0]);
    assert_eq!(noted.count(), 1);

    let next = stage.turn("and now?", same(&other)).await;
    assert_eq!(next.opened.clone().unwrap().0, OpenMode::Briefed);
    let told = prompts(&stage).pop().unwrap();
    assert!(told.contains("[What was done before, summed up"), "{told}");
    assert!(segue_tokens::count(&told) <= BUDGET);
    assert_eq!(compacted(&next), [""; 0], "it is summed up once");
}

#[tokio::test]
async fn the_usual_budget_holds_where_there_is_a_role_and_a_switch_turns_it_off() {
    let cases = [
        (AutoCompaction::WithRole, as_qa(), 1),
        (AutoCompaction::WithRole, Target::New, 0),
        (AutoCompaction::Never, as_qa(), 0),
        (AutoCompaction::Always, Target::New, 1),
    ];
    for (compaction, target, times) in cases {
        let stage = stage(compaction);
        let report = said(&stage, 3_600, target.clone()).await;
        assert_eq!(compacted(&report).len(), times, "{compaction:?} {target:?}");
    }
}

/// If the size of the native session is unknown, it is estimated from the record.
#[tokio::test]
async fn what_was_not_counted_is_summed_up_by_the_record() {
    let stage = stage(AutoCompaction::Always);
    let first = said(&stage, 1_000, Target::New).await;
    stage.script([
        Cue::Event(segue_core::session::AgentEvent::Compacted),
        say("noted"),
        done(),
    ]);
    let request = stage.request(&words(10), same(&first));
    let report = stage.chat(request, |_| {}).await.unwrap();
    let legs = stage.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].estimated_tokens, None);
    assert_eq!(stage.store.checkpoints(&report.session).await.unwrap(), []);
    let report = said(&stage, 2_600, same(&first)).await;
    assert_eq!(compacted(&report).len(), 1, "{report:?}");
}

#[tokio::test]
async fn a_prompt_that_is_too_much_for_what_is_held_is_told_to_a_new_native_session() {
    let stage = stage(AutoCompaction::Always);
    let first = said(&stage, 3_000, Target::New).await;
    let prompt = words(1_100);
    stage.script([say("noted"), done()]);
    let request = stage.request(&prompt, same(&first));
    let report = stage.chat(request, |_| {}).await.unwrap();
    let (opened, why) = report.opened.clone().unwrap();
    assert_eq!(opened, OpenMode::Briefed);
    assert!(
        why.starts_with("1 turn(s) of 3,000 tokens were summed up in checkpoint 1 of "),
        "{why}"
    );
    let sent = prompts(&stage).pop().unwrap();
    assert!(
        segue_tokens::count(&sent) <= BUDGET,
        "{}",
        segue_tokens::count(&sent)
    );
    assert!(sent.ends_with(&prompt));

    // A strict request resumes the native session although the prompt does not fit.
    let strict = self::stage(AutoCompaction::Always);
    let first = said(&strict, 3_000, Target::New).await;
    strict.script([say("noted"), done()]);
    let request = ChatRequest {
        strict: true,
        ..strict.request(&prompt, same(&first))
    };
    let report = strict.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.opened.unwrap().0, OpenMode::Resumed);
}

#[tokio::test]
async fn an_agent_that_waits_is_ended_when_what_it_knows_is_summed_up() {
    let stage = stage(AutoCompaction::Always);
    stage.script([say(&words(3_600)), done()]);
    let request = ChatRequest {
        keep_agent: true,
        ..stage.request("one", Target::New)
    };
    let first = stage.chat(request, |_| {}).await.unwrap();
    assert_eq!(compacted(&first).len(), 1);
    assert_eq!(stage.agent.heard.lock().unwrap().closed, 1);
    assert_eq!(stage.store.lease_holder(&first.session).await.unwrap(), None);
}

#[tokio::test]
async fn two_compactions_at_once_make_one_version_and_a_message_added_meanwhile_survives() {
    let stage = stage(AutoCompaction::Never);
    let first = stage.turn("one", Target::New).await;
    stage.turn("two", same(&first)).await;
    let session = stage.session_of(&first).await;
    let other = stage.beside_it();
    let adding = stage.beside_it();
    let (one, two, added) = tokio::join!(
        stage.engine.compact(&session),
        other.compact(&session),
        adding.add_message(&session.id, MessageAuthor::User, "also fix the docs"),
    );
    let held = |error: &EngineError| matches!(error, EngineError::Store(StoreError::Leased { .. }));
    for outcome in [&one, &two] {
        assert!(outcome.as_ref().map_or_else(held, |_| true), "{outcome:?}");
    }
    // A rejected call returns an error, and a retry adds the message.
    if let Err(error) = &added {
        assert!(held(error), "{error}");
        let again = stage
            .engine
            .add_message(&session.id, MessageAuthor::User, "also fix the docs");
        again.await.unwrap();
    } else if one.is_err() && two.is_err() {
        // The message was added first, under the lease.
        stage.engine.compact(&session).await.unwrap();
    }
    if one.is_err() && two.is_err() {
        // If the added message preceded both compactions, neither of them got the lease.
        stage.engine.compact(&session).await.unwrap();
    }
    let versions = stage.store.checkpoints(&session.id).await.unwrap();
    assert!(!versions.is_empty(), "{one:?} {two:?}");
    let covered: Vec<u32> = versions.iter().map(|version| version.covers).collect();
    assert!(
        covered.is_sorted_by(|a, b| a < b),
        "no turn is summed up twice: {covered:?}"
    );
    stage.turn("go on", same(&first)).await;
    let told = prompts(&stage).pop().unwrap();
    assert!(told.contains("also fix the docs"), "{told}");
    assert!(told.contains("> two"), "{told}");
}

#[tokio::test]
async fn a_session_that_somebody_is_at_work_in_is_not_compacted() {
    let stage = stage(AutoCompaction::Never);
    let first = stage.turn("one", Target::New).await;
    let session = stage.session_of(&first).await;
    let lease = stage.claim(&session.id, crate::scripted::living()).await;
    let refused = stage.engine.compact(&session).await.unwrap_err();
    assert!(refused.to_string().contains("process"), "{refused}");
    assert_eq!(stage.store.checkpoints(&session.id).await.unwrap(), []);
    stage.store.release_lease(&lease).await.unwrap();
    assert!(stage.engine.compact(&session).await.unwrap().created.is_some());
    let again = stage.engine.compact(&session).await.unwrap();
    assert!(again.created.is_none(), "nothing was said since");
}

/// An added message is sent with the next prompt, and counts like text of the prompt.
#[tokio::test]
async fn what_was_added_counts_with_the_prompt_that_tells_it() {
    let stage = stage(AutoCompaction::Always);
    let first = said(&stage, 2_000, Target::New).await;
    let added = format!("{} also fix the docs", words(2_300));
    let adding = stage
        .engine
        .add_message(&first.session, MessageAuthor::User, &added);
    adding.await.unwrap();
    let report = said(&stage, 20, same(&first)).await;
    assert_eq!(report.opened.unwrap().0, OpenMode::Briefed);
    let told = prompts(&stage).pop().unwrap();
    assert!(told.contains("also fix the docs"), "{told}");
    assert!(segue_tokens::count(&told) <= BUDGET);
}

/// A checkpoint that was made for another agent does not reduce the size of this agent's native session.
#[tokio::test]
async fn what_was_summed_up_already_is_told_to_a_new_native_session_all_the_same() {
    let stage = stage(AutoCompaction::Always);
    let first = said(&stage, 3_000, Target::New).await;
    let session = stage.session_of(&first).await;
    let head = session.head.unwrap();
    let found = stage.engine.plan_compaction(&session, head).await.unwrap();
    let found = found.unwrap();
    let lease = stage.claim(&session.id, crate::scripted::living()).await;
    let new = NewCheckpoint {
        turn: head,
        covers: found.covers,
        checkpoint: found.checkpoint,
        tokens: found.tokens,
        replaced: found.replaced,
        author: ItemAuthor::Extraction,
        reason: CheckpointReason::BriefTooLarge,
        last_read_turn: 0,
        at: Timestamp::UNIX_EPOCH,
    };
    stage.store.add_checkpoint(&lease, new, None).await.unwrap();
    stage.store.release_lease(&lease).await.unwrap();
    stage.script([say("noted"), done()]);
    let request = stage.request(&words(1_100), same(&first));
    let report = stage.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.opened.unwrap().0, OpenMode::Briefed);
    let legs = stage.store.legs(&session.id).await.unwrap();
    assert_eq!(legs[0].ended.map(|(_, why)| why), Some(LegEnd::Compacted));
    assert_eq!(
        (
            legs.len(),
            stage.store.checkpoints(&session.id).await.unwrap().len()
        ),
        (2, 1)
    );
}

/// A role that takes most of the budget leaves little to compact, which must not cause a compaction after every turn.
#[tokio::test]
async fn a_role_that_nearly_fills_the_budget_is_not_summed_up_after_each_turn() {
    let mut stage = stage(AutoCompaction::Always);
    let mut roles = RoleRegistry::default();
    let change = RoleOverride {
        description: Some(words(8_000)),
        ..RoleOverride::default()
    };
    assert!(roles.apply_override(&RoleName::parse("qa").unwrap(), change));
    let engine = stage.beside_it().with_budget(10_000).with_roles(roles);
    stage.engine = engine.with_policy(Policy {
        compaction: AutoCompaction::Always,
        ..Policy::default()
    });
    let first = said(&stage, 100, as_qa()).await;
    let session = stage.session_of(&first).await;
    let would = stage.engine.plan_compaction(&session, session.head.unwrap());
    let room = would.await.unwrap().unwrap().max_tokens;
    assert!(room <= 1_000, "{room}: the role has most of it");
    let mut times = 0;
    for _ in 0..20 {
        let report = said(&stage, 100, same(&first)).await;
        times += compacted(&report).len();
    }
    assert!((1..=7).contains(&times), "{times} times");
    for prompt in prompts(&stage) {
        let tokens = segue_tokens::count(&prompt);
        assert!(tokens <= 10_000, "{tokens}");
    }
}

/// A checkpoint that is too large for an agent's budget loses its least important items, not the text in its middle.
#[tokio::test]
async fn what_is_pinned_is_told_also_to_an_agent_with_less_room() {
    let mut stage = stage(AutoCompaction::Never).within(40_000);
    let first = stage.turn("Port the parser.", Target::New).await;
    for n in 0..300 {
        let prompt = format!("Always paint button {n} of the form invoice_{n} in colour {n}.");
        stage.turn(&prompt, same(&first)).await;
    }
    let session = stage.session_of(&first).await;
    let made = stage.engine.compact(&session).await.unwrap().created.unwrap();
    assert!(made.0.tokens > 4_000, "{}", made.0.tokens);
    let mut items = made.1.checkpoint.items.iter();
    let rule = items.find(|item| item.turn == 151).unwrap();
    stage.engine.pin_checkpoint_item(&session, rule.id, true).await.unwrap();
    stage.engine = stage.beside_it().with_budget(5_000);
    stage.turn("go on", same(&first)).await;
    let told = prompts(&stage).pop().unwrap();
    assert!(told.contains(&rule.text), "{told}");
    assert!(!told.contains("bytes are left out here"), "{told}");
    assert!(segue_tokens::count(&told) <= 5_000);
}
