//! Opening of a leg: the native session is resumed if it received all turns, else a new one receives a brief.

use std::sync::Arc;

use segue_catalog::Catalog;
use segue_core::agent::ProcessIdentity;
use segue_core::session::{LegEnd, Message, OpenMode, Role, TurnState};
use segue_engine::{AccessError, Target, TurnError};
use segue_sqlite::SqliteStore;
use segue_store::{LeaseRequest, NewLeg, PageRequest, SessionFilter, StoreError, TurnEntry};

use crate::scripted::{EngineHarness, current_process, end_turn, send_text, session_target};
use crate::{decision_text, open_mode_and_reason};

#[tokio::test]
async fn the_prompt_is_saved_before_the_agent_starts() {
    let harness = EngineHarness::new();
    let store = harness.store.clone();
    let (sender, receiver) = std::sync::mpsc::channel();
    *harness.agent.on_open.lock().unwrap() = Some(Box::new(move || {
        Box::pin(async move {
            let page = store
                .list_sessions(&SessionFilter::default(), PageRequest::first(9))
                .await
                .unwrap();
            let turns = store.turns(&page.sessions[0].id).await.unwrap();
            let messages = store.messages(turns[0].id).await.unwrap();
            sender
                .send((turns[0].sent, messages[0].plain_text()))
                .unwrap();
        })
    }));
    harness.run_turn("precious", Target::New).await;
    assert_eq!(receiver.recv().unwrap(), (false, "precious".to_owned()));
}

#[tokio::test]
async fn consecutive_turns_run_on_the_same_native_session() {
    let harness = EngineHarness::new();
    let first = harness.run_turn("one", Target::New).await;
    let second = harness.run_turn("two", session_target(&first)).await;
    assert_eq!(first.opened.unwrap().0, OpenMode::Fresh);
    assert_eq!(second.opened.unwrap().0, OpenMode::Resumed);
    assert_eq!((second.leg, second.turn), (Some(1), 2));
    let received = harness.agent.received.lock().unwrap();
    assert_eq!(received.requested_ids, [None, first.native_id]);
    assert_eq!(received.prompts, ["one", "two"]);
    assert_eq!(received.close_count, 2);
}

#[tokio::test]
async fn a_lost_native_session_is_replaced_with_a_brief() {
    let harness = EngineHarness::new();
    let first = harness
        .run_turn("the password is swordfish", Target::New)
        .await;
    *harness.agent.resume_mode.lock().unwrap() = OpenMode::Fresh;
    let second = harness
        .run_turn("what was it?", session_target(&first))
        .await;
    let (mode, reason) = open_mode_and_reason(&second);
    assert_eq!((mode, second.leg), (OpenMode::Briefed, Some(2)));
    assert!(reason.contains("session not found"), "{reason}");
    let brief = harness.agent.received.lock().unwrap().prompts[1].clone();
    assert!(brief.contains("> the password is swordfish"), "{brief}");
    assert!(
        brief.contains("> heard the password is swordfish"),
        "{brief}"
    );
    assert!(brief.ends_with("what was it?"), "{brief}");
    assert_eq!(
        brief.matches("what was it?").count(),
        1,
        "the prompt is sent once: {brief}"
    );
    let legs = harness.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].ended.unwrap().1, LegEnd::Lost);
    assert_eq!(legs[1].ended, None);
}

#[tokio::test]
async fn the_brief_after_a_revert_contains_only_the_remaining_turns() {
    let harness = EngineHarness::new();
    let first = harness.run_turn("one", Target::New).await;
    harness.run_turn("two", session_target(&first)).await;
    harness.run_turn("three", session_target(&first)).await;
    let session = harness
        .store
        .session(&first.session)
        .await
        .unwrap()
        .unwrap();
    harness
        .engine
        .sessions()
        .revert_session(&session, 1)
        .await
        .unwrap();
    let next = harness
        .run_turn("another two", session_target(&first))
        .await;
    assert_eq!((next.turn, next.leg), (2, Some(2)));
    let brief = harness.agent.received.lock().unwrap().prompts[3].clone();
    assert!(
        brief.contains("> one") && !brief.contains("> two") && !brief.contains("> three"),
        "{brief}"
    );
    let legs = harness.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].ended.unwrap().1, LegEnd::HeadMoved);
}

#[tokio::test]
async fn an_interrupted_turn_is_closed_and_not_resent() {
    let harness = EngineHarness::new();
    let first = harness.run_turn("one", Target::New).await;
    // A process starts a turn, the agent calls a tool, and the process dies.
    let owner = ProcessIdentity {
        pid: u32::MAX - 1,
        ..segue_providers::identify_process(std::process::id()).unwrap()
    };
    let at = jiff::Timestamp::now();
    let request = LeaseRequest {
        session: first.session.clone(),
        owner,
        expires_after: jiff::SignedDuration::from_secs(30),
        dead_epoch: None,
    };
    let lease = harness.store.acquire_lease(request).await.unwrap().lease;
    let interrupted = harness
        .store
        .start_turn(&lease, Message::from_text(Role::User, "two", at).into())
        .await
        .unwrap();
    let leg = harness.store.legs(&first.session).await.unwrap()[0].id;
    harness
        .store
        .begin_attempt(&lease, interrupted.id, leg, at)
        .await
        .unwrap();
    let call = segue_core::session::Part::FunctionCall {
        id: "c1".into(),
        name: "write".into(),
        args: segue_core::json::Json::empty_object(),
    };
    let message = Message::new(Role::Assistant, vec![call], at);
    harness
        .store
        .append_entry(
            &lease,
            interrupted.id,
            TurnEntry::Message { seq: 1, message },
        )
        .await
        .unwrap();

    let next = harness.run_turn("three", session_target(&first)).await;
    assert_eq!((next.turn, next.state), (3, TurnState::Finished));
    let decision_texts: Vec<String> = next.decisions.iter().map(decision_text).collect();
    assert!(
        decision_texts[0].starts_with("took over the session from process"),
        "{decision_texts:?}"
    );
    assert!(
        decision_texts[1].contains("turn 2 was interrupted"),
        "{decision_texts:?}"
    );
    let turns = harness.store.turns(&first.session).await.unwrap();
    assert_eq!(turns[1].state, TurnState::Interrupted);
    let messages = harness.store.messages(interrupted.id).await.unwrap();
    assert!(matches!(
        messages[2].parts.as_slice(),
        [segue_core::session::Part::FunctionResponse { call_id, is_error: true, .. }] if call_id == "c1"
    ));
    assert_eq!(
        harness.agent.received.lock().unwrap().prompts,
        ["one", "three"]
    );
    // The native session received turn 2, so it can be resumed.
    assert_eq!(next.opened.unwrap().0, OpenMode::Resumed);
}

#[tokio::test]
async fn a_live_process_keeps_its_lease_without_heartbeats() {
    let harness = EngineHarness::new();
    let first = harness.run_turn("one", Target::New).await;
    harness
        .acquire_lease(&first.session, current_process())
        .await;
    // By the clock of the store, two hours have passed.
    let clock = || jiff::Timestamp::now() + jiff::SignedDuration::from_hours(2);
    let store = SqliteStore::open_with_clock(harness.directory.path(), Arc::new(clock)).unwrap();
    let engine = harness.engine_with_store(Arc::new(store), Catalog::default());
    let (sender, _events) = tokio::sync::mpsc::channel(8);
    let request = harness.request("two", session_target(&first));
    let result = engine.build().chat(request, sender).await;
    assert!(
        matches!(
            result,
            Err(TurnError::Access(AccessError::Store(
                StoreError::Leased { .. }
            )))
        ),
        "{result:?}"
    );
}

#[tokio::test]
async fn an_unsent_turn_does_not_end_the_leg() {
    let harness = EngineHarness::new();
    let first = harness.run_turn("one", Target::New).await;
    let session = harness
        .store
        .session(&first.session)
        .await
        .unwrap()
        .unwrap();
    let request = LeaseRequest {
        session: session.id.clone(),
        owner: ProcessIdentity {
            pid: u32::MAX - 1,
            ..segue_providers::identify_process(std::process::id()).unwrap()
        },
        expires_after: jiff::SignedDuration::from_secs(30),
        dead_epoch: None,
    };
    let lease = harness.store.acquire_lease(request).await.unwrap().lease;
    let prompt = Message::from_text(Role::User, "two", jiff::Timestamp::now());
    harness
        .store
        .start_turn(&lease, prompt.into())
        .await
        .unwrap();
    let next = harness.run_turn("three", session_target(&first)).await;
    assert_eq!(next.opened.unwrap().0, OpenMode::Resumed);
    assert!(
        decision_text(&next.decisions[1]).contains("never reached the agent"),
        "{:?}",
        next.decisions
    );
}

#[tokio::test]
async fn a_session_with_a_leg_of_another_provider_is_handed_off() {
    let harness = EngineHarness::new();
    let first = harness.run_turn("one", Target::New).await;
    // The session ran on another agent before.
    let request = LeaseRequest {
        session: first.session.clone(),
        owner: segue_providers::identify_process(std::process::id()).unwrap(),
        expires_after: jiff::SignedDuration::from_secs(30),
        dead_epoch: None,
    };
    let lease = harness.store.acquire_lease(request).await.unwrap().lease;
    let other_leg = NewLeg {
        provider: "other".parse().unwrap(),
        native_id: Some("n".parse().unwrap()),
        at: jiff::Timestamp::now(),
    };
    harness.store.open_leg(&lease, other_leg).await.unwrap();
    harness.store.release_lease(&lease).await.unwrap();
    harness.script([send_text("mine now"), end_turn()]);
    let mut request = harness.request("two", session_target(&first));
    request.provider = Some("scripted".parse().unwrap());
    let report = harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.opened.unwrap().0, OpenMode::Briefed);
    let legs = harness.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[1].ended.unwrap().1, LegEnd::Handoff);
}
