//! Opening of a leg: the native session is resumed if it received all turns, else a new one receives a brief.

use segue_core::agent::ProcessIdentity;
use segue_core::session::{LegEnd, Message, OpenMode, Role, TurnState};
use segue_engine::{EngineError, Target};
use segue_store::{TurnEntry, SessionFilter, LeaseRequest, NewLeg, PageRequest, Store, StoreError};

use crate::scripted::{Stage, done, same, say};

#[tokio::test]
async fn the_prompt_is_on_the_disk_before_the_agent_is_even_started() {
    let stage = Stage::new();
    let store = stage.store.clone();
    let (sender, found) = std::sync::mpsc::channel();
    *stage.agent.on_open.lock().unwrap() = Some(Box::new(move || {
        Box::pin(async move {
            let all = store
                .list_sessions(&SessionFilter::default(), PageRequest::first(9))
                .await
                .unwrap();
            let turns = store.turns(&all.sessions[0].id).await.unwrap();
            let messages = store.messages(turns[0].id).await.unwrap();
            sender.send((turns[0].sent, messages[0].plain_text())).unwrap();
        })
    }));
    stage.turn("precious", Target::New).await;
    assert_eq!(found.recv().unwrap(), (false, "precious".to_owned()));
}

#[tokio::test]
async fn the_same_native_session_carries_turn_after_turn() {
    let stage = Stage::new();
    let first = stage.turn("one", Target::New).await;
    let second = stage.turn("two", same(&first)).await;
    assert_eq!(first.opened.unwrap().0, OpenMode::Fresh);
    assert_eq!(second.opened.unwrap().0, OpenMode::Resumed);
    assert_eq!((second.leg, second.turn), (Some(1), 2));
    let heard = stage.agent.heard.lock().unwrap();
    assert_eq!(heard.asked_for, [None, first.native_id]);
    assert_eq!(heard.prompts, ["one", "two"]);
    assert_eq!(heard.closed, 2);
}

#[tokio::test]
async fn a_lost_native_session_costs_no_context() {
    let stage = Stage::new();
    let first = stage.turn("the password is swordfish", Target::New).await;
    *stage.agent.goes_on.lock().unwrap() = OpenMode::Fresh;
    let second = stage.turn("what was it?", same(&first)).await;
    let (opened, why) = second.opened.clone().unwrap();
    assert_eq!((opened, second.leg), (OpenMode::Briefed, Some(2)));
    assert!(why.contains("it is gone"), "{why}");
    let told = stage.agent.heard.lock().unwrap().prompts[1].clone();
    assert!(told.contains("> the password is swordfish"), "{told}");
    assert!(told.contains("> heard the password is swordfish"), "{told}");
    assert!(told.ends_with("what was it?"), "{told}");
    assert_eq!(
        told.matches("what was it?").count(),
        1,
        "the prompt is told once: {told}"
    );
    let legs = stage.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].ended.unwrap().1, LegEnd::Lost);
    assert_eq!(legs[1].ended, None);
}

#[tokio::test]
async fn after_a_revert_the_agent_knows_only_what_is_left() {
    let stage = Stage::new();
    let first = stage.turn("one", Target::New).await;
    stage.turn("two", same(&first)).await;
    stage.turn("three", same(&first)).await;
    let session = stage.store.session(&first.session).await.unwrap().unwrap();
    stage.engine.revert_session(&session, 1).await.unwrap();
    let next = stage.turn("another two", same(&first)).await;
    assert_eq!((next.turn, next.leg), (2, Some(2)));
    let told = stage.agent.heard.lock().unwrap().prompts[3].clone();
    assert!(
        told.contains("> one") && !told.contains("> two") && !told.contains("> three"),
        "{told}"
    );
    let legs = stage.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].ended.unwrap().1, LegEnd::HeadMoved);
}

#[tokio::test]
async fn a_turn_that_was_cut_off_is_closed_and_not_sent_again() {
    let stage = Stage::new();
    let first = stage.turn("one", Target::New).await;
    // A process starts a turn, the agent calls a tool, and the process dies.
    let owner = ProcessIdentity {
        pid: u32::MAX - 1,
        ..segue_agents::identify_process(std::process::id()).unwrap()
    };
    let at = jiff::Timestamp::now();
    let request = LeaseRequest {
        session: first.session.clone(),
        owner,
        at,
        expires_after: jiff::SignedDuration::from_secs(30),
        dead_epoch: None,
    };
    let lease = stage.store.acquire_lease(request).await.unwrap().lease;
    let cut = stage
        .store
        .begin_turn(&lease, &Message::from_text(Role::User, "two", at))
        .await
        .unwrap();
    let leg = stage.store.legs(&first.session).await.unwrap()[0].id;
    stage
        .store
        .begin_attempt(&lease, cut.id, leg, at)
        .await
        .unwrap();
    let call = segue_core::session::Part::FunctionCall {
        id: "c1".into(),
        name: "write".into(),
        args: segue_core::json::Json::empty_object(),
    };
    let message = Message::new(Role::Assistant, vec![call], at);
    stage
        .store
        .append_entry(&lease, cut.id, TurnEntry::Message { seq: 1, message })
        .await
        .unwrap();

    let next = stage.turn("three", same(&first)).await;
    assert_eq!((next.turn, next.state), (3, TurnState::Finished));
    let said: Vec<&str> = next
        .decisions
        .iter()
        .map(|decision| decision.text.as_str())
        .collect();
    assert!(said[0].starts_with("took the session over"), "{said:?}");
    assert!(said[1].contains("turn 2 was interrupted"), "{said:?}");
    let turns = stage.store.turns(&first.session).await.unwrap();
    assert_eq!(turns[1].state, TurnState::Interrupted);
    let messages = stage.store.messages(cut.id).await.unwrap();
    assert!(matches!(
        messages[2].parts.as_slice(),
        [segue_core::session::Part::FunctionResponse { call_id, is_error: true, .. }] if call_id == "c1"
    ));
    assert_eq!(stage.agent.heard.lock().unwrap().prompts, ["one", "three"]);
    // The native session received turn 2, so it can be resumed.
    assert_eq!(next.opened.unwrap().0, OpenMode::Resumed);
}

#[tokio::test]
async fn whoever_lives_keeps_the_session_however_silent() {
    let stage = Stage::new();
    let first = stage.turn("one", Target::New).await;
    let long_ago = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(2);
    let request = LeaseRequest {
        session: first.session.clone(),
        owner: segue_agents::identify_process(std::process::id()).unwrap(),
        at: long_ago,
        expires_after: jiff::SignedDuration::from_secs(30),
        dead_epoch: None,
    };
    stage.store.acquire_lease(request).await.unwrap();
    let refused = stage.chat(stage.request("two", same(&first)), |_| {}).await;
    assert!(
        matches!(refused, Err(EngineError::Store(StoreError::Leased { .. }))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_turn_that_was_never_sent_does_not_end_the_leg() {
    let stage = Stage::new();
    let first = stage.turn("one", Target::New).await;
    let session = stage.store.session(&first.session).await.unwrap().unwrap();
    let request = LeaseRequest {
        session: session.id.clone(),
        owner: ProcessIdentity {
            pid: u32::MAX - 1,
            ..segue_agents::identify_process(std::process::id()).unwrap()
        },
        at: jiff::Timestamp::now(),
        expires_after: jiff::SignedDuration::from_secs(30),
        dead_epoch: None,
    };
    let lease = stage.store.acquire_lease(request).await.unwrap().lease;
    let prompt = Message::from_text(Role::User, "two", jiff::Timestamp::now());
    stage.store.begin_turn(&lease, &prompt).await.unwrap();
    let next = stage.turn("three", same(&first)).await;
    assert_eq!(next.opened.unwrap().0, OpenMode::Resumed);
    assert!(
        next.decisions[1].text.contains("never reached the agent"),
        "{:?}",
        next.decisions
    );
}

#[tokio::test]
async fn a_session_with_a_leg_of_another_provider_is_handed_over() {
    let stage = Stage::new();
    let first = stage.turn("one", Target::New).await;
    // The session ran on another agent before.
    let request = LeaseRequest {
        session: first.session.clone(),
        owner: segue_agents::identify_process(std::process::id()).unwrap(),
        at: jiff::Timestamp::now(),
        expires_after: jiff::SignedDuration::from_secs(30),
        dead_epoch: None,
    };
    let lease = stage.store.acquire_lease(request).await.unwrap().lease;
    let other = NewLeg {
        provider: "elsewhere".parse().unwrap(),
        native_id: Some("n".parse().unwrap()),
        at: jiff::Timestamp::now(),
    };
    stage.store.open_leg(&lease, other).await.unwrap();
    stage.store.release_lease(&lease).await.unwrap();
    stage.script([say("mine now"), done()]);
    let mut request = stage.request("two", same(&first));
    request.provider = Some("scripted".parse().unwrap());
    let report = stage.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.opened.unwrap().0, OpenMode::Briefed);
    let legs = stage.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[1].ended.unwrap().1, LegEnd::Handoff);
}
