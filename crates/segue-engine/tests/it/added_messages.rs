//! Messages that are added without an agent reach the agent that receives the next prompt.

use std::time::Duration;

use segue_core::id::{ProviderId, SessionId};
use segue_core::policy::Policy;
use segue_core::session::{FailureClass, OpenMode, Role, TurnState};
use segue_engine::{AccessError, MessageAuthor, SessionError, StopLevel, Target, TurnEvent};
use segue_providers::AgentError;
use segue_providers::AgentRefusal;
use segue_store::StoreError;
use tokio::sync::mpsc;

use crate::scripted::{EngineHarness, ScriptedAction, end_turn, send_text, session_target};

const ADDED_MESSAGES_HEADING: &str = "[Messages added to this conversation since your last answer";

async fn add_user_message(harness: &EngineHarness, id: &SessionId, text: &str) -> u32 {
    let added = harness
        .engine
        .sessions()
        .add_message(id, MessageAuthor::User, text)
        .await;
    added.unwrap().turn
}

fn received_prompts(harness: &EngineHarness) -> Vec<String> {
    harness.agent.received.lock().unwrap().prompts.clone()
}

#[tokio::test]
async fn a_resumed_native_session_receives_added_messages_once() {
    let harness = EngineHarness::new();
    let first = harness.run_turn("one", Target::New).await;
    assert_eq!(
        add_user_message(&harness, &first.session, "the build is red").await,
        2
    );
    let third = harness.run_turn("three", session_target(&first)).await;
    assert_eq!(third.turn, 3);
    assert_eq!(third.opened.unwrap().0, OpenMode::Resumed);
    harness.run_turn("four", session_target(&first)).await;

    let prompts = received_prompts(&harness);
    assert_eq!((prompts[0].as_str(), prompts[2].as_str()), ("one", "four"));
    assert!(
        prompts[1].starts_with(ADDED_MESSAGES_HEADING),
        "{}",
        prompts[1]
    );
    assert!(prompts[1].contains("[Turn 2]\nuser:\n> the build is red\n"));
    assert!(prompts[1].ends_with("\n\nthree"));
    assert!(
        !prompts[1].contains("> one"),
        "the native session already contains it"
    );
    // The record contains the prompt as the user typed it.
    let turns = harness.store.turns(&first.session).await.unwrap();
    let prompt_text = harness.store.messages(turns[2].id).await.unwrap()[0].plain_text();
    assert_eq!(prompt_text, "three");
}

#[tokio::test]
async fn a_running_agent_receives_added_messages() {
    let harness = EngineHarness::new();
    let mut request = harness.request("one", Target::New);
    request.keep_agent = true;
    harness.script([send_text("noted"), end_turn()]);
    let first = harness.chat(request, |_| {}).await.unwrap();
    add_user_message(&harness, &first.session, "by the way").await;
    let next = harness.run_turn("go on", session_target(&first)).await;
    assert_eq!(next.opened.unwrap().0, OpenMode::Live);
    assert!(received_prompts(&harness)[1].contains("> by the way"));
}

#[tokio::test]
async fn added_messages_are_repeated_after_a_failed_prompt() {
    let harness = EngineHarness::with_agents(&[], Policy::default());
    let first = harness.run_turn("one", Target::New).await;
    add_user_message(&harness, &first.session, "by the way").await;
    let refusal = AgentRefusal::new(FailureClass::Agent, "no");
    harness.script([ScriptedAction::TurnFailed(AgentError::from_refusal(
        "the prompt",
        refusal,
    ))]);
    let failed = harness
        .chat(harness.request("two", session_target(&first)), |_| {})
        .await;
    assert_eq!(failed.unwrap().state, TurnState::Failed);
    let mut retry = harness.request("three", session_target(&first));
    retry.wait_preference = segue_core::policy::WaitPreference::SendNow;
    harness.script([send_text("ok"), end_turn()]);
    harness.chat(retry, |_| {}).await.unwrap();
    let has_added_message = |prompt: &String| prompt.contains("> by the way");
    assert_eq!(
        received_prompts(&harness)
            .iter()
            .map(has_added_message)
            .collect::<Vec<_>>(),
        [false, true, true]
    );
}

#[tokio::test]
async fn a_new_native_session_receives_added_messages_in_its_brief() {
    let harness = EngineHarness::with_agents(&["codex"], Policy::default());
    let first = harness.run_turn("one", Target::New).await;
    add_user_message(&harness, &first.session, "by the way").await;
    let engine = &harness.engine;
    let answer = engine
        .sessions()
        .add_message(
            &first.session,
            MessageAuthor::Assistant,
            "another tool answered",
        )
        .await;
    assert_eq!(answer.unwrap().turn, 3);
    let session = harness.load_session(&first).await;
    let codex = ProviderId::parse("codex").unwrap();
    engine.sessions().handoff(&session, &codex).await.unwrap();
    let actions = &harness.other_agents[0].actions;
    actions
        .lock()
        .unwrap()
        .extend([send_text("ok"), end_turn()]);
    let next = harness.chat(harness.request("go on", session_target(&first)), |_| {});
    assert_eq!(next.await.unwrap().opened.unwrap().0, OpenMode::Briefed);
    let received = harness.other_agents[0].received.lock().unwrap();
    assert!(received.prompts[0].contains("[Turn 2]\nuser:\n> by the way\n"));
    assert!(received.prompts[0].contains("[Turn 3]\nassistant:\n> another tool answered\n"));
    assert!(
        !received.prompts[0].contains(ADDED_MESSAGES_HEADING),
        "the brief already contains the messages"
    );
}

#[tokio::test]
async fn reverted_messages_are_not_sent() {
    let harness = EngineHarness::new();
    let first = harness.run_turn("one", Target::New).await;
    add_user_message(&harness, &first.session, "by the way").await;
    let session = harness.load_session(&first).await;
    harness
        .engine
        .sessions()
        .revert_session(&session, 1)
        .await
        .unwrap();
    harness.run_turn("two", session_target(&first)).await;
    assert_eq!(received_prompts(&harness), ["one", "two"]);
}

#[tokio::test]
async fn messages_cannot_be_added_to_a_running_session() {
    let harness = EngineHarness::new();
    let first = harness.run_turn("one", Target::New).await;
    harness.script([ScriptedAction::Hang]);
    let (sender, mut events) = mpsc::channel(8);
    let chat = harness
        .engine
        .chat(harness.request("two", session_target(&first)), sender);
    let add_during_turn = async {
        while let Some(event) = events.recv().await {
            if matches!(event, TurnEvent::Opened { .. }) {
                let result = harness
                    .engine
                    .sessions()
                    .add_message(&first.session, MessageAuthor::User, "now")
                    .await;
                assert!(matches!(
                    result,
                    Err(SessionError::Access(AccessError::Store(
                        StoreError::Leased { .. }
                    )))
                ));
                harness.stop.send_replace(StopLevel::Graceful);
            }
        }
    };
    let (report, ()) = tokio::join!(chat, add_during_turn);
    assert_eq!(report.unwrap().state, TurnState::Cancelled);
    let turns = harness.store.turns(&first.session).await.unwrap();
    assert_eq!(turns.len(), 2);
}

/// A dropped turn releases the session although its process is still alive. The next call closes the turn.
#[tokio::test]
async fn a_dropped_turn_releases_the_session() {
    let harness = EngineHarness::new();
    let first = harness.run_turn("one", Target::New).await;
    harness.script([ScriptedAction::Hang]);
    {
        let (sender, mut events) = mpsc::channel(8);
        let chat = harness
            .engine
            .chat(harness.request("two", session_target(&first)), sender);
        let wait_until_opened = async {
            while let Some(event) = events.recv().await {
                if matches!(event, TurnEvent::Opened { .. }) {
                    return;
                }
            }
        };
        tokio::select! {
            _ = chat => panic!("the agent hangs, but the turn ended"),
            () = wait_until_opened => {}
        }
    }
    let added = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            let added = harness
                .engine
                .sessions()
                .add_message(&first.session, MessageAuthor::User, "still there?")
                .await;
            match added {
                Err(SessionError::Access(AccessError::Store(StoreError::Leased { .. }))) => {
                    tokio::task::yield_now().await;
                }
                added => return added.unwrap(),
            }
        }
    });
    let added = added.await.unwrap();
    assert_eq!(added.turn, 3);
    assert_eq!(added.decisions.len(), 1, "{:?}", added.decisions);
    let turns = harness.store.turns(&first.session).await.unwrap();
    assert_eq!(turns[1].state, TurnState::Interrupted);
    let messages = harness.store.messages(turns[2].id).await.unwrap();
    assert_eq!((messages[0].role, messages.len()), (Role::User, 1));
}
