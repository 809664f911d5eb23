//! A pooled agent holds the lease of its session.

use std::process::{Child, Command};

use segue_core::id::ProviderId;
use segue_core::session::OpenMode;
use segue_engine::{AccessError, ChatRequest, Engine, SessionError, Target, TurnError, TurnReport};
use segue_store::StoreError;

use crate::scripted::{EngineHarness, end_turn, send_text, session_target};

/// Creates a harness whose agent has a process that runs until it is killed.
fn harness_with_process() -> (EngineHarness, Child) {
    let harness = EngineHarness::with_agents(&["codex"], segue_core::policy::Policy::default());
    let process = Command::new("sleep").arg("600").spawn().unwrap();
    *harness.agent.process.lock().unwrap() = segue_providers::identify_process(process.id());
    (harness, process)
}

fn kill_process(mut process: Child) {
    process.kill().unwrap();
    process.wait().unwrap();
}

async fn run_turn_and_keep_agent(
    harness: &EngineHarness,
    prompt: &str,
    target: Target,
) -> TurnReport {
    harness.script([send_text("yes"), end_turn()]);
    let request = ChatRequest {
        keep_agent: true,
        ..harness.request(prompt, target)
    };
    harness.chat(request, |_| {}).await.unwrap()
}

/// Runs a turn with a second engine, which acts like another process.
async fn run_turn_on_second_engine(
    engine: &Engine,
    harness: &EngineHarness,
    first: &TurnReport,
) -> Result<TurnReport, TurnError> {
    let (sender, mut events) = tokio::sync::mpsc::channel(8);
    let receiving = async { while events.recv().await.is_some() {} };
    let request = harness.request("from another process", session_target(first));
    tokio::join!(engine.chat(request, sender), receiving).0
}

#[tokio::test]
async fn a_pooled_agent_holds_the_lease_until_it_is_closed() {
    let (harness, process) = harness_with_process();
    let second_engine = harness.second_engine();
    let first = run_turn_and_keep_agent(&harness, "one", Target::New).await;
    let session = harness
        .store
        .session(&first.session)
        .await
        .unwrap()
        .unwrap();

    let error = run_turn_on_second_engine(&second_engine, &harness, &first)
        .await
        .unwrap_err();
    let TurnError::Access(AccessError::Store(StoreError::Leased { holder, .. })) = &error else {
        panic!("{error:?}");
    };
    assert!(holder.is_idle(), "{holder:?}");
    assert_eq!(holder.agent, *harness.agent.process.lock().unwrap());
    assert!(error.to_string().contains("is open in process"), "{error}");
    let result = second_engine.sessions().preview_revert(&session, 1).await;
    assert!(matches!(
        result,
        Err(SessionError::Access(AccessError::Store(
            StoreError::Leased { .. }
        )))
    ));

    // All operations of this engine use the same lease.
    let second = run_turn_and_keep_agent(&harness, "two", session_target(&first)).await;
    assert_eq!(second.opened.unwrap().0, OpenMode::Live);
    harness
        .engine
        .sessions()
        .preview_revert(&session, 1)
        .await
        .unwrap();
    harness
        .engine
        .sessions()
        .revert_session(&session, 1)
        .await
        .unwrap();
    harness
        .engine
        .sessions()
        .undo_revert(&session)
        .await
        .unwrap();
    assert!(
        run_turn_on_second_engine(&second_engine, &harness, &first)
            .await
            .is_err()
    );
    let current_holder = harness
        .store
        .lease_holder(&first.session)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(current_holder.epoch, holder.epoch);
    let third = run_turn_and_keep_agent(&harness, "three", session_target(&first)).await;
    assert_eq!(third.opened.unwrap().0, OpenMode::Live);

    harness.engine.close().await;
    assert_eq!(
        harness.store.lease_holder(&first.session).await.unwrap(),
        None
    );
    harness.script([send_text("yes"), end_turn()]);
    run_turn_on_second_engine(&second_engine, &harness, &first)
        .await
        .unwrap();
    // The agent was ended, so the session is resumed.
    let fifth = run_turn_and_keep_agent(&harness, "five", session_target(&first)).await;
    assert_eq!(
        (fifth.turn, fifth.opened.unwrap().0),
        (5, OpenMode::Resumed)
    );
    kill_process(process);
}

#[tokio::test]
async fn a_handoff_ends_the_pooled_agent_and_releases_the_lease() {
    let (harness, process) = harness_with_process();
    let first = run_turn_and_keep_agent(&harness, "one", Target::New).await;
    let session = harness
        .store
        .session(&first.session)
        .await
        .unwrap()
        .unwrap();
    let codex = ProviderId::parse("codex").unwrap();
    harness
        .engine
        .sessions()
        .handoff(&session, &codex)
        .await
        .unwrap();
    assert_eq!(
        harness.store.lease_holder(&first.session).await.unwrap(),
        None
    );
    kill_process(process);
}

#[tokio::test]
async fn a_dropped_call_leaves_the_lease_with_the_pooled_agent() {
    let (harness, process) = harness_with_process();
    let first = run_turn_and_keep_agent(&harness, "one", Target::New).await;
    let session = harness
        .store
        .session(&first.session)
        .await
        .unwrap()
        .unwrap();
    tokio::select! {
        biased;
        // The call runs only until its first wait.
        _ = harness.engine.sessions().undo_revert(&session) => panic!("the call returned before its first wait"),
        () = std::future::ready(()) => {}
    }
    let holder = harness.store.lease_holder(&first.session).await.unwrap();
    assert!(holder.is_some_and(|holder| holder.is_idle()));
    let second = run_turn_and_keep_agent(&harness, "two", session_target(&first)).await;
    assert_eq!(second.opened.unwrap().0, OpenMode::Live);
    kill_process(process);
}

#[tokio::test]
async fn a_dead_agent_loses_its_lease() {
    let (harness, process) = harness_with_process();
    let second_engine = harness.second_engine();
    let first = run_turn_and_keep_agent(&harness, "one", Target::New).await;
    assert!(
        run_turn_on_second_engine(&second_engine, &harness, &first)
            .await
            .is_err()
    );
    kill_process(process);
    // The death is detected at one of the next heartbeats.
    while harness
        .store
        .lease_holder(&first.session)
        .await
        .unwrap()
        .is_some()
    {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    harness.script([send_text("yes"), end_turn()]);
    run_turn_on_second_engine(&second_engine, &harness, &first)
        .await
        .unwrap();
}
