//! Turns, from the prompt to the final record.

use segue_core::agent::{
    PermissionAnswer, PermissionKind, PermissionOption, PermissionRequest, ProcessIdentity,
};
use segue_core::json::Json;
use segue_core::session::{
    AgentEvent, Decision, DecisionKind, GuardAction, Part, StopReason, ToolCall, ToolStatus,
    TurnState, Usage,
};
use segue_engine::{AccessError, StopLevel, Target, TurnError, TurnEvent};
use segue_store::{LeaseRequest, StoreError};

use crate::decision_text;
use crate::scripted::{EngineHarness, ScriptedAction, end_turn, send_text, session_target};

fn tool_call(status: ToolStatus, args: &str) -> ToolCall {
    ToolCall {
        id: "c1".into(),
        name: "write".into(),
        kind: "edit".into(),
        args: Json::parse(args).unwrap(),
        status,
        output: status
            .has_ended()
            .then(|| Json::parse("\"written\"").unwrap()),
        diffs: Vec::new(),
    }
}

#[tokio::test]
async fn repeated_guard_actions_are_reported_once() {
    let harness = EngineHarness::new();
    let short_id = || "1234abcd".to_owned();
    let actions = [
        GuardAction::DuplicateRemoved {
            short_id: short_id(),
        },
        GuardAction::CopySaved {
            short_id: short_id(),
        },
    ];
    *harness.agent.guard_actions.lock().unwrap() = actions.to_vec();
    let report = harness.run_turn("one", Target::New).await;
    let mut decisions = report.decisions;
    decisions.retain(|decision| decision.kind() == DecisionKind::Protected);
    let expected = actions.map(|action| Decision::NativeProtected { action });
    assert_eq!(decisions, expected);
}

fn permission_request() -> PermissionRequest {
    let option = |id: &str, kind| PermissionOption {
        id: id.into(),
        name: id.into(),
        kind,
    };
    PermissionRequest {
        call: tool_call(ToolStatus::Pending, "{}"),
        options: vec![
            option("yes", PermissionKind::AllowOnce),
            option("no", PermissionKind::RejectOnce),
        ],
    }
}

#[tokio::test]
async fn text_thoughts_and_tool_calls_become_messages() {
    let harness = EngineHarness::new();
    harness.script([
        ScriptedAction::Event(AgentEvent::Thought("let me ".into())),
        ScriptedAction::Event(AgentEvent::Thought("see".into())),
        send_text("I "),
        send_text("write."),
        ScriptedAction::Event(AgentEvent::Tool(tool_call(ToolStatus::Pending, "{}"))),
        ScriptedAction::Event(AgentEvent::Tool(tool_call(
            ToolStatus::InProgress,
            r#"{"path":"x"}"#,
        ))),
        ScriptedAction::Event(AgentEvent::Tool(tool_call(
            ToolStatus::Completed,
            r#"{"path":"x"}"#,
        ))),
        ScriptedAction::Event(AgentEvent::Tool(tool_call(
            ToolStatus::Completed,
            r#"{"path":"x"}"#,
        ))),
        send_text("Done."),
        end_turn(),
    ]);
    let report = harness
        .chat(harness.request("go", Target::New), |_| {})
        .await
        .unwrap();
    assert_eq!(report.text.as_deref(), Some("I write.\nDone."));
    let turns = harness.store.turns(&report.session).await.unwrap();
    let messages = harness.store.messages(turns[0].id).await.unwrap();
    let parts: Vec<Part> = messages
        .into_iter()
        .flat_map(|message| message.parts)
        .collect();
    let expected = [
        Part::Text("go".into()),
        Part::Thought("let me see".into()),
        Part::Text("I write.".into()),
        Part::FunctionCall {
            id: "c1".into(),
            name: "write".into(),
            args: Json::parse(r#"{"path":"x"}"#).unwrap(),
        },
        Part::FunctionResponse {
            call_id: "c1".into(),
            name: "write".into(),
            response: Json::parse("\"written\"").unwrap(),
            is_error: false,
        },
        Part::Text("Done.".into()),
    ];
    assert_eq!(parts, expected);
}

#[tokio::test]
async fn a_message_recorded_in_chunks_is_read_as_one_message() {
    let harness = EngineHarness::new();
    let repeat_letter = |letter: &str| letter.repeat(700_000);
    harness.script([
        send_text(&repeat_letter("a")),
        send_text(&repeat_letter("b")),
        send_text(&repeat_letter("c")),
        send_text(&repeat_letter("d")),
        send_text("the end"),
        ScriptedAction::Event(AgentEvent::Tool(tool_call(ToolStatus::Completed, "{}"))),
        send_text("after it"),
        end_turn(),
    ]);
    let mut request = harness.request("go", Target::New);
    request.max_text_bytes = 2_000_000;
    let mut events = Vec::new();
    let report = harness
        .chat(request, |event| match event {
            TurnEvent::Text { message, .. } => events.push(format!("text {message}")),
            TurnEvent::Saved { message } => events.push(format!("saved {message}")),
            _ => {}
        })
        .await
        .unwrap();
    assert_eq!(
        report.text, None,
        "the text is longer than the requested limit"
    );
    // The chunks are the messages 1 (a and b), 2 (c and d) and 3 (the end). The tool call is 4 and 5.
    let expected = [
        "text 1", "text 1", "text 1", "text 1", "text 1", "saved 5", "text 6", "saved 6",
    ];
    assert_eq!(events, expected);
    let session = harness
        .store
        .session(&report.session)
        .await
        .unwrap()
        .unwrap();
    let chunks = harness.store.messages(session.head.unwrap()).await.unwrap();
    let lengths: Vec<_> = chunks
        .iter()
        .map(|message| (message.plain_text().len(), message.complete))
        .collect();
    assert_eq!(
        lengths[1..4],
        [(1_400_000, false), (1_400_000, false), (7, true)]
    );
    let transcript = harness.engine.library().transcript(session).await.unwrap();
    let messages = &transcript.turns[0].messages;
    let full_text = [
        repeat_letter("a"),
        repeat_letter("b"),
        repeat_letter("c"),
        repeat_letter("d"),
        "the end".into(),
    ]
    .concat();
    assert!(messages[1].plain_text() == full_text, "text was lost");
    assert!(messages[1].complete);
    assert_eq!(messages.last().unwrap().plain_text(), "after it");
}

#[tokio::test]
async fn saved_events_follow_the_recorded_messages() {
    let harness = EngineHarness::new();
    harness.script([
        send_text("one"),
        ScriptedAction::Event(AgentEvent::Tool(tool_call(ToolStatus::Completed, "{}"))),
        send_text("two"),
        end_turn(),
    ]);
    let mut events = Vec::new();
    let report = harness
        .chat(harness.request("go", Target::New), |event| match event {
            TurnEvent::Started { turn, .. } => events.push(format!("started {turn}")),
            TurnEvent::Saved { message } => events.push(format!("saved {message}")),
            TurnEvent::Ended { state } => events.push(format!("ended {}", state.as_str())),
            _ => {}
        })
        .await
        .unwrap();
    assert_eq!(
        events,
        ["started 1", "saved 3", "saved 4", "ended finished"]
    );
    assert_eq!(report.state, TurnState::Finished);
}

#[tokio::test]
async fn usage_is_added_to_turn_leg_and_session() {
    let harness = EngineHarness::new();
    let usage = Usage {
        input_tokens: Some(90),
        output_tokens: Some(10),
        total_tokens: Some(100),
        ..Usage::default()
    };
    let context = Usage {
        context_tokens: Some(95),
        context_window: Some(1000),
        ..Usage::default()
    };
    harness.script([
        ScriptedAction::Event(AgentEvent::Usage(context)),
        ScriptedAction::TurnEnded(StopReason::EndTurn, usage),
    ]);
    let first = harness
        .chat(harness.request("one", Target::New), |_| {})
        .await
        .unwrap();
    assert_eq!(
        (first.usage.total_tokens, first.usage.context_tokens),
        (Some(100), Some(95))
    );
    harness.script([ScriptedAction::TurnEnded(StopReason::EndTurn, usage)]);
    harness
        .chat(harness.request("two", session_target(&first)), |_| {})
        .await
        .unwrap();
    let session = harness
        .store
        .session(&first.session)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(session.total_tokens, Some(200));
    let leg = harness.store.legs(&first.session).await.unwrap().remove(0);
    assert_eq!(
        (leg.total_tokens, leg.context_tokens),
        (Some(200), Some(95))
    );
}

#[tokio::test]
async fn a_permission_request_is_answered_by_the_caller_or_refused() {
    let harness = EngineHarness::new();
    harness.script([
        ScriptedAction::PermissionRequested(permission_request()),
        end_turn(),
    ]);
    let answer_yes = |event| {
        if let TurnEvent::PermissionRequested(_, reply) = event {
            reply
                .send(PermissionAnswer::Selected("yes".into()))
                .unwrap();
        }
    };
    let first = harness
        .chat(harness.request("one", Target::New), answer_yes)
        .await
        .unwrap();
    // A caller that drops the request rejects it.
    harness.script([
        ScriptedAction::PermissionRequested(permission_request()),
        end_turn(),
    ]);
    let second = harness
        .chat(harness.request("two", session_target(&first)), |_| {})
        .await
        .unwrap();
    let answers = harness
        .agent
        .received
        .lock()
        .unwrap()
        .permission_answers
        .clone();
    let choose = |id: &str| PermissionAnswer::Selected(id.into());
    assert_eq!(answers, [choose("yes"), choose("no")]);
    assert_eq!(
        decision_text(first.decisions.last().unwrap()),
        "allowed \"write\" by the user"
    );
    assert_eq!(
        decision_text(&second.decisions[0]),
        "refused \"write\" because the user did not or could not answer, and no policy allows it"
    );
}

#[tokio::test]
async fn a_graceful_stop_cancels_the_turn_and_retains_its_output() {
    let harness = EngineHarness::new();
    harness.script([
        send_text("half"),
        ScriptedAction::Event(AgentEvent::Tool(tool_call(ToolStatus::InProgress, "{}"))),
        ScriptedAction::Hang,
    ]);
    let stop = harness.stop.clone();
    let report = harness
        .chat(harness.request("go", Target::New), |event| {
            if let TurnEvent::Tool(_) = event {
                stop.send_replace(StopLevel::Graceful);
            }
        })
        .await
        .unwrap();
    assert_eq!(
        (report.state, report.text.as_deref()),
        (TurnState::Cancelled, Some("half"))
    );
    assert_eq!(report.failure, None, "a cancel is not a failure");
    {
        let received = harness.agent.received.lock().unwrap();
        assert_eq!((received.cancel_count, received.close_count), (1, 1));
    }
    let turns = harness.store.turns(&report.session).await.unwrap();
    let messages = harness.store.messages(turns[0].id).await.unwrap();
    assert_eq!(messages.len(), 4, "the open call is closed: {messages:?}");
    let leg = harness.store.legs(&report.session).await.unwrap().remove(0);
    assert_eq!(leg.consecutive_failures, 0);
}

#[tokio::test]
async fn an_immediate_stop_ends_a_hanging_agent() {
    let harness = EngineHarness::new();
    let stop = harness.stop.clone();
    harness.script([send_text("x"), ScriptedAction::Hang]);
    let report = harness
        .chat(harness.request("go", Target::New), |event| {
            if let TurnEvent::Text { .. } = event {
                stop.send_replace(StopLevel::Immediate);
            }
        })
        .await
        .unwrap();
    assert_eq!(report.state, TurnState::Cancelled);
}

#[tokio::test]
async fn a_process_that_lost_its_lease_writes_nothing() {
    let harness = EngineHarness::new();
    let first = harness.run_turn("one", Target::New).await;
    let (store, session) = (harness.store.clone(), first.session.clone());
    harness.script([
        ScriptedAction::Event(AgentEvent::Tool(tool_call(ToolStatus::InProgress, "{}"))),
        ScriptedAction::SideEffect(Box::new(move || {
            Box::pin(async move {
                let holder = store.lease_holder(&session).await.unwrap().unwrap();
                let request = LeaseRequest {
                    session,
                    owner: ProcessIdentity {
                        pid: 4,
                        ..holder.owner
                    },
                    expires_after: jiff::SignedDuration::from_secs(30),
                    dead_epoch: Some(holder.epoch),
                };
                store.acquire_lease(request).await.unwrap();
            })
        })),
        ScriptedAction::Event(AgentEvent::Tool(tool_call(ToolStatus::Completed, "{}"))),
        end_turn(),
    ]);
    let outcome = harness
        .chat(harness.request("two", session_target(&first)), |_| {})
        .await;
    assert!(
        matches!(
            outcome,
            Err(TurnError::Access(AccessError::Store(
                StoreError::LeaseLost(_)
            )))
        ),
        "{outcome:?}"
    );
    assert_eq!(
        harness.agent.received.lock().unwrap().close_count,
        2,
        "the agent is ended"
    );
    let turns = harness.store.turns(&first.session).await.unwrap();
    assert_eq!(
        turns[1].state,
        TurnState::Running,
        "the new lease holder closes the turn"
    );
    assert_eq!(harness.store.messages(turns[1].id).await.unwrap().len(), 2);
}

#[tokio::test]
async fn unparsable_output_is_reported_five_times_and_then_ignored() {
    let harness = EngineHarness::new();
    harness
        .script((0..50).map(|n| ScriptedAction::Event(AgentEvent::Garbage(format!("noise {n}")))));
    harness.script([send_text("fine"), end_turn()]);
    let report = harness
        .chat(harness.request("go", Target::New), |_| {})
        .await
        .unwrap();
    assert_eq!(report.text.as_deref(), Some("fine"));
    let reported = report
        .decisions
        .iter()
        .filter(|decision| decision_text(decision).contains("noise"));
    assert_eq!(reported.count(), 5);
}

#[tokio::test]
async fn an_interrupted_message_is_marked_incomplete() {
    let harness = EngineHarness::new();
    harness.script([send_text("half a"), ScriptedAction::Hang]);
    let stop = harness.stop.clone();
    let report = harness
        .chat(harness.request("go", Target::New), |event| {
            if let TurnEvent::Text { .. } = event {
                stop.send_replace(StopLevel::Graceful);
            }
        })
        .await
        .unwrap();
    let turns = harness.store.turns(&report.session).await.unwrap();
    let messages = harness.store.messages(turns[0].id).await.unwrap();
    assert_eq!(
        (messages[1].plain_text().as_str(), messages[1].complete),
        ("half a", false)
    );
}

#[tokio::test]
async fn tool_output_after_the_end_of_a_call_is_recorded() {
    let harness = EngineHarness::new();
    let mut first = tool_call(ToolStatus::Completed, "{}");
    first.output = None;
    harness.script([
        ScriptedAction::Event(AgentEvent::Tool(first)),
        ScriptedAction::Event(AgentEvent::Tool(tool_call(ToolStatus::Completed, "{}"))),
        end_turn(),
    ]);
    let report = harness
        .chat(harness.request("go", Target::New), |_| {})
        .await
        .unwrap();
    let turns = harness.store.turns(&report.session).await.unwrap();
    let messages = harness.store.messages(turns[0].id).await.unwrap();
    assert_eq!(messages.len(), 3, "one call, one result: {messages:?}");
    assert!(matches!(
        messages[2].parts.as_slice(),
        [Part::FunctionResponse { response, .. }] if response.as_str() == "\"written\""
    ));
}

#[tokio::test]
async fn an_unrequested_cancel_is_a_failure() {
    let harness = EngineHarness::new();
    let cancel_turn = || ScriptedAction::TurnEnded(StopReason::Cancelled, Usage::default());
    harness.script([cancel_turn()]);
    let unrequested = harness
        .chat(harness.request("one", Target::New), |_| {})
        .await
        .unwrap();
    assert_eq!(unrequested.state, TurnState::Failed);
    harness.script([
        ScriptedAction::PermissionRequested(permission_request()),
        cancel_turn(),
    ]);
    let after_refusal = harness
        .chat(harness.request("two", Target::New), |_| {})
        .await
        .unwrap();
    assert_eq!(
        (after_refusal.state, after_refusal.stopped_by_policy),
        (TurnState::Cancelled, true)
    );
}

#[tokio::test]
async fn a_blocked_event_receiver_does_not_delay_the_record() {
    let harness = EngineHarness::new();
    harness.script((0..40).map(|n| send_text(&format!("{n} "))));
    harness.script([ScriptedAction::Hang]);
    let (sender, mut events) = tokio::sync::mpsc::channel(2);
    let chat = harness
        .engine
        .chat(harness.request("go", Target::New), sender);
    let blocked_receiver = async {
        let first = events.recv().await.unwrap();
        let TurnEvent::Started { session, .. } = first else {
            panic!("{first:?}");
        };
        // The caller receives no more events. The text that was streamed until the channel was full is still drafted.
        tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
        let turns = harness.store.turns(&session).await.unwrap();
        let messages = harness.store.messages(turns[0].id).await.unwrap();
        messages.last().unwrap().plain_text()
    };
    tokio::select! {
        report = chat => panic!("the agent hangs, but the turn ended: {report:?}"),
        drafted = blocked_receiver => assert!(drafted.starts_with("0 "), "{drafted:?}"),
    }
}
