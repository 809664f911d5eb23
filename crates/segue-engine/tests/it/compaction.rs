//! Compaction, automatic and on request: when it happens, how often, and the brief that follows it.

use jiff::Timestamp;
use segue_core::agent::{RoleOverride, RoleRegistry};
use segue_core::checkpoint::{CheckpointReason, ItemAuthor};
use segue_core::policy::{AutoCompaction, Policy};
use segue_core::scope::{Purpose, RoleName, Scope};
use segue_core::session::{DecisionKind, LegEnd, OpenMode};
use segue_engine::{
    AccessError, ChatRequest, CheckpointEdit, EngineError, EngineSettings, MessageAuthor, Target,
    TurnEvent, TurnReport,
};
use segue_store::{NewCheckpoint, StoreError};

use crate::scripted::{EngineHarness, ScriptedAction, end_turn, send_text, session_target};
use crate::{decision_text, open_mode_and_reason};

const BUDGET_TOKENS: u64 = 4_000;

/// Creates a harness with automatic compaction.
fn harness_with_compaction(compaction: AutoCompaction) -> EngineHarness {
    // Loads the vocabulary, so that counts are available without delay.
    assert_eq!(segue_tokens::count("hello world"), 2);
    EngineHarness::new()
        .with_budget(BUDGET_TOKENS)
        .with_policy(Policy {
            compaction,
            ..Policy::default()
        })
}

/// Returns a text of exactly `tokens` tokens.
fn text_of_tokens(tokens: usize) -> String {
    let text = "word ".repeat(tokens).trim_end().to_owned();
    assert_eq!(segue_tokens::count(&text), tokens as u64);
    text
}

/// Runs a turn of `tokens` tokens, including the prompt.
async fn run_turn_of_tokens(harness: &EngineHarness, tokens: usize, target: Target) -> TurnReport {
    harness.script([send_text(&text_of_tokens(tokens - 10)), end_turn()]);
    let request = harness.request(&text_of_tokens(10), target);
    harness.chat(request, |_| {}).await.unwrap()
}

fn compaction_texts(report: &TurnReport) -> Vec<String> {
    let decisions = report.decisions.iter();
    let compactions = decisions.filter(|decision| decision.kind() == DecisionKind::Compacted);
    compactions.map(decision_text).collect()
}

fn received_prompts(harness: &EngineHarness) -> Vec<String> {
    harness.agent.received.lock().unwrap().prompts.clone()
}

fn qa_target() -> Target {
    Target::Scope(Purpose {
        role: Some(RoleName::parse("qa").unwrap()),
        ..Purpose::for_scope(Scope::Project)
    })
}

#[tokio::test]
async fn a_session_is_compacted_at_90_percent_of_the_budget() {
    let harness = harness_with_compaction(AutoCompaction::Always);
    let first = run_turn_of_tokens(&harness, 1_000, Target::New).await;
    let second = run_turn_of_tokens(&harness, 2_599, session_target(&first)).await;
    assert_eq!(
        compaction_texts(&second),
        [""; 0],
        "3,599 of 4,000 tokens do not cause a compaction"
    );
    let legs = harness.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].estimated_tokens, Some(3_599));

    let other_report = run_turn_of_tokens(&harness, 1_000, Target::New).await;
    let mut events = Vec::new();
    harness.script([send_text(&text_of_tokens(2_590)), end_turn()]);
    let request = harness.request(&text_of_tokens(10), session_target(&other_report));
    let report = harness.chat(request, |event| events.push(event)).await;
    let report = report.unwrap();
    let texts = compaction_texts(&report);
    assert_eq!(texts.len(), 1, "{report:?}");
    assert!(
        texts[0].starts_with("compacted 2 turns (3,600 tokens) into checkpoint 1 ("),
        "{texts:?}"
    );
    let last = events.last().unwrap();
    assert!(matches!(last, TurnEvent::Ended { .. }), "{last:?}");
    let legs = harness.store.legs(&other_report.session).await.unwrap();
    assert_eq!(
        legs[0].ended.map(|(_, reason)| reason),
        Some(LegEnd::Compacted)
    );
    let versions = harness
        .store
        .checkpoints(&other_report.session)
        .await
        .unwrap();
    assert_eq!((versions[0].covers, versions[0].replaced), (2, 3_600));
    assert_eq!(versions[0].reason, CheckpointReason::Budget);
    // The log contains the decision once.
    let log = harness
        .store
        .decisions(&other_report.session, 50)
        .await
        .unwrap();
    let logged = log
        .iter()
        .filter(|(_, decision)| decision_text(decision) == texts[0]);
    assert_eq!(logged.count(), 1);

    let next = harness
        .run_turn("and now?", session_target(&other_report))
        .await;
    assert_eq!(next.opened.clone().unwrap().0, OpenMode::Briefed);
    let brief = received_prompts(&harness).pop().unwrap();
    assert!(brief.contains("[Summary of earlier work"), "{brief}");
    assert!(segue_tokens::count(&brief) <= BUDGET_TOKENS);
    assert_eq!(
        compaction_texts(&next),
        [""; 0],
        "the turns are compacted once"
    );
}

#[tokio::test]
async fn automatic_compaction_depends_on_the_setting_and_the_role() {
    let cases = [
        (AutoCompaction::WithRole, qa_target(), 1),
        (AutoCompaction::WithRole, Target::New, 0),
        (AutoCompaction::Never, qa_target(), 0),
        (AutoCompaction::Always, Target::New, 1),
    ];
    for (compaction, target, times) in cases {
        let harness = harness_with_compaction(compaction);
        let report = run_turn_of_tokens(&harness, 3_600, target.clone()).await;
        assert_eq!(
            compaction_texts(&report).len(),
            times,
            "{compaction:?} {target:?}"
        );
    }
}

/// If the size of the native session is unknown, it is estimated from the record.
#[tokio::test]
async fn a_native_session_of_unknown_size_is_estimated_from_the_record() {
    let harness = harness_with_compaction(AutoCompaction::Always);
    let first = run_turn_of_tokens(&harness, 1_000, Target::New).await;
    harness.script([
        ScriptedAction::Event(segue_core::session::AgentEvent::Compacted),
        send_text("noted"),
        end_turn(),
    ]);
    let request = harness.request(&text_of_tokens(10), session_target(&first));
    let report = harness.chat(request, |_| {}).await.unwrap();
    let legs = harness.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].estimated_tokens, None);
    assert_eq!(
        harness.store.checkpoints(&report.session).await.unwrap(),
        []
    );
    let report = run_turn_of_tokens(&harness, 2_600, session_target(&first)).await;
    assert_eq!(compaction_texts(&report).len(), 1, "{report:?}");
}

#[tokio::test]
async fn a_prompt_that_does_not_fit_starts_a_new_native_session() {
    let harness = harness_with_compaction(AutoCompaction::Always);
    let first = run_turn_of_tokens(&harness, 3_000, Target::New).await;
    let prompt = text_of_tokens(1_100);
    harness.script([send_text("noted"), end_turn()]);
    let request = harness.request(&prompt, session_target(&first));
    let report = harness.chat(request, |_| {}).await.unwrap();
    let (mode, reason) = open_mode_and_reason(&report);
    assert_eq!(mode, OpenMode::Briefed);
    assert!(
        reason.starts_with("compacted 1 turn (3,000 tokens) into checkpoint 1 ("),
        "{reason}"
    );
    let sent_prompt = received_prompts(&harness).pop().unwrap();
    assert!(
        segue_tokens::count(&sent_prompt) <= BUDGET_TOKENS,
        "{}",
        segue_tokens::count(&sent_prompt)
    );
    assert!(sent_prompt.ends_with(&prompt));

    // A strict request resumes the native session although the prompt does not fit.
    let strict_harness = self::harness_with_compaction(AutoCompaction::Always);
    let first = run_turn_of_tokens(&strict_harness, 3_000, Target::New).await;
    strict_harness.script([send_text("noted"), end_turn()]);
    let request = ChatRequest {
        strict: true,
        ..strict_harness.request(&prompt, session_target(&first))
    };
    let report = strict_harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.opened.unwrap().0, OpenMode::Resumed);
}

#[tokio::test]
async fn a_pooled_agent_is_ended_when_its_session_is_compacted() {
    let harness = harness_with_compaction(AutoCompaction::Always);
    harness.script([send_text(&text_of_tokens(3_600)), end_turn()]);
    let request = ChatRequest {
        keep_agent: true,
        ..harness.request("one", Target::New)
    };
    let first = harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(compaction_texts(&first).len(), 1);
    assert_eq!(harness.agent.received.lock().unwrap().close_count, 1);
    assert_eq!(
        harness.store.lease_holder(&first.session).await.unwrap(),
        None
    );
}

#[tokio::test]
async fn concurrent_compactions_cover_no_turn_twice_and_lose_no_added_message() {
    let harness = harness_with_compaction(AutoCompaction::Never);
    let first = harness.run_turn("one", Target::New).await;
    harness.run_turn("two", session_target(&first)).await;
    let session = harness.load_session(&first).await;
    let second_engine = harness.second_engine();
    let third_engine = harness.second_engine();
    let (first_outcome, second_outcome, added) = tokio::join!(
        harness.engine.compactor().compact(&session),
        second_engine.compactor().compact(&session),
        third_engine
            .sessions()
            .add_message(&session.id, MessageAuthor::User, "also fix the docs"),
    );
    let is_leased = |error: &EngineError| {
        matches!(
            error,
            EngineError::Access(AccessError::Store(StoreError::Leased { .. }))
        )
    };
    let first_outcome = first_outcome.map_err(EngineError::from);
    let second_outcome = second_outcome.map_err(EngineError::from);
    for outcome in [&first_outcome, &second_outcome] {
        assert!(
            outcome.as_ref().map_or_else(is_leased, |_| true),
            "{outcome:?}"
        );
    }
    // A rejected call returns an error, and a retry adds the message.
    if let Err(error) = added.map_err(EngineError::from) {
        assert!(is_leased(&error), "{error}");
        let retry = harness.engine.sessions().add_message(
            &session.id,
            MessageAuthor::User,
            "also fix the docs",
        );
        retry.await.unwrap();
    } else if first_outcome.is_err() && second_outcome.is_err() {
        // The message was added first, under the lease.
        harness.engine.compactor().compact(&session).await.unwrap();
    }
    if first_outcome.is_err() && second_outcome.is_err() {
        // If the added message preceded both compactions, neither of them got the lease.
        harness.engine.compactor().compact(&session).await.unwrap();
    }
    let versions = harness.store.checkpoints(&session.id).await.unwrap();
    assert!(!versions.is_empty(), "{first_outcome:?} {second_outcome:?}");
    let covered: Vec<u32> = versions.iter().map(|version| version.covers).collect();
    assert!(
        covered.is_sorted_by(|a, b| a < b),
        "no turn is compacted twice: {covered:?}"
    );
    harness.run_turn("go on", session_target(&first)).await;
    let brief = received_prompts(&harness).pop().unwrap();
    assert!(brief.contains("also fix the docs"), "{brief}");
    assert!(brief.contains("> two"), "{brief}");
}

#[tokio::test]
async fn a_leased_session_is_not_compacted() {
    let harness = harness_with_compaction(AutoCompaction::Never);
    let first = harness.run_turn("one", Target::New).await;
    let session = harness.load_session(&first).await;
    let lease = harness
        .acquire_lease(&session.id, crate::scripted::current_process())
        .await;
    let error = harness
        .engine
        .compactor()
        .compact(&session)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("process"), "{error}");
    assert_eq!(harness.store.checkpoints(&session.id).await.unwrap(), []);
    harness.store.release_lease(&lease).await.unwrap();
    assert!(
        harness
            .engine
            .compactor()
            .compact(&session)
            .await
            .unwrap()
            .created
            .is_some()
    );
    let second_compaction = harness.engine.compactor().compact(&session).await.unwrap();
    assert!(
        second_compaction.created.is_none(),
        "no turn was added since the first compaction"
    );
}

/// An added message is sent with the next prompt, and counts like text of the prompt.
#[tokio::test]
async fn added_messages_count_as_part_of_the_prompt() {
    let harness = harness_with_compaction(AutoCompaction::Always);
    let first = run_turn_of_tokens(&harness, 2_000, Target::New).await;
    let added = format!("{} also fix the docs", text_of_tokens(2_300));
    let adding = harness
        .engine
        .sessions()
        .add_message(&first.session, MessageAuthor::User, &added);
    adding.await.unwrap();
    let report = run_turn_of_tokens(&harness, 20, session_target(&first)).await;
    assert_eq!(report.opened.unwrap().0, OpenMode::Briefed);
    let brief = received_prompts(&harness).pop().unwrap();
    assert!(brief.contains("also fix the docs"), "{brief}");
    assert!(segue_tokens::count(&brief) <= BUDGET_TOKENS);
}

/// A checkpoint that was made for another agent does not reduce the size of this agent's native session.
#[tokio::test]
async fn an_existing_checkpoint_still_starts_a_new_native_session() {
    let harness = harness_with_compaction(AutoCompaction::Always);
    let first = run_turn_of_tokens(&harness, 3_000, Target::New).await;
    let session = harness.load_session(&first).await;
    let head = session.head.unwrap();
    let plan = harness
        .engine
        .briefs()
        .plan_compaction(&session, head, &session.provider)
        .await
        .unwrap();
    let plan = plan.unwrap();
    let lease = harness
        .acquire_lease(&session.id, crate::scripted::current_process())
        .await;
    let new_checkpoint = NewCheckpoint {
        turn: head,
        covers: plan.covers,
        checkpoint: plan.checkpoint,
        tokens: plan.tokens,
        replaced: plan.replaced,
        author: ItemAuthor::Extraction,
        reason: CheckpointReason::BriefTooLarge,
        last_read_turn: 0,
        at: Timestamp::UNIX_EPOCH,
    };
    harness
        .store
        .add_checkpoint(&lease, new_checkpoint)
        .await
        .unwrap();
    harness.store.release_lease(&lease).await.unwrap();
    harness.script([send_text("noted"), end_turn()]);
    let request = harness.request(&text_of_tokens(1_100), session_target(&first));
    let report = harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.opened.unwrap().0, OpenMode::Briefed);
    let legs = harness.store.legs(&session.id).await.unwrap();
    assert_eq!(
        legs[0].ended.map(|(_, reason)| reason),
        Some(LegEnd::Compacted)
    );
    assert_eq!(
        (
            legs.len(),
            harness.store.checkpoints(&session.id).await.unwrap().len()
        ),
        (2, 1)
    );
}

/// A role that takes most of the budget leaves little to compact, which must not cause a compaction after every turn.
#[tokio::test]
async fn a_large_role_does_not_cause_a_compaction_after_every_turn() {
    let mut harness = harness_with_compaction(AutoCompaction::Always);
    let mut roles = RoleRegistry::default();
    let change = RoleOverride {
        description: Some(text_of_tokens(8_000)),
        ..RoleOverride::default()
    };
    assert!(roles.apply_override(&RoleName::parse("qa").unwrap(), change));
    harness.engine = harness.second_engine_with(EngineSettings {
        budget: 10_000,
        roles,
        policy: Policy {
            compaction: AutoCompaction::Always,
            ..Policy::default()
        },
        ..EngineSettings::default()
    });
    let first = run_turn_of_tokens(&harness, 100, qa_target()).await;
    let session = harness.load_session(&first).await;
    let plan =
        harness
            .engine
            .briefs()
            .plan_compaction(&session, session.head.unwrap(), &session.provider);
    let max_tokens = plan.await.unwrap().unwrap().max_tokens;
    assert!(
        max_tokens <= 1_000,
        "{max_tokens}, but the role takes most of the budget"
    );
    let mut times = 0;
    for _ in 0..20 {
        let report = run_turn_of_tokens(&harness, 100, session_target(&first)).await;
        times += compaction_texts(&report).len();
    }
    assert!((1..=7).contains(&times), "{times} times");
    for prompt in received_prompts(&harness) {
        let tokens = segue_tokens::count(&prompt);
        assert!(tokens <= 10_000, "{tokens}");
    }
}

/// A checkpoint that is too large for an agent's budget loses its least important items, not the text in its middle.
#[tokio::test]
async fn a_pinned_item_is_briefed_even_with_a_small_budget() {
    let mut harness = harness_with_compaction(AutoCompaction::Never).with_budget(40_000);
    let first = harness.run_turn("Port the parser.", Target::New).await;
    for n in 0..300 {
        let prompt = format!("Always paint button {n} of the form invoice_{n} in colour {n}.");
        harness.run_turn(&prompt, session_target(&first)).await;
    }
    let session = harness.load_session(&first).await;
    let created = harness
        .engine
        .compactor()
        .compact(&session)
        .await
        .unwrap()
        .created
        .unwrap();
    assert!(created.0.tokens > 4_000, "{}", created.0.tokens);
    let mut items = created.1.checkpoint.items.iter();
    let rule = items.find(|item| item.turn == 151).unwrap();
    harness
        .engine
        .compactor()
        .change_checkpoint(
            &session,
            CheckpointEdit::Pin {
                item: rule.id,
                pinned: true,
            },
        )
        .await
        .unwrap();
    harness.engine = harness.second_engine_with(EngineSettings {
        budget: 5_000,
        ..EngineSettings::default()
    });
    harness.run_turn("go on", session_target(&first)).await;
    let brief = received_prompts(&harness).pop().unwrap();
    assert!(brief.contains(&rule.text), "{brief}");
    assert!(!brief.contains("bytes omitted"), "{brief}");
    assert!(segue_tokens::count(&brief) <= 5_000);
}
