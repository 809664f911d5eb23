//! Behaviour of real agents that a simple one does not have: they report their session id late, lose a session, run out
//! of context, or stay running.

use std::sync::atomic::Ordering;
use std::time::Duration;

use segue_core::agent::{
    PermissionAnswer, PermissionKind, PermissionOption, PermissionPolicy, PermissionRequest,
};
use segue_core::id::NativeId;
use segue_core::json::Json;
use segue_core::session::{
    AgentEvent, DecisionKind, FailureClass, LegEnd, OpenMode, PlanStatus, PlanStep, ToolCall,
    ToolStatus, TurnState,
};
use segue_engine::{StopLevel, Target, TurnEvent};
use segue_providers::{AgentDefaults, AgentError, AgentRefusal, SessionDefault, Timeouts};

use crate::scripted::{EngineHarness, ScriptedAction, end_turn, send_text, session_target};
use crate::{hint_text, open_mode_and_reason};

fn fail_turn(class: FailureClass, message: &str) -> ScriptedAction {
    ScriptedAction::TurnFailed(AgentError::from_refusal(
        "the prompt",
        AgentRefusal::new(class, message),
    ))
}

#[tokio::test]
async fn an_agent_may_report_its_session_id_late() {
    let harness = EngineHarness::new();
    harness.agent.reports_id_late.store(true, Ordering::Relaxed);
    harness.script([
        ScriptedAction::NativeIdReported("late-1"),
        send_text("hi"),
        end_turn(),
    ]);
    let mut reported_ids = Vec::new();
    let first = harness
        .chat(harness.request("one", Target::New), |event| match event {
            TurnEvent::Opened { native_id, .. } => reported_ids.push(native_id),
            TurnEvent::NativeIdReported { native_id } => reported_ids.push(Some(native_id)),
            _ => {}
        })
        .await
        .unwrap();
    let late_id = NativeId::parse("late-1").unwrap();
    assert_eq!(reported_ids, [None, Some(late_id.clone())]);
    assert_eq!(first.native_id, Some(late_id.clone()));
    // The next turn resumes the session by this id.
    harness.run_turn("two", session_target(&first)).await;
    assert_eq!(
        harness.agent.received.lock().unwrap().requested_ids,
        [None, Some(late_id)]
    );
}

#[tokio::test]
async fn a_session_that_the_prompt_reports_missing_is_replaced_once() {
    let harness = EngineHarness::new();
    let first = harness
        .run_turn("the password is swordfish", Target::New)
        .await;
    harness.script([
        fail_turn(FailureClass::SessionUnknown, "no conversation found"),
        send_text("swordfish"),
        end_turn(),
    ]);
    let second = harness
        .chat(
            harness.request("what was it?", session_target(&first)),
            |_| {},
        )
        .await
        .unwrap();
    assert_eq!(second.state, TurnState::Finished);
    let (mode, reason) = open_mode_and_reason(&second);
    assert_eq!((mode, second.leg), (OpenMode::Briefed, Some(2)));
    assert!(reason.contains("no conversation found"), "{reason}");
    let turns = harness.store.turns(&first.session).await.unwrap();
    let attempts = harness.store.attempts(turns[1].id).await.unwrap();
    let states: Vec<TurnState> = attempts.iter().map(|attempt| attempt.state).collect();
    assert_eq!(states, [TurnState::Failed, TurnState::Finished]);
    let legs = harness.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].ended.unwrap().1, LegEnd::Lost);
    // A second time in the same turn, it is a failure.
    harness.script([
        fail_turn(FailureClass::SessionUnknown, "who?"),
        fail_turn(FailureClass::SessionUnknown, "who?"),
    ]);
    let third = harness
        .chat(harness.request("again", session_target(&first)), |_| {})
        .await
        .unwrap();
    assert_eq!(third.failure.unwrap().class, FailureClass::SessionUnknown);
}

#[tokio::test]
async fn a_prompt_with_output_is_never_retried() {
    let harness = EngineHarness::new();
    let first = harness.run_turn("one", Target::New).await;
    harness.script([
        send_text("half"),
        fail_turn(FailureClass::SessionUnknown, "who?"),
    ]);
    let second = harness
        .chat(harness.request("two", session_target(&first)), |_| {})
        .await
        .unwrap();
    assert_eq!((second.state, second.leg), (TurnState::Failed, Some(1)));
    assert_eq!(second.text.as_deref(), Some("half"));
    assert_eq!(harness.agent.received.lock().unwrap().prompts.len(), 2);
}

#[tokio::test]
async fn a_strict_request_fails_instead_of_starting_a_new_session() {
    let harness = EngineHarness::new();
    let first = harness.run_turn("one", Target::New).await;
    *harness.agent.resume_mode.lock().unwrap() = OpenMode::Fresh;
    let mut request = harness.request("two", session_target(&first));
    request.strict = true;
    let second = harness.chat(request, |_| {}).await.unwrap();
    let failure = second.failure.unwrap();
    assert_eq!(failure.class, FailureClass::SessionUnknown);
    assert!(hint_text(&failure.hint.unwrap()).contains("--strict"));
    // After a revert no native session can be resumed, so the agent is not even started.
    *harness.agent.resume_mode.lock().unwrap() = OpenMode::Resumed;
    harness.run_turn("two", session_target(&first)).await;
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
    let open_count = harness.agent.received.lock().unwrap().requested_ids.len();
    let mut request = harness.request("two again", session_target(&first));
    request.strict = true;
    let third = harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(third.failure.unwrap().class, FailureClass::SessionUnknown);
    assert_eq!(
        harness.agent.received.lock().unwrap().requested_ids.len(),
        open_count
    );
}

#[tokio::test]
async fn a_full_native_session_is_ended() {
    let harness = EngineHarness::new();
    let first = harness.run_turn("one", Target::New).await;
    harness.script([fail_turn(
        FailureClass::ContextTooLong,
        "prompt is too long",
    )]);
    let second = harness
        .chat(harness.request("two", session_target(&first)), |_| {})
        .await
        .unwrap();
    assert_eq!(second.failure.unwrap().class, FailureClass::ContextTooLong);
    let legs = harness.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].ended.unwrap().1, LegEnd::Full);
    let third = harness.run_turn("three", session_target(&first)).await;
    assert_eq!(third.opened.unwrap().0, OpenMode::Briefed);
}

#[tokio::test]
async fn the_retry_time_of_a_failure_is_recorded() {
    let harness = EngineHarness::new();
    harness.script([fail_turn(
        FailureClass::Quota,
        "your quota will reset after 2h",
    )]);
    let report = harness
        .chat(harness.request("one", Target::New), |_| {})
        .await
        .unwrap();
    let failure = report.failure.unwrap();
    let hours_until_retry = (failure.retry_at.unwrap() - jiff::Timestamp::now())
        .total(jiff::Unit::Hour)
        .unwrap();
    assert!(
        (1.9..=2.0).contains(&hours_until_retry),
        "{hours_until_retry}"
    );
    let turns = harness.store.turns(&report.session).await.unwrap();
    let recorded = turns[0].failure.as_ref().unwrap();
    let to_second = |at: jiff::Timestamp| at.as_second();
    assert_eq!(
        recorded.retry_at.map(to_second),
        failure.retry_at.map(to_second)
    );
}

#[tokio::test]
async fn a_pooled_agent_serves_several_turns() {
    let harness = EngineHarness::new();
    let mut report = None;
    for prompt in ["one", "two", "three"] {
        let target = report.as_ref().map_or(Target::New, session_target);
        let mut request = harness.request(prompt, target);
        request.keep_agent = true;
        harness.script([send_text("yes"), end_turn()]);
        let next = harness.chat(request, |_| {}).await.unwrap();
        let expected = if prompt == "one" {
            OpenMode::Fresh
        } else {
            OpenMode::Live
        };
        assert_eq!(next.opened.as_ref().unwrap().0, expected);
        report = Some(next);
    }
    let report = report.unwrap();
    assert_eq!(
        harness.agent.received.lock().unwrap().requested_ids.len(),
        1
    );
    // Different options need another process.
    let mut request = harness.request("four", session_target(&report));
    request.permissions = Some(PermissionPolicy::AllowAll);
    harness.script([send_text("yes"), end_turn()]);
    let next = harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(next.opened.unwrap().0, OpenMode::Resumed);
    {
        let received = harness.agent.received.lock().unwrap();
        assert_eq!((received.requested_ids.len(), received.close_count), (2, 2));
    }
    assert_eq!(harness.engine.close().await, []);
}

#[tokio::test]
async fn a_pooled_agent_is_not_used_after_another_process_ran_a_turn() {
    let harness = EngineHarness::new();
    harness.script([send_text("yes"), end_turn()]);
    let mut request = harness.request("one", Target::New);
    request.keep_agent = true;
    let first = harness.chat(request, |_| {}).await.unwrap();
    // A second engine on the same store acts like another process.
    let second_engine = harness.second_engine();
    harness.script([send_text("yes"), end_turn()]);
    let (sender, mut events) = tokio::sync::mpsc::channel(8);
    let second = harness.request("two", session_target(&first));
    let receiving = async { while events.recv().await.is_some() {} };
    tokio::join!(second_engine.chat(second, sender), receiving)
        .0
        .unwrap();
    let mut request = harness.request("three", session_target(&first));
    request.keep_agent = true;
    harness.script([send_text("yes"), end_turn()]);
    let third = harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(third.opened.unwrap().0, OpenMode::Resumed);
}

#[tokio::test]
async fn each_timeout_fails_the_turn() {
    let timeout = Duration::from_millis(50);
    let cases = [
        (
            Timeouts {
                first_output: Some(timeout),
                ..Timeouts::default()
            },
            vec![ScriptedAction::Hang],
            "no output within",
        ),
        (
            Timeouts {
                silence: Some(timeout),
                ..Timeouts::default()
            },
            vec![send_text("a"), ScriptedAction::Hang],
            "no output for",
        ),
        (
            Timeouts {
                turn: Some(timeout),
                ..Timeouts::default()
            },
            vec![send_text("a"), ScriptedAction::Hang],
            "the turn took longer",
        ),
    ];
    for (timeouts, actions, message) in cases {
        let harness = EngineHarness::new();
        harness.agent.defaults.lock().unwrap().timeouts = timeouts;
        harness.script(actions);
        let report = harness
            .chat(harness.request("go", Target::New), |_| {})
            .await
            .unwrap();
        let failure = report.failure.unwrap();
        assert_eq!(failure.class, FailureClass::TimedOut);
        assert!(failure.message.contains(message), "{}", failure.message);
        assert_eq!(
            harness.agent.received.lock().unwrap().cancel_count,
            1,
            "the agent is asked to stop first"
        );
    }
}

#[tokio::test]
async fn a_stop_by_the_user_is_a_cancel_and_not_a_failure() {
    let harness = EngineHarness::new();
    harness.agent.defaults.lock().unwrap().timeouts.turn = Some(Duration::from_mins(1));
    let stop = harness.stop.clone();
    let stop_turn = ScriptedAction::SideEffect(Box::new(move || {
        Box::pin(async move {
            stop.send_replace(StopLevel::Graceful);
        })
    }));
    harness.script([send_text("a"), stop_turn, ScriptedAction::Hang]);
    let report = harness
        .chat(harness.request("go", Target::New), |_| {})
        .await
        .unwrap();
    assert_eq!((report.state, report.failure), (TurnState::Cancelled, None));
    assert_eq!(harness.agent.received.lock().unwrap().cancel_count, 1);
}

fn request_permission(name: &str, kind: &str) -> ScriptedAction {
    let option = |id: &str, kind| PermissionOption {
        id: id.into(),
        name: id.into(),
        kind,
    };
    ScriptedAction::PermissionRequested(PermissionRequest {
        call: ToolCall {
            id: "c1".into(),
            name: name.into(),
            kind: kind.into(),
            args: Json::empty_object(),
            status: ToolStatus::Pending,
            output: None,
            diffs: Vec::new(),
        },
        options: vec![
            option("yes", PermissionKind::AllowOnce),
            option("no", PermissionKind::RejectOnce),
        ],
    })
}

#[tokio::test]
async fn only_tools_of_segue_need_no_permission() {
    let cases = [
        ("mcp__segue__session_describe", "other", "yes"),
        ("segue_session_search", "other", "yes"),
        ("mcp__segue__session_describe", "execute", "no"),
        ("segue/session_search", "other", "no"),
        ("session_search (segue MCP Server)", "other", "no"),
        ("mcp__segue__delete_everything", "other", "no"),
        ("mcp__other__session_search", "other", "no"),
    ];
    for (name, kind, expected) in cases {
        let harness = EngineHarness::new();
        harness.script([request_permission(name, kind), end_turn()]);
        let mut request = harness.request("go", Target::New);
        request.permissions = Some(PermissionPolicy::Deny);
        harness.chat(request, |_| {}).await.unwrap();
        let answers = harness
            .agent
            .received
            .lock()
            .unwrap()
            .permission_answers
            .clone();
        let expected = PermissionAnswer::Selected(expected.into());
        assert_eq!(answers, [expected], "{name} ({kind})");
    }
}

#[tokio::test]
async fn permission_requests_and_allowed_tools_do_not_time_out() {
    let timeout = Duration::from_millis(100);
    let harness = EngineHarness::new();
    harness.agent.defaults.lock().unwrap().timeouts = Timeouts {
        first_output: Some(timeout),
        silence: Some(timeout),
        turn: Some(timeout * 3),
        ..Timeouts::default()
    };
    let wait =
        |time| ScriptedAction::SideEffect(Box::new(move || Box::pin(tokio::time::sleep(time))));
    // The agent does not announce the call before it requests permission, and is silent while the tool runs.
    harness.script([
        request_permission("build", "execute"),
        wait(timeout * 2),
        send_text("built"),
        end_turn(),
    ]);
    let mut request = harness.request("go", Target::New);
    request.permissions = Some(PermissionPolicy::Ask);
    let (sender, mut events) = tokio::sync::mpsc::channel(8);
    let chat = harness.engine.chat(request, sender);
    let user = async {
        while let Some(event) = events.recv().await {
            if let TurnEvent::PermissionRequested(_, answer) = event {
                // The user takes longer than all timeouts of the agent together.
                tokio::time::sleep(timeout * 5).await;
                answer
                    .send(PermissionAnswer::Selected("yes".into()))
                    .unwrap();
            }
        }
    };
    let report = tokio::join!(chat, user).0.unwrap();
    assert_eq!(report.state, TurnState::Finished, "{:?}", report.failure);
}

#[tokio::test]
async fn a_missing_native_session_is_not_replaced_by_an_empty_one() {
    let harness = EngineHarness::new();
    let target = Target::Native(
        "scripted".parse().unwrap(),
        NativeId::parse("theirs-1").unwrap(),
    );
    *harness.agent.resume_mode.lock().unwrap() = OpenMode::Fresh;
    for _ in 0..2 {
        let report = harness
            .chat(harness.request("go on", target.clone()), |_| {})
            .await
            .unwrap();
        assert_eq!(report.failure.unwrap().class, FailureClass::SessionUnknown);
    }
    // The result does not change if the agent reports this only after the prompt.
    *harness.agent.resume_mode.lock().unwrap() = OpenMode::Resumed;
    harness.script([fail_turn(FailureClass::SessionUnknown, "who?")]);
    let report = harness
        .chat(harness.request("go on", target), |_| {})
        .await
        .unwrap();
    assert_eq!(report.failure.unwrap().class, FailureClass::SessionUnknown);
    assert_eq!(harness.agent.received.lock().unwrap().prompts, ["go on"]);
}

#[tokio::test]
async fn an_agent_that_does_not_stop_is_not_pooled() {
    let harness = EngineHarness::new();
    let stop = harness.stop.clone();
    let stop_turn = ScriptedAction::SideEffect(Box::new(move || {
        Box::pin(async move {
            stop.send_replace(StopLevel::Immediate);
        })
    }));
    harness.script([send_text("a"), stop_turn, ScriptedAction::Hang]);
    let mut request = harness.request("go", Target::New);
    request.keep_agent = true;
    let report = harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.state, TurnState::Cancelled);
    assert_eq!(harness.agent.received.lock().unwrap().close_count, 1);
}

#[tokio::test]
async fn plans_and_compactions_are_emitted_and_recorded() {
    let harness = EngineHarness::new();
    let step = PlanStep {
        text: "read".into(),
        status: PlanStatus::InProgress,
    };
    harness.script([
        ScriptedAction::Event(AgentEvent::Plan(vec![step.clone()])),
        ScriptedAction::Event(AgentEvent::Compacted),
        send_text("ok"),
        end_turn(),
    ]);
    let mut plans = Vec::new();
    let report = harness
        .chat(harness.request("go", Target::New), |event| {
            if let TurnEvent::Plan(steps) = event {
                plans.push(steps);
            }
        })
        .await
        .unwrap();
    assert_eq!(plans, [[step]]);
    assert!(
        report
            .decisions
            .iter()
            .any(|decision| decision.kind() == DecisionKind::Compacted)
    );
    let turns = harness.store.turns(&report.session).await.unwrap();
    let messages = harness.store.messages(turns[0].id).await.unwrap();
    let recorded = format!("{messages:?}");
    assert!(recorded.contains("in_progress"), "{recorded}");
}

#[tokio::test]
async fn a_prompt_uses_the_session_that_the_agent_is_configured_for() {
    let harness = EngineHarness::new();
    let defaults_with = |session| AgentDefaults {
        session,
        ..AgentDefaults::default()
    };
    let first = harness.run_turn("one", Target::Default).await;
    let second = harness.run_turn("two", Target::Default).await;
    assert_ne!(
        first.session, second.session,
        "a prompt starts a new session by default"
    );
    *harness.agent.defaults.lock().unwrap() = defaults_with(SessionDefault::NewestInDirectory);
    let third = harness.run_turn("three", Target::Default).await;
    assert_eq!(third.session, second.session);
    *harness.agent.defaults.lock().unwrap() =
        defaults_with(SessionDefault::Selected(first.session.to_string()));
    let fourth = harness.run_turn("four", Target::Default).await;
    assert_eq!(fourth.session, first.session);
    // Only the agent has this id, so the agent is opened with it, and must have the session.
    *harness.agent.defaults.lock().unwrap() =
        defaults_with(SessionDefault::Selected("theirs-1".into()));
    let fifth = harness.run_turn("five", Target::Default).await;
    assert_eq!(fifth.native_id.unwrap().as_str(), "theirs-1");
    assert_eq!(
        harness.agent.received.lock().unwrap().strict.last(),
        Some(&true)
    );
    assert_eq!(harness.run_turn("new", Target::New).await.turn, 1);
}
