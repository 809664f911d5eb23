//! Behaviour of real agents that a simple one does not have: they report their session id late, lose a session, run out
//! of context, or stay running.

use std::sync::atomic::Ordering;
use std::time::Duration;

use segue_agents::{AgentError, AgentDefaults, AgentRefusal, SessionDefault, Timeouts};
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
use segue_store::Store;

use crate::scripted::{Cue, Stage, done, same, say};

fn fails(class: FailureClass, words: &str) -> Cue {
    Cue::Fails(AgentError::from_refusal(
        "the prompt",
        AgentRefusal::new(class, words),
    ))
}

#[tokio::test]
async fn an_agent_may_name_the_conversation_late() {
    let stage = Stage::new();
    stage.agent.nameless.store(true, Ordering::Relaxed);
    stage.script([Cue::Named("late-1"), say("hi"), done()]);
    let mut opened_as = Vec::new();
    let first = stage
        .chat(stage.request("one", Target::New), |event| match event {
            TurnEvent::Opened { native_id, .. } => opened_as.push(native_id),
            TurnEvent::NativeIdReported { native_id } => opened_as.push(Some(native_id)),
            _ => {}
        })
        .await
        .unwrap();
    let name = NativeId::parse("late-1").unwrap();
    assert_eq!(opened_as, [None, Some(name.clone())]);
    assert_eq!(first.native_id, Some(name.clone()));
    // The next turn resumes the session by this id.
    stage.turn("two", same(&first)).await;
    assert_eq!(
        stage.agent.heard.lock().unwrap().asked_for,
        [None, Some(name)]
    );
}

#[tokio::test]
async fn a_session_that_is_unknown_only_to_the_prompt_is_replaced_once() {
    let stage = Stage::new();
    let first = stage.turn("the password is swordfish", Target::New).await;
    stage.script([
        fails(FailureClass::SessionUnknown, "no conversation found"),
        say("swordfish"),
        done(),
    ]);
    let second = stage
        .chat(stage.request("what was it?", same(&first)), |_| {})
        .await
        .unwrap();
    assert_eq!(second.state, TurnState::Finished);
    let (opened, why) = second.opened.clone().unwrap();
    assert_eq!((opened, second.leg), (OpenMode::Briefed, Some(2)));
    assert!(why.contains("no conversation found"), "{why}");
    let turns = stage.store.turns(&first.session).await.unwrap();
    let attempts = stage.store.attempts(turns[1].id).await.unwrap();
    let states: Vec<TurnState> = attempts.iter().map(|attempt| attempt.state).collect();
    assert_eq!(states, [TurnState::Failed, TurnState::Finished]);
    let legs = stage.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].ended.unwrap().1, LegEnd::Lost);
    // A second time in the same turn, it is a failure.
    stage.script([
        fails(FailureClass::SessionUnknown, "who?"),
        fails(FailureClass::SessionUnknown, "who?"),
    ]);
    let third = stage
        .chat(stage.request("again", same(&first)), |_| {})
        .await
        .unwrap();
    assert_eq!(third.failure.unwrap().class, FailureClass::SessionUnknown);
}

#[tokio::test]
async fn what_was_heard_is_never_asked_for_again() {
    let stage = Stage::new();
    let first = stage.turn("one", Target::New).await;
    stage.script([say("half"), fails(FailureClass::SessionUnknown, "who?")]);
    let second = stage
        .chat(stage.request("two", same(&first)), |_| {})
        .await
        .unwrap();
    assert_eq!((second.state, second.leg), (TurnState::Failed, Some(1)));
    assert_eq!(second.text.as_deref(), Some("half"));
    assert_eq!(stage.agent.heard.lock().unwrap().prompts.len(), 2);
}

#[tokio::test]
async fn strict_fails_rather_than_begin_anew() {
    let stage = Stage::new();
    let first = stage.turn("one", Target::New).await;
    *stage.agent.goes_on.lock().unwrap() = OpenMode::Fresh;
    let mut request = stage.request("two", same(&first));
    request.strict = true;
    let second = stage.chat(request, |_| {}).await.unwrap();
    let failure = second.failure.unwrap();
    assert_eq!(failure.class, FailureClass::SessionUnknown);
    assert!(failure.hint.unwrap().to_string().contains("--strict"));
    // After a revert no native session can be resumed, so the agent is not even started.
    *stage.agent.goes_on.lock().unwrap() = OpenMode::Resumed;
    stage.turn("two", same(&first)).await;
    let session = stage.store.session(&first.session).await.unwrap().unwrap();
    stage.engine.revert_session(&session, 1).await.unwrap();
    let opened = stage.agent.heard.lock().unwrap().asked_for.len();
    let mut request = stage.request("two again", same(&first));
    request.strict = true;
    let third = stage.chat(request, |_| {}).await.unwrap();
    assert_eq!(third.failure.unwrap().class, FailureClass::SessionUnknown);
    assert_eq!(stage.agent.heard.lock().unwrap().asked_for.len(), opened);
}

#[tokio::test]
async fn a_native_session_without_room_is_over() {
    let stage = Stage::new();
    let first = stage.turn("one", Target::New).await;
    stage.script([fails(FailureClass::ContextTooLong, "prompt is too long")]);
    let second = stage
        .chat(stage.request("two", same(&first)), |_| {})
        .await
        .unwrap();
    assert_eq!(second.failure.unwrap().class, FailureClass::ContextTooLong);
    let legs = stage.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].ended.unwrap().1, LegEnd::Full);
    let third = stage.turn("three", same(&first)).await;
    assert_eq!(third.opened.unwrap().0, OpenMode::Briefed);
}

#[tokio::test]
async fn when_to_try_again_is_on_record() {
    let stage = Stage::new();
    stage.script([fails(FailureClass::Quota, "your quota will reset after 2h")]);
    let report = stage
        .chat(stage.request("one", Target::New), |_| {})
        .await
        .unwrap();
    let failure = report.failure.unwrap();
    let in_hours = (failure.retry_at.unwrap() - jiff::Timestamp::now())
        .total(jiff::Unit::Hour)
        .unwrap();
    assert!((1.9..=2.0).contains(&in_hours), "{in_hours}");
    let turns = stage.store.turns(&report.session).await.unwrap();
    let on_record = turns[0].failure.as_ref().unwrap();
    let second = |at: jiff::Timestamp| at.as_second();
    assert_eq!(on_record.retry_at.map(second), failure.retry_at.map(second));
}

#[tokio::test]
async fn an_agent_that_is_kept_serves_turn_after_turn() {
    let stage = Stage::new();
    let mut report = None;
    for prompt in ["one", "two", "three"] {
        let target = report.as_ref().map_or(Target::New, same);
        let mut request = stage.request(prompt, target);
        request.keep_agent = true;
        stage.script([say("yes"), done()]);
        let next = stage.chat(request, |_| {}).await.unwrap();
        let expected = if prompt == "one" {
            OpenMode::Fresh
        } else {
            OpenMode::Live
        };
        assert_eq!(next.opened.as_ref().unwrap().0, expected);
        report = Some(next);
    }
    let report = report.unwrap();
    assert_eq!(stage.agent.heard.lock().unwrap().asked_for.len(), 1);
    // Different options need another process.
    let mut request = stage.request("four", same(&report));
    request.permissions = Some(PermissionPolicy::AllowAll);
    stage.script([say("yes"), done()]);
    let next = stage.chat(request, |_| {}).await.unwrap();
    assert_eq!(next.opened.unwrap().0, OpenMode::Resumed);
    {
        let heard = stage.agent.heard.lock().unwrap();
        assert_eq!((heard.asked_for.len(), heard.closed), (2, 2));
    }
    assert_eq!(stage.engine.close().await, Vec::<String>::new());
}

#[tokio::test]
async fn an_agent_that_is_kept_is_not_used_after_somebody_else_went_on() {
    let stage = Stage::new();
    stage.script([say("yes"), done()]);
    let mut request = stage.request("one", Target::New);
    request.keep_agent = true;
    let first = stage.chat(request, |_| {}).await.unwrap();
    // A second engine on the same store acts like another process.
    let other = stage.beside_it();
    stage.script([say("yes"), done()]);
    let (sender, mut events) = tokio::sync::mpsc::channel(8);
    let second = stage.request("two", same(&first));
    let listening = async { while events.recv().await.is_some() {} };
    tokio::join!(other.chat(second, sender), listening)
        .0
        .unwrap();
    let mut request = stage.request("three", same(&first));
    request.keep_agent = true;
    stage.script([say("yes"), done()]);
    let third = stage.chat(request, |_| {}).await.unwrap();
    assert_eq!(third.opened.unwrap().0, OpenMode::Resumed);
}

#[tokio::test]
async fn patience_ends() {
    let second = Duration::from_millis(50);
    let cases = [
        (
            Timeouts {
                first_output: Some(second),
                ..Timeouts::default()
            },
            vec![Cue::Hang],
            "no sign of life",
        ),
        (
            Timeouts {
                silence: Some(second),
                ..Timeouts::default()
            },
            vec![say("a"), Cue::Hang],
            "said nothing",
        ),
        (
            Timeouts {
                turn: Some(second),
                ..Timeouts::default()
            },
            vec![say("a"), Cue::Hang],
            "the turn took longer",
        ),
    ];
    for (timeouts, cues, words) in cases {
        let stage = Stage::new();
        stage.agent.defaults.lock().unwrap().timeouts = timeouts;
        stage.script(cues);
        let report = stage
            .chat(stage.request("go", Target::New), |_| {})
            .await
            .unwrap();
        let failure = report.failure.unwrap();
        assert_eq!(failure.class, FailureClass::TimedOut);
        assert!(failure.message.contains(words), "{}", failure.message);
        assert_eq!(
            stage.agent.heard.lock().unwrap().cancelled,
            1,
            "it is asked to stop first"
        );
    }
}

#[tokio::test]
async fn the_users_stop_is_a_cancel_and_no_failure() {
    let stage = Stage::new();
    stage.agent.defaults.lock().unwrap().timeouts.turn = Some(Duration::from_mins(1));
    let stop = stage.stop.clone();
    let ask = Cue::Aside(Box::new(move || {
        Box::pin(async move {
            stop.send_replace(StopLevel::Graceful);
        })
    }));
    stage.script([say("a"), ask, Cue::Hang]);
    let report = stage
        .chat(stage.request("go", Target::New), |_| {})
        .await
        .unwrap();
    assert_eq!((report.state, report.failure), (TurnState::Cancelled, None));
    assert_eq!(stage.agent.heard.lock().unwrap().cancelled, 1);
}

fn asks(name: &str, kind: &str) -> Cue {
    let option = |id: &str, kind| PermissionOption {
        id: id.into(),
        name: id.into(),
        kind,
    };
    Cue::Ask(PermissionRequest {
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
async fn only_our_own_tools_need_no_permission_not_what_is_called_like_them() {
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
        let stage = Stage::new();
        stage.script([asks(name, kind), done()]);
        let mut request = stage.request("go", Target::New);
        request.permissions = Some(PermissionPolicy::Deny);
        stage.chat(request, |_| {}).await.unwrap();
        let answers = stage.agent.heard.lock().unwrap().answers.clone();
        let expected = PermissionAnswer::Selected(expected.into());
        assert_eq!(answers, [expected], "{name} ({kind})");
    }
}

#[tokio::test]
async fn neither_a_question_nor_what_it_allowed_is_silence() {
    let moment = Duration::from_millis(100);
    let stage = Stage::new();
    stage.agent.defaults.lock().unwrap().timeouts = Timeouts {
        first_output: Some(moment),
        silence: Some(moment),
        turn: Some(moment * 3),
        ..Timeouts::default()
    };
    let pause = |time| Cue::Aside(Box::new(move || Box::pin(tokio::time::sleep(time))));
    // The agent does not announce the call before it requests permission, and is silent while the tool runs.
    stage.script([
        asks("build", "execute"),
        pause(moment * 2),
        say("built"),
        done(),
    ]);
    let mut request = stage.request("go", Target::New);
    request.permissions = Some(PermissionPolicy::Ask);
    let (sender, mut events) = tokio::sync::mpsc::channel(8);
    let chat = stage.engine.chat(request, sender);
    let person = async {
        while let Some(event) = events.recv().await {
            if let TurnEvent::PermissionRequested(_, answer) = event {
                // The user takes longer than all timeouts of the agent together.
                tokio::time::sleep(moment * 5).await;
                answer.send(PermissionAnswer::Selected("yes".into())).unwrap();
            }
        }
    };
    let report = tokio::join!(chat, person).0.unwrap();
    assert_eq!(report.state, TurnState::Finished, "{:?}", report.failure);
}

#[tokio::test]
async fn nobody_is_given_a_blank_agent_for_a_session_that_only_the_agent_knew() {
    let stage = Stage::new();
    let theirs = Target::Native(
        "scripted".parse().unwrap(),
        NativeId::parse("theirs-1").unwrap(),
    );
    *stage.agent.goes_on.lock().unwrap() = OpenMode::Fresh;
    for _ in 0..2 {
        let report = stage
            .chat(stage.request("go on", theirs.clone()), |_| {})
            .await
            .unwrap();
        assert_eq!(report.failure.unwrap().class, FailureClass::SessionUnknown);
    }
    // The result does not change if the agent reports this only after the prompt.
    *stage.agent.goes_on.lock().unwrap() = OpenMode::Resumed;
    stage.script([fails(FailureClass::SessionUnknown, "who?")]);
    let report = stage
        .chat(stage.request("go on", theirs), |_| {})
        .await
        .unwrap();
    assert_eq!(report.failure.unwrap().class, FailureClass::SessionUnknown);
    assert_eq!(stage.agent.heard.lock().unwrap().prompts, ["go on"]);
}

#[tokio::test]
async fn an_agent_that_does_not_stop_is_not_kept() {
    let stage = Stage::new();
    let stop = stage.stop.clone();
    let now = Cue::Aside(Box::new(move || {
        Box::pin(async move {
            stop.send_replace(StopLevel::Immediate);
        })
    }));
    stage.script([say("a"), now, Cue::Hang]);
    let mut request = stage.request("go", Target::New);
    request.keep_agent = true;
    let report = stage.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.state, TurnState::Cancelled);
    assert_eq!(stage.agent.heard.lock().unwrap().closed, 1);
}

#[tokio::test]
async fn plans_and_compaction_are_told_and_kept() {
    let stage = Stage::new();
    let step = PlanStep {
        text: "read".into(),
        status: PlanStatus::InProgress,
    };
    stage.script([
        Cue::Event(AgentEvent::Plan(vec![step.clone()])),
        Cue::Event(AgentEvent::Compacted),
        say("ok"),
        done(),
    ]);
    let mut plans = Vec::new();
    let report = stage
        .chat(stage.request("go", Target::New), |event| {
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
            .any(|decision| decision.kind == DecisionKind::Compacted)
    );
    let turns = stage.store.turns(&report.session).await.unwrap();
    let messages = stage.store.messages(turns[0].id).await.unwrap();
    let kept = format!("{messages:?}");
    assert!(kept.contains("in_progress"), "{kept}");
}

#[tokio::test]
async fn a_prompt_goes_where_the_agent_is_configured_to_take_it() {
    let stage = Stage::new();
    let with = |session| AgentDefaults {
        session,
        ..AgentDefaults::default()
    };
    let first = stage.turn("one", Target::Default).await;
    let second = stage.turn("two", Target::Default).await;
    assert_ne!(first.session, second.session, "by default it is a new one");
    *stage.agent.defaults.lock().unwrap() = with(SessionDefault::NewestInDirectory);
    let third = stage.turn("three", Target::Default).await;
    assert_eq!(third.session, second.session);
    *stage.agent.defaults.lock().unwrap() = with(SessionDefault::Selected(first.session.to_string()));
    let fourth = stage.turn("four", Target::Default).await;
    assert_eq!(fourth.session, first.session);
    // Only the agent has this id, so the agent is opened with it, and must have the session.
    *stage.agent.defaults.lock().unwrap() = with(SessionDefault::Selected("theirs-1".into()));
    let fifth = stage.turn("five", Target::Default).await;
    assert_eq!(fifth.native_id.unwrap().as_str(), "theirs-1");
    assert_eq!(stage.agent.heard.lock().unwrap().strict.last(), Some(&true));
    assert_eq!(stage.turn("new", Target::New).await.turn, 1);
}
