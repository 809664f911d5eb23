//! Agents that compact their own context receive a reminder of the user's rules and pinned items.

use segue_core::brief::END_OF_RECORD;
use segue_core::checkpoint::{Checkpoint, CheckpointItem, CheckpointReason, ItemAuthor, ItemKind};
use segue_core::session::{AgentEvent, DecisionKind, FailureClass, OpenMode};
use segue_engine::{MessageAuthor, Target, TurnReport};
use segue_providers::{AgentError, AgentRefusal};
use segue_store::NewCheckpoint;

use crate::scripted::{
    EngineHarness, ScriptedAction, current_process, end_turn, send_text, session_target,
};

const USER_RULE: &str = "Never push to main without my review.";

fn received_prompts(harness: &EngineHarness) -> Vec<String> {
    harness.agent.received.lock().unwrap().prompts.clone()
}

/// Runs a turn in which the agent compacts its context.
async fn run_compacting_turn(
    harness: &EngineHarness,
    prompt: &str,
    first: &TurnReport,
) -> TurnReport {
    harness.script([
        ScriptedAction::Event(AgentEvent::Compacted),
        // Some agents report it twice.
        ScriptedAction::Event(AgentEvent::Compacted),
        send_text("smaller now"),
        end_turn(),
    ]);
    let request = harness.request(prompt, session_target(first));
    harness.chat(request, |_| {}).await.unwrap()
}

/// Creates a session in which the user stated a rule.
async fn create_session_with_rule() -> (EngineHarness, TurnReport) {
    let harness = EngineHarness::new();
    let prompt = format!("Port the parser to the new lexer. {USER_RULE}");
    let first = harness.run_turn(&prompt, Target::New).await;
    (harness, first)
}

#[tokio::test]
async fn the_users_rules_are_sent_once_after_a_context_loss() {
    let (harness, first) = create_session_with_rule().await;
    let compacted = run_compacting_turn(&harness, "two", &first).await;
    let decisions = compacted.decisions.iter();
    let compactions = decisions.filter(|decision| decision.kind() == DecisionKind::Compacted);
    assert_eq!(compactions.count(), 1, "{:?}", compacted.decisions);
    harness.run_turn("go on", session_target(&first)).await;
    harness.run_turn("and on", session_target(&first)).await;
    let prompts = received_prompts(&harness);
    assert_eq!(prompts[1], "two");
    assert!(prompts[2].contains(USER_RULE), "{}", prompts[2]);
    assert!(prompts[2].ends_with(&format!("{END_OF_RECORD}\n\ngo on")));
    assert_eq!(prompts[3], "and on");
}

#[tokio::test]
async fn a_reminder_that_was_not_delivered_is_repeated() {
    let (harness, first) = create_session_with_rule().await;
    run_compacting_turn(&harness, "two", &first).await;
    // A failed turn may not have delivered the reminder.
    let refusal = AgentRefusal::new(FailureClass::Agent, "no");
    harness.script([ScriptedAction::TurnFailed(AgentError::from_refusal(
        "the prompt",
        refusal,
    ))]);
    let request = harness.request("three", session_target(&first));
    harness.chat(request, |_| {}).await.unwrap();
    // If the agent compacts its context in the turn with the reminder, the next prompt needs another one.
    let mut request = harness.request("four", session_target(&first));
    request.force = true;
    harness.script([
        ScriptedAction::Event(AgentEvent::Compacted),
        send_text("ok"),
        end_turn(),
    ]);
    harness.chat(request, |_| {}).await.unwrap();
    harness.run_turn("five", session_target(&first)).await;
    harness.run_turn("six", session_target(&first)).await;
    let has_rule: Vec<bool> = received_prompts(&harness)
        .iter()
        .skip(1)
        .map(|prompt| prompt.contains(USER_RULE))
        .collect();
    assert_eq!(has_rule, [false, true, true, true, false]);
}

#[tokio::test]
async fn pinned_items_and_added_messages_are_sent_together() {
    let (harness, first) = create_session_with_rule().await;
    let session = harness.load_session(&first).await;
    let lease = harness
        .acquire_lease(&first.session, current_process())
        .await;
    let pinned_item = CheckpointItem {
        id: 1,
        kind: ItemKind::Pending,
        text: "the French docs".into(),
        subject: None,
        turn: 1,
        message_index: 0,
        author: ItemAuthor::Extraction,
        weight: 1,
        pinned: true,
    };
    let version = NewCheckpoint {
        turn: session.head.unwrap(),
        covers: 1,
        checkpoint: Checkpoint {
            items: vec![pinned_item],
            loop_state: None,
        },
        tokens: 5,
        replaced: 50,
        author: ItemAuthor::User,
        reason: CheckpointReason::Pinned,
        last_read_turn: 0,
        at: jiff::Timestamp::now(),
    };
    harness.store.add_checkpoint(&lease, version).await.unwrap();
    harness.store.release_lease(&lease).await.unwrap();
    run_compacting_turn(&harness, "two", &first).await;
    let text = "the review is done";
    harness
        .engine
        .sessions()
        .add_message(&first.session, MessageAuthor::User, text)
        .await
        .unwrap();
    harness.run_turn("go on", session_target(&first)).await;
    let sent_prompt = received_prompts(&harness).pop().unwrap();
    let pinned_at = sent_prompt.find("> - [1] the French docs\n").unwrap();
    let added_at = sent_prompt.find("> the review is done\n").unwrap();
    assert!(pinned_at < added_at, "{sent_prompt}");
    assert_eq!(
        sent_prompt.matches(END_OF_RECORD).count(),
        1,
        "{sent_prompt}"
    );
}

#[tokio::test]
async fn a_new_native_session_needs_no_reminder() {
    let (harness, first) = create_session_with_rule().await;
    run_compacting_turn(&harness, "two", &first).await;
    *harness.agent.resume_mode.lock().unwrap() = OpenMode::Fresh;
    let briefed = harness.run_turn("three", session_target(&first)).await;
    assert_eq!(briefed.opened.unwrap().0, OpenMode::Briefed);
    *harness.agent.resume_mode.lock().unwrap() = OpenMode::Resumed;
    harness.run_turn("four", session_target(&first)).await;
    let prompts = received_prompts(&harness);
    assert!(
        !prompts[2].contains("context was compacted"),
        "{}",
        prompts[2]
    );
    assert_eq!(prompts[3], "four");
}
