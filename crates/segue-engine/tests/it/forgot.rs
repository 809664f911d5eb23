//! Agents that compact their own context receive a reminder of the user's rules and pinned items.

use segue_agents::{AgentError, AgentRefusal};
use segue_core::brief::END_OF_RECORD;
use segue_core::checkpoint::{ItemAuthor, Checkpoint, CheckpointItem, ItemKind, CheckpointReason};
use segue_core::session::{AgentEvent, DecisionKind, FailureClass, OpenMode};
use segue_engine::{MessageAuthor, Target, TurnReport};
use segue_store::{NewCheckpoint, Store};

use crate::scripted::{Cue, Stage, done, living, same, say};

const RULE: &str = "Never push to main without my review.";

fn prompts(stage: &Stage) -> Vec<String> {
    stage.agent.heard.lock().unwrap().prompts.clone()
}

/// Runs a turn in which the agent compacts its context.
async fn forgetful(stage: &Stage, prompt: &str, first: &TurnReport) -> TurnReport {
    stage.script([
        Cue::Event(AgentEvent::Compacted),
        // Some agents report it twice.
        Cue::Event(AgentEvent::Compacted),
        say("smaller now"),
        done(),
    ]);
    let request = stage.request(prompt, same(first));
    stage.chat(request, |_| {}).await.unwrap()
}

/// Creates a session in which the user stated a rule.
async fn ruled() -> (Stage, TurnReport) {
    let stage = Stage::new();
    let prompt = format!("Port the parser to the new lexer. {RULE}");
    let first = stage.turn(&prompt, Target::New).await;
    (stage, first)
}

#[tokio::test]
async fn the_rules_of_the_user_are_told_again_once() {
    let (stage, first) = ruled().await;
    let smaller = forgetful(&stage, "two", &first).await;
    let told = smaller.decisions.iter();
    let told = told.filter(|decision| decision.kind == DecisionKind::Compacted);
    assert_eq!(told.count(), 1, "{:?}", smaller.decisions);
    stage.turn("go on", same(&first)).await;
    stage.turn("and on", same(&first)).await;
    let prompts = prompts(&stage);
    assert_eq!(prompts[1], "two");
    assert!(prompts[2].contains(RULE), "{}", prompts[2]);
    assert!(prompts[2].ends_with(&format!("{END_OF_RECORD}\n\ngo on")));
    assert_eq!(prompts[3], "and on");
}

#[tokio::test]
async fn a_reminder_that_did_not_come_through_is_given_again() {
    let (stage, first) = ruled().await;
    forgetful(&stage, "two", &first).await;
    // A failed turn may not have delivered the reminder.
    let refusal = AgentRefusal::new(FailureClass::Agent, "no");
    stage.script([Cue::Fails(AgentError::from_refusal("the prompt", refusal))]);
    let request = stage.request("three", same(&first));
    stage.chat(request, |_| {}).await.unwrap();
    // If the agent compacts its context in the turn with the reminder, the next prompt needs another one.
    let mut request = stage.request("four", same(&first));
    request.force = true;
    stage.script([Cue::Event(AgentEvent::Compacted), say("ok"), done()]);
    stage.chat(request, |_| {}).await.unwrap();
    stage.turn("five", same(&first)).await;
    stage.turn("six", same(&first)).await;
    let told: Vec<bool> = prompts(&stage)
        .iter()
        .skip(1)
        .map(|prompt| prompt.contains(RULE))
        .collect();
    assert_eq!(told, [false, true, true, true, false]);
}

#[tokio::test]
async fn what_is_pinned_and_what_was_added_are_told_together() {
    let (stage, first) = ruled().await;
    let session = stage.session_of(&first).await;
    let lease = stage.claim(&first.session, living()).await;
    let pinned = CheckpointItem {
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
            items: vec![pinned],
            loop_state: None,
        },
        tokens: 5,
        replaced: 50,
        author: ItemAuthor::User,
        reason: CheckpointReason::Pinned,
        last_read_turn: 0,
        at: jiff::Timestamp::now(),
    };
    stage
        .store
        .add_checkpoint(&lease, version, None)
        .await
        .unwrap();
    stage.store.release_lease(&lease).await.unwrap();
    forgetful(&stage, "two", &first).await;
    let text = "the review is done";
    stage
        .engine
        .add_message(&first.session, MessageAuthor::User, text)
        .await
        .unwrap();
    stage.turn("go on", same(&first)).await;
    let sent = prompts(&stage).pop().unwrap();
    let pinned = sent.find("> - [1] the French docs\n").unwrap();
    let added = sent.find("> the review is done\n").unwrap();
    assert!(pinned < added, "{sent}");
    assert_eq!(sent.matches(END_OF_RECORD).count(), 1, "{sent}");
}

#[tokio::test]
async fn a_new_native_session_needs_no_reminder() {
    let (stage, first) = ruled().await;
    forgetful(&stage, "two", &first).await;
    *stage.agent.goes_on.lock().unwrap() = OpenMode::Fresh;
    let briefed = stage.turn("three", same(&first)).await;
    assert_eq!(briefed.opened.unwrap().0, OpenMode::Briefed);
    *stage.agent.goes_on.lock().unwrap() = OpenMode::Resumed;
    stage.turn("four", same(&first)).await;
    let prompts = prompts(&stage);
    assert!(!prompts[2].contains("made smaller"), "{}", prompts[2]);
    assert_eq!(prompts[3], "four");
}
