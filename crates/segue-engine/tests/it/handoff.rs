//! Handoff of a session to another agent.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::task::Poll;

use segue_api::text::format_dropped_setting;
use segue_core::agent::PermissionPolicy;
use segue_core::id::ProviderId;
use segue_core::policy::Policy;
use segue_core::session::{DecisionKind, LegEnd, OpenMode};
use segue_engine::{AccessError, SessionError, Target};
use segue_providers::AgentDefaults;
use segue_store::{NewSession, StoreError};

use crate::scripted::{EngineHarness, ScriptedAction, end_turn, send_text, session_target};
use crate::{decision_text, open_mode_and_reason};

fn provider(name: &str) -> ProviderId {
    ProviderId::parse(name).unwrap()
}

#[tokio::test]
async fn the_next_prompt_after_a_handoff_briefs_the_new_agent() {
    let harness = EngineHarness::with_agents(&["codex"], Policy::default());
    let mut request = harness.request("the password is swordfish", Target::New);
    request.keep_agent = true;
    harness.script([send_text("noted"), end_turn()]);
    let first = harness.chat(request, |_| {}).await.unwrap();
    let session = harness
        .store
        .session(&first.session)
        .await
        .unwrap()
        .unwrap();
    let codex = provider("codex");
    let outcome = harness
        .engine
        .sessions()
        .handoff(&session, &codex)
        .await
        .unwrap();
    assert_eq!(
        (&outcome.session.provider, outcome.from.as_str()),
        (&codex, "scripted")
    );
    assert_eq!(outcome.session.native_id, None);
    // The agent that stayed running is ended immediately.
    assert_eq!(harness.agent.received.lock().unwrap().close_count, 1);
    let legs = harness.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].ended.unwrap().1, LegEnd::Handoff);
    let log = harness.store.decisions(&first.session, 1).await.unwrap();
    assert_eq!(log[0].1.kind(), DecisionKind::HandedOff);

    harness.other_agents[0]
        .actions
        .lock()
        .unwrap()
        .extend([send_text("swordfish"), end_turn()]);
    let next = harness.chat(
        harness.request("what was it?", session_target(&first)),
        |_| {},
    );
    let next = next.await.unwrap();
    assert_eq!((next.provider.as_str(), next.leg), ("codex", Some(2)));
    let (mode, reason) = open_mode_and_reason(&next);
    assert_eq!(mode, OpenMode::Briefed);
    assert_eq!(reason, "codex took over from scripted");
    let received = harness.other_agents[0].received.lock().unwrap();
    assert_eq!(received.requested_ids, [None]);
    assert!(received.prompts[0].contains("> the password is swordfish"));
}

#[tokio::test]
async fn a_rejected_handoff_changes_nothing() {
    let harness = EngineHarness::with_agents(&["codex", "absent"], Policy::default());
    let first = harness.run_turn("one", Target::New).await;
    let session = harness
        .store
        .session(&first.session)
        .await
        .unwrap()
        .unwrap();
    let hand_off_to = |name: &str| {
        let (engine, session, name) = (&harness.engine, session.clone(), provider(name));
        async move { engine.sessions().handoff(&session, &name).await }
    };
    let unchanged = hand_off_to("scripted").await.unwrap();
    assert_eq!(unchanged.from, unchanged.session.provider);
    let unknown_error = hand_off_to("unknown").await.unwrap_err();
    assert!(matches!(
        unknown_error,
        SessionError::Access(AccessError::UnknownProvider { .. })
    ));
    harness.other_agents[1]
        .is_installed
        .store(false, Ordering::Relaxed);
    let absent_error = hand_off_to("absent").await.unwrap_err();
    assert!(matches!(absent_error, SessionError::NotInstalled(_)));

    // A handoff is rejected while a turn is running.
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let (engine, busy_session) = (harness.second_engine(), session.clone());
    harness.script([
        ScriptedAction::SideEffect(Box::new(move || {
            Box::pin(async move {
                let same_provider = provider("scripted");
                let _ = sender.send(
                    engine
                        .sessions()
                        .handoff(&busy_session, &same_provider)
                        .await,
                );
            })
        })),
        send_text("two"),
        end_turn(),
    ]);
    let turn = harness.chat(harness.request("two", session_target(&first)), |_| {});
    turn.await.unwrap();
    let error = receiver.await.unwrap().unwrap_err();
    assert!(
        matches!(
            error,
            SessionError::Access(AccessError::Store(StoreError::Leased { .. }))
        ),
        "{error:?}"
    );
    let session_after = harness
        .store
        .session(&first.session)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (session_after.provider, session_after.native_id),
        (session.provider, session.native_id)
    );

    let new_session = NewSession {
        id: segue_core::id::SessionId::from_timestamp(jiff::Timestamp::now(), u32::MAX),
        project: session_after.project,
        title: session_after.title,
        purpose: None,
        provider: provider("scripted"),
        at: jiff::Timestamp::now(),
        conflict_filter: None,
    };
    let empty_session = harness.store.create_session(new_session).await.unwrap();
    let result = harness
        .engine
        .sessions()
        .handoff(&empty_session, &provider("codex"))
        .await;
    assert!(matches!(result, Err(SessionError::NoMessages(_))));
}

#[tokio::test]
async fn a_handoff_reports_the_dropped_settings() {
    let harness = EngineHarness::with_agents(&["codex"], Policy::default());
    let first = harness.run_turn("one", Target::New).await;
    let session = harness
        .store
        .session(&first.session)
        .await
        .unwrap()
        .unwrap();
    *harness.agent.defaults.lock().unwrap() = AgentDefaults {
        permissions: PermissionPolicy::AllowAll,
        model: Some("opus".into()),
        mode: Some("plan".into()),
        ..AgentDefaults::default()
    };
    harness.other_agents[0].defaults.lock().unwrap().model = Some("gpt-9".into());
    let codex = provider("codex");
    let handing_off = harness.engine.sessions().handoff(&session, &codex);
    let outcome = handing_off.await.unwrap();
    let dropped = outcome.dropped_settings.iter();
    let dropped_texts: Vec<String> = dropped
        .map(|setting| format_dropped_setting(&outcome.from, &codex, setting))
        .collect();
    assert_eq!(
        dropped_texts,
        [
            "the permission policy is ask, as configured for codex; for scripted it is allow-all",
            "the mode \"plan\" belongs to scripted; codex uses its default",
            "the model \"opus\" belongs to scripted; codex uses \"gpt-9\"",
        ]
    );
}

#[tokio::test]
async fn a_native_session_with_all_turns_is_resumed_and_reported() {
    let harness = EngineHarness::with_agents(&["codex"], Policy::default());
    let first = harness.run_turn("one", Target::New).await;
    let session = harness
        .store
        .session(&first.session)
        .await
        .unwrap()
        .unwrap();
    let has_all_turns_after_handoff = async |name: &str| {
        let outcome = harness
            .engine
            .sessions()
            .handoff(&session, &provider(name))
            .await;
        outcome.unwrap().native_has_all_turns
    };
    assert!(!has_all_turns_after_handoff("codex").await);
    assert!(has_all_turns_after_handoff("scripted").await);
    let next = harness.run_turn("two", session_target(&first)).await;
    assert_eq!(next.opened.unwrap().0, OpenMode::Resumed);
    let expected_start = "reopened native session scripted:native-1, which contains all turns of";
    let decisions = next.decisions.iter();
    let matching = decisions.filter(|decision| decision_text(decision).starts_with(expected_start));
    assert_eq!(matching.count(), 1, "{:?}", next.decisions);
    // The log contains the decision once.
    let log = harness.store.decisions(&first.session, 20).await.unwrap();
    let logged = log
        .iter()
        .filter(|(_, entry)| decision_text(entry).starts_with(expected_start));
    assert_eq!(logged.count(), 1, "{log:?}");
}

#[tokio::test]
async fn a_prompt_to_another_agent_reports_the_dropped_settings() {
    let harness = EngineHarness::with_agents(&["codex"], Policy::default());
    let first = harness.run_turn("one", Target::New).await;
    *harness.agent.defaults.lock().unwrap() = AgentDefaults {
        permissions: PermissionPolicy::AllowAll,
        model: Some("opus".into()),
        ..AgentDefaults::default()
    };
    let actions = [send_text("two"), end_turn()];
    harness.other_agents[0]
        .actions
        .lock()
        .unwrap()
        .extend(actions);
    let mut request = harness.request("two", session_target(&first));
    request.provider = Some(provider("codex"));
    // The request sets the permissions, so the decision does not mention them.
    let next = harness.chat(request, |_| {}).await.unwrap();
    let dropped_settings: Vec<String> = next
        .decisions
        .iter()
        .filter(|decision| decision.kind() == DecisionKind::HandedOff)
        .map(decision_text)
        .collect();
    assert_eq!(
        dropped_settings,
        ["the model \"opus\" belongs to scripted; codex uses its default"]
    );
}

/// Polls a future up to `times` times. `None` if it is not ready by then.
async fn poll_times<F: Future>(mut future: Pin<&mut F>, times: usize) -> Option<F::Output> {
    let mut remaining = times;
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => {
            remaining -= 1;
            if remaining == 0 {
                Poll::Ready(None)
            } else {
                Poll::Pending
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_prompt_does_not_overwrite_a_concurrent_handoff() {
    let codex = provider("codex");
    let mut handoff_count = 0;
    for poll_count in 1..=6 {
        let harness = EngineHarness::with_agents(&["codex"], Policy::default());
        let first = harness.run_turn("one", Target::New).await;
        let session = harness
            .store
            .session(&first.session)
            .await
            .unwrap()
            .unwrap();
        let second_engine = harness.second_engine_with_all_agents();
        for agent in [&harness.agent, &harness.other_agents[0]] {
            agent
                .actions
                .lock()
                .unwrap()
                .extend([send_text("two"), end_turn()]);
        }
        let request = harness.request("two", session_target(&first));
        let chat = harness
            .engine
            .chat(request, tokio::sync::mpsc::channel(1).0);
        let mut chat = pin!(chat);
        let early_result = poll_times(chat.as_mut(), poll_count).await;
        // A turn that has already ended cannot overlap with the handoff, and more polls only end it earlier.
        if early_result.is_some() {
            break;
        }
        let handoff = second_engine.sessions().handoff(&session, &codex).await;
        let chat_result = chat.await;
        let session_after = harness
            .store
            .session(&first.session)
            .await
            .unwrap()
            .unwrap();
        match handoff {
            Ok(_) => {
                handoff_count += 1;
                assert_eq!(
                    session_after.provider, codex,
                    "{poll_count}: {chat_result:?}"
                );
            }
            Err(SessionError::Access(AccessError::Store(StoreError::Leased { .. }))) => {
                assert_eq!(session_after.provider.as_str(), "scripted", "{poll_count}");
            }
            Err(error) => panic!("{poll_count}: {error}"),
        }
    }
    assert!(handoff_count > 0);
}
