//! Messages that are added without an agent reach the agent that receives the next prompt.

use std::time::Duration;

use segue_agents::AgentError;
use segue_agents::AgentRefusal;
use segue_core::id::{ProviderId, SessionId};
use segue_core::policy::Policy;
use segue_core::session::{FailureClass, OpenMode, Role, TurnState};
use segue_engine::{EngineError, MessageAuthor, StopLevel, Target, TurnEvent};
use segue_store::{Store, StoreError};
use tokio::sync::mpsc;

use crate::scripted::{Cue, Stage, done, same, say};

const FRAME: &str = "[Added to the record of this conversation since";

async fn add(stage: &Stage, id: &SessionId, text: &str) -> u32 {
    let added = stage.engine.add_message(id, MessageAuthor::User, text).await;
    added.unwrap().turn
}

fn prompts(stage: &Stage) -> Vec<String> {
    stage.agent.heard.lock().unwrap().prompts.clone()
}

#[tokio::test]
async fn a_native_session_that_goes_on_is_told_once() {
    let stage = Stage::new();
    let first = stage.turn("one", Target::New).await;
    assert_eq!(add(&stage, &first.session, "the build is red").await, 2);
    let third = stage.turn("three", same(&first)).await;
    assert_eq!(third.turn, 3);
    assert_eq!(third.opened.unwrap().0, OpenMode::Resumed);
    stage.turn("four", same(&first)).await;

    let prompts = prompts(&stage);
    assert_eq!((prompts[0].as_str(), prompts[2].as_str()), ("one", "four"));
    assert!(prompts[1].starts_with(FRAME), "{}", prompts[1]);
    assert!(prompts[1].contains("[Turn 2]\nuser:\n> the build is red\n"));
    assert!(prompts[1].ends_with("\n\nthree"));
    assert!(!prompts[1].contains("> one"), "it knows that by itself");
    // The record contains the prompt as the user typed it.
    let turns = stage.store.turns(&first.session).await.unwrap();
    let words = stage.store.messages(turns[2].id).await.unwrap()[0].plain_text();
    assert_eq!(words, "three");
}

#[tokio::test]
async fn an_agent_that_still_runs_is_told_too() {
    let stage = Stage::new();
    let mut request = stage.request("one", Target::New);
    request.keep_agent = true;
    stage.script([say("noted"), done()]);
    let first = stage.chat(request, |_| {}).await.unwrap();
    add(&stage, &first.session, "by the way").await;
    let next = stage.turn("go on", same(&first)).await;
    assert_eq!(next.opened.unwrap().0, OpenMode::Live);
    assert!(prompts(&stage)[1].contains("> by the way"));
}

#[tokio::test]
async fn a_prompt_that_failed_told_nobody_for_sure() {
    let stage = Stage::with(&[], Policy::default());
    let first = stage.turn("one", Target::New).await;
    add(&stage, &first.session, "by the way").await;
    let refusal = AgentRefusal::new(FailureClass::Agent, "no");
    stage.script([Cue::Fails(AgentError::from_refusal("the prompt", refusal))]);
    let failed = stage.chat(stage.request("two", same(&first)), |_| {}).await;
    assert_eq!(failed.unwrap().state, TurnState::Failed);
    let mut again = stage.request("three", same(&first));
    again.wait_preference = segue_core::policy::WaitPreference::SendNow;
    stage.script([say("ok"), done()]);
    stage.chat(again, |_| {}).await.unwrap();
    let told = |prompt: &String| prompt.contains("> by the way");
    assert_eq!(
        prompts(&stage).iter().map(told).collect::<Vec<_>>(),
        [false, true, true]
    );
}

#[tokio::test]
async fn a_new_native_session_has_it_in_its_brief() {
    let stage = Stage::with(&["codex"], Policy::default());
    let first = stage.turn("one", Target::New).await;
    add(&stage, &first.session, "by the way").await;
    let engine = &stage.engine;
    let answer = engine
        .add_message(&first.session, MessageAuthor::Assistant, "somebody answered")
        .await;
    assert_eq!(answer.unwrap().turn, 3);
    let session = stage.session_of(&first).await;
    let codex = ProviderId::parse("codex").unwrap();
    engine.handoff(&session, &codex).await.unwrap();
    let cues = &stage.others[0].cues;
    cues.lock().unwrap().extend([say("ok"), done()]);
    let next = stage.chat(stage.request("go on", same(&first)), |_| {});
    assert_eq!(next.await.unwrap().opened.unwrap().0, OpenMode::Briefed);
    let heard = stage.others[0].heard.lock().unwrap();
    assert!(heard.prompts[0].contains("[Turn 2]\nuser:\n> by the way\n"));
    assert!(heard.prompts[0].contains("[Turn 3]\nassistant:\n> somebody answered\n"));
    assert!(!heard.prompts[0].contains(FRAME), "once is enough");
}

#[tokio::test]
async fn what_was_reverted_is_not_told() {
    let stage = Stage::new();
    let first = stage.turn("one", Target::New).await;
    add(&stage, &first.session, "by the way").await;
    let session = stage.session_of(&first).await;
    stage.engine.revert_session(&session, 1).await.unwrap();
    stage.turn("two", same(&first)).await;
    assert_eq!(prompts(&stage), ["one", "two"]);
}

#[tokio::test]
async fn nobody_adds_to_a_session_that_is_at_work() {
    let stage = Stage::new();
    let first = stage.turn("one", Target::New).await;
    stage.script([Cue::Hang]);
    let (sender, mut events) = mpsc::channel(8);
    let chat = stage
        .engine
        .chat(stage.request("two", same(&first)), sender);
    let meanwhile = async {
        while let Some(event) = events.recv().await {
            if matches!(event, TurnEvent::Opened { .. }) {
                let refused = stage
                    .engine
                    .add_message(&first.session, MessageAuthor::User, "now")
                    .await;
                assert!(matches!(
                    refused,
                    Err(EngineError::Store(StoreError::Leased { .. }))
                ));
                stage.stop.send_replace(StopLevel::Graceful);
            }
        }
    };
    let (report, ()) = tokio::join!(chat, meanwhile);
    assert_eq!(report.unwrap().state, TurnState::Cancelled);
    let turns = stage.store.turns(&first.session).await.unwrap();
    assert_eq!(turns.len(), 2);
}

/// A dropped turn releases the session although its process is still alive. The next call closes the turn.
#[tokio::test]
async fn a_turn_that_was_dropped_does_not_keep_the_session() {
    let stage = Stage::new();
    let first = stage.turn("one", Target::New).await;
    stage.script([Cue::Hang]);
    {
        let (sender, mut events) = mpsc::channel(8);
        let chat = stage
            .engine
            .chat(stage.request("two", same(&first)), sender);
        let opened = async {
            while let Some(event) = events.recv().await {
                if matches!(event, TurnEvent::Opened { .. }) {
                    return;
                }
            }
        };
        tokio::select! {
            _ = chat => panic!("it hangs"),
            () = opened => {}
        }
    }
    let added = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            let added = stage
                .engine
                .add_message(&first.session, MessageAuthor::User, "still there?")
                .await;
            match added {
                Err(EngineError::Store(StoreError::Leased { .. })) => tokio::task::yield_now().await,
                added => return added.unwrap(),
            }
        }
    });
    let added = added.await.unwrap();
    assert_eq!(added.turn, 3);
    assert_eq!(added.decisions.len(), 1, "{:?}", added.decisions);
    let turns = stage.store.turns(&first.session).await.unwrap();
    assert_eq!(turns[1].state, TurnState::Interrupted);
    let said = stage.store.messages(turns[2].id).await.unwrap();
    assert_eq!((said[0].role, said.len()), (Role::User, 1));
}
