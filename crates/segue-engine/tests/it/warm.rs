//! A waiting agent keeps the lease of its session.

use std::process::{Child, Command};

use segue_core::id::ProviderId;
use segue_core::session::OpenMode;
use segue_engine::{ChatRequest, Engine, EngineError, Target, TurnReport};
use segue_store::{Store, StoreError};

use crate::scripted::{Stage, done, same, say};

/// Creates a stage whose agent has a process that runs until it is killed.
fn stage() -> (Stage, Child) {
    let stage = Stage::with(&["codex"], segue_core::policy::Policy::default());
    let program = Command::new("sleep").arg("600").spawn().unwrap();
    *stage.agent.process.lock().unwrap() = segue_agents::identify_process(program.id());
    (stage, program)
}

fn end(mut program: Child) {
    program.kill().unwrap();
    program.wait().unwrap();
}

async fn keep(stage: &Stage, prompt: &str, target: Target) -> TurnReport {
    stage.script([say("yes"), done()]);
    let request = ChatRequest {
        keep_agent: true,
        ..stage.request(prompt, target)
    };
    stage.chat(request, |_| {}).await.unwrap()
}

/// Runs a turn with a second engine, which acts like another process.
async fn elsewhere(
    engine: &Engine,
    stage: &Stage,
    first: &TurnReport,
) -> Result<TurnReport, EngineError> {
    let (sender, mut events) = tokio::sync::mpsc::channel(8);
    let listening = async { while events.recv().await.is_some() {} };
    let request = stage.request("from elsewhere", same(first));
    tokio::join!(engine.chat(request, sender), listening).0
}

#[tokio::test]
async fn an_agent_that_waits_keeps_others_out_until_it_is_let_go() {
    let (stage, program) = stage();
    let other = stage.beside_it();
    let first = keep(&stage, "one", Target::New).await;
    let session = stage.store.session(&first.session).await.unwrap().unwrap();

    let refused = elsewhere(&other, &stage, &first).await.unwrap_err();
    let EngineError::Store(StoreError::Leased { holder: by, .. }) = &refused else {
        panic!("{refused:?}");
    };
    assert!(by.is_idle(), "{by:?}");
    assert_eq!(by.agent, *stage.agent.process.lock().unwrap());
    assert!(
        refused.to_string().contains("is open in process"),
        "{refused}"
    );
    let refused = other.preview_revert(&session, 1).await;
    assert!(matches!(
        refused,
        Err(EngineError::Store(StoreError::Leased { .. }))
    ));

    // All operations of this engine use the same lease.
    let second = keep(&stage, "two", same(&first)).await;
    assert_eq!(second.opened.unwrap().0, OpenMode::Live);
    stage.engine.preview_revert(&session, 1).await.unwrap();
    stage.engine.revert_session(&session, 1).await.unwrap();
    stage.engine.undo_revert(&session).await.unwrap();
    assert!(elsewhere(&other, &stage, &first).await.is_err());
    let holder = stage.store.lease_holder(&first.session).await.unwrap().unwrap();
    assert_eq!(holder.epoch, by.epoch);
    let third = keep(&stage, "three", same(&first)).await;
    assert_eq!(third.opened.unwrap().0, OpenMode::Live);

    stage.engine.close().await;
    assert_eq!(stage.store.lease_holder(&first.session).await.unwrap(), None);
    stage.script([say("yes"), done()]);
    elsewhere(&other, &stage, &first).await.unwrap();
    // The agent was ended, so the session is resumed.
    let fifth = keep(&stage, "five", same(&first)).await;
    assert_eq!((fifth.turn, fifth.opened.unwrap().0), (5, OpenMode::Resumed));
    end(program);
}

#[tokio::test]
async fn a_handoff_lets_the_agent_go_and_the_session_with_it() {
    let (stage, program) = stage();
    let first = keep(&stage, "one", Target::New).await;
    let session = stage.store.session(&first.session).await.unwrap().unwrap();
    let codex = ProviderId::parse("codex").unwrap();
    stage.engine.handoff(&session, &codex).await.unwrap();
    assert_eq!(stage.store.lease_holder(&first.session).await.unwrap(), None);
    end(program);
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_the_session_with_the_agent() {
    let (stage, program) = stage();
    let first = keep(&stage, "one", Target::New).await;
    let session = stage.store.session(&first.session).await.unwrap().unwrap();
    tokio::select! {
        biased;
        // The call runs only until its first wait.
        _ = stage.engine.undo_revert(&session) => panic!("nothing was read yet"),
        () = std::future::ready(()) => {}
    }
    let holder = stage.store.lease_holder(&first.session).await.unwrap();
    assert!(holder.is_some_and(|holder| holder.is_idle()));
    let second = keep(&stage, "two", same(&first)).await;
    assert_eq!(second.opened.unwrap().0, OpenMode::Live);
    end(program);
}

#[tokio::test]
async fn an_agent_that_died_holds_nothing() {
    let (stage, program) = stage();
    let other = stage.beside_it();
    let first = keep(&stage, "one", Target::New).await;
    assert!(elsewhere(&other, &stage, &first).await.is_err());
    end(program);
    // The death is detected at one of the next heartbeats.
    while stage.store.lease_holder(&first.session).await.unwrap().is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    stage.script([say("yes"), done()]);
    elsewhere(&other, &stage, &first).await.unwrap();
}
