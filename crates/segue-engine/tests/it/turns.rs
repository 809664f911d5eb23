//! Turns, from the prompt to the final record.

use segue_core::agent::{
    PermissionAnswer, PermissionKind, PermissionOption, PermissionRequest, ProcessIdentity,
};
use segue_core::json::Json;
use segue_core::session::{
    AgentEvent, DecisionKind, Part, StopReason, ToolCall, ToolStatus, TurnState, Usage,
};
use segue_engine::{EngineError, StopLevel, Target, TurnEvent};
use segue_store::{LeaseRequest, Store, StoreError};

use crate::scripted::{Cue, Stage, done, same, say};

fn tool(status: ToolStatus, args: &str) -> ToolCall {
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
async fn what_is_done_twice_against_harm_is_told_once() {
    let stage = Stage::new();
    let lines = ["removed a twin", "put back a session"].map(str::to_owned);
    *stage.agent.protects.lock().unwrap() = lines.to_vec();
    let report = stage.turn("one", Target::New).await;
    let protected = report.decisions.iter();
    let protected = protected.filter(|decision| decision.kind == DecisionKind::Protected);
    let told: Vec<_> = protected.map(|decision| decision.text.as_str()).collect();
    assert_eq!(told, lines);
}

fn question() -> PermissionRequest {
    let option = |id: &str, kind| PermissionOption {
        id: id.into(),
        name: id.into(),
        kind,
    };
    PermissionRequest {
        call: tool(ToolStatus::Pending, "{}"),
        options: vec![
            option("yes", PermissionKind::AllowOnce),
            option("no", PermissionKind::RejectOnce),
        ],
    }
}

#[tokio::test]
async fn words_thoughts_and_calls_become_messages() {
    let stage = Stage::new();
    stage.script([
        Cue::Event(AgentEvent::Thought("let me ".into())),
        Cue::Event(AgentEvent::Thought("see".into())),
        say("I "),
        say("write."),
        Cue::Event(AgentEvent::Tool(tool(ToolStatus::Pending, "{}"))),
        Cue::Event(AgentEvent::Tool(tool(
            ToolStatus::InProgress,
            r#"{"path":"x"}"#,
        ))),
        Cue::Event(AgentEvent::Tool(tool(
            ToolStatus::Completed,
            r#"{"path":"x"}"#,
        ))),
        Cue::Event(AgentEvent::Tool(tool(
            ToolStatus::Completed,
            r#"{"path":"x"}"#,
        ))),
        say("Done."),
        done(),
    ]);
    let report = stage
        .chat(stage.request("go", Target::New), |_| {})
        .await
        .unwrap();
    assert_eq!(report.text.as_deref(), Some("I write.\nDone."));
    let turns = stage.store.turns(&report.session).await.unwrap();
    let messages = stage.store.messages(turns[0].id).await.unwrap();
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
async fn a_long_message_is_one_message_though_it_is_written_in_pieces() {
    let stage = Stage::new();
    let long = |letter: &str| letter.repeat(700_000);
    stage.script([
        say(&long("a")),
        say(&long("b")),
        say(&long("c")),
        say(&long("d")),
        say("the end"),
        Cue::Event(AgentEvent::Tool(tool(ToolStatus::Completed, "{}"))),
        say("after it"),
        done(),
    ]);
    let mut request = stage.request("go", Target::New);
    request.max_text_bytes = 2_000_000;
    let mut told = Vec::new();
    let report = stage
        .chat(request, |event| match event {
            TurnEvent::Text { message, .. } => told.push(format!("text {message}")),
            TurnEvent::Saved { message } => told.push(format!("saved {message}")),
            _ => {}
        })
        .await
        .unwrap();
    assert_eq!(report.text, None, "it is longer than was asked for");
    // The chunks are the messages 1 (a and b), 2 (c and d) and 3 (the end). The tool call is 4 and 5.
    let expected = [
        "text 1", "text 1", "text 1", "text 1", "text 1", "saved 5", "text 6", "saved 6",
    ];
    assert_eq!(told, expected);
    let session = stage.store.session(&report.session).await.unwrap().unwrap();
    let pieces = stage.store.messages(session.head.unwrap()).await.unwrap();
    let lengths: Vec<_> = pieces
        .iter()
        .map(|message| (message.plain_text().len(), message.complete))
        .collect();
    assert_eq!(
        lengths[1..4],
        [(1_400_000, false), (1_400_000, false), (7, true)]
    );
    let transcript = stage.engine.transcript(session).await.unwrap();
    let said = &transcript.turns[0].messages;
    let whole = [long("a"), long("b"), long("c"), long("d"), "the end".into()].concat();
    assert!(said[1].plain_text() == whole, "words were lost");
    assert!(said[1].complete);
    assert_eq!(said.last().unwrap().plain_text(), "after it");
}

#[tokio::test]
async fn what_is_told_to_be_saved_is_in_the_store_by_then() {
    let stage = Stage::new();
    stage.script([
        say("one"),
        Cue::Event(AgentEvent::Tool(tool(ToolStatus::Completed, "{}"))),
        say("two"),
        done(),
    ]);
    let mut told = Vec::new();
    let report = stage
        .chat(stage.request("go", Target::New), |event| match event {
            TurnEvent::Started { turn, .. } => told.push(format!("began {turn}")),
            TurnEvent::Saved { message } => told.push(format!("saved {message}")),
            TurnEvent::Ended { state } => told.push(format!("ended {}", state.as_str())),
            _ => {}
        })
        .await
        .unwrap();
    assert_eq!(told, ["began 1", "saved 3", "saved 4", "ended finished"]);
    assert_eq!(report.state, TurnState::Finished);
}

#[tokio::test]
async fn figures_are_settled_on_turn_leg_and_session() {
    let stage = Stage::new();
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
    stage.script([
        Cue::Event(AgentEvent::Usage(context)),
        Cue::Done(StopReason::EndTurn, usage),
    ]);
    let first = stage
        .chat(stage.request("one", Target::New), |_| {})
        .await
        .unwrap();
    assert_eq!(
        (first.usage.total_tokens, first.usage.context_tokens),
        (Some(100), Some(95))
    );
    stage.script([Cue::Done(StopReason::EndTurn, usage)]);
    stage
        .chat(stage.request("two", same(&first)), |_| {})
        .await
        .unwrap();
    let session = stage.store.session(&first.session).await.unwrap().unwrap();
    assert_eq!(session.total_tokens, Some(200));
    let leg = stage.store.legs(&first.session).await.unwrap().remove(0);
    assert_eq!(
        (leg.total_tokens, leg.context_tokens),
        (Some(200), Some(95))
    );
}

#[tokio::test]
async fn a_question_is_answered_by_the_caller_or_refused() {
    let stage = Stage::new();
    stage.script([Cue::Ask(question()), done()]);
    let yes = |event| {
        if let TurnEvent::PermissionRequested(_, reply) = event {
            reply.send(PermissionAnswer::Selected("yes".into())).unwrap();
        }
    };
    let first = stage
        .chat(stage.request("one", Target::New), yes)
        .await
        .unwrap();
    // A caller that drops the request rejects it.
    stage.script([Cue::Ask(question()), done()]);
    let second = stage
        .chat(stage.request("two", same(&first)), |_| {})
        .await
        .unwrap();
    let answers = stage.agent.heard.lock().unwrap().answers.clone();
    let choose = |id: &str| PermissionAnswer::Selected(id.into());
    assert_eq!(answers, [choose("yes"), choose("no")]);
    assert_eq!(
        first.decisions.last().unwrap().text,
        "allowed \"write\" by the user"
    );
    assert_eq!(
        second.decisions[0].text,
        "refused \"write\" since nobody answered and no policy allows it"
    );
}

#[tokio::test]
async fn a_stop_asks_the_agent_and_keeps_what_it_said() {
    let stage = Stage::new();
    stage.script([
        say("half"),
        Cue::Event(AgentEvent::Tool(tool(ToolStatus::InProgress, "{}"))),
        Cue::Hang,
    ]);
    let stop = stage.stop.clone();
    let report = stage
        .chat(stage.request("go", Target::New), |event| {
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
        let heard = stage.agent.heard.lock().unwrap();
        assert_eq!((heard.cancelled, heard.closed), (1, 1));
    }
    let turns = stage.store.turns(&report.session).await.unwrap();
    let messages = stage.store.messages(turns[0].id).await.unwrap();
    assert_eq!(messages.len(), 4, "the open call is closed: {messages:?}");
    let leg = stage.store.legs(&report.session).await.unwrap().remove(0);
    assert_eq!(leg.consecutive_failures, 0);
}

#[tokio::test]
async fn a_stopped_agent_that_does_not_stop_is_ended() {
    let stage = Stage::new();
    let stop = stage.stop.clone();
    stage.script([say("x"), Cue::Hang]);
    let report = stage
        .chat(stage.request("go", Target::New), |event| {
            if let TurnEvent::Text { .. } = event {
                stop.send_replace(StopLevel::Immediate);
            }
        })
        .await
        .unwrap();
    assert_eq!(report.state, TurnState::Cancelled);
}

#[tokio::test]
async fn whoever_lost_the_session_writes_nothing_more() {
    let stage = Stage::new();
    let first = stage.turn("one", Target::New).await;
    let (store, session) = (stage.store.clone(), first.session.clone());
    stage.script([
        Cue::Event(AgentEvent::Tool(tool(ToolStatus::InProgress, "{}"))),
        Cue::Aside(Box::new(move || {
            Box::pin(async move {
                let holder = store.lease_holder(&session).await.unwrap().unwrap();
                let request = LeaseRequest {
                    session,
                    owner: ProcessIdentity {
                        pid: 4,
                        ..holder.owner
                    },
                    at: jiff::Timestamp::now(),
                    expires_after: jiff::SignedDuration::from_secs(30),
                    dead_epoch: Some(holder.epoch),
                };
                store.acquire_lease(request).await.unwrap();
            })
        })),
        Cue::Event(AgentEvent::Tool(tool(ToolStatus::Completed, "{}"))),
        done(),
    ]);
    let outcome = stage.chat(stage.request("two", same(&first)), |_| {}).await;
    assert!(
        matches!(outcome, Err(EngineError::Store(StoreError::LeaseLost(_)))),
        "{outcome:?}"
    );
    assert_eq!(
        stage.agent.heard.lock().unwrap().closed,
        2,
        "its agent is ended"
    );
    let turns = stage.store.turns(&first.session).await.unwrap();
    assert_eq!(
        turns[1].state,
        TurnState::Running,
        "it is for the new holder to close"
    );
    assert_eq!(stage.store.messages(turns[1].id).await.unwrap().len(), 2);
}

#[tokio::test]
async fn noise_is_noted_a_few_times_and_then_ignored() {
    let stage = Stage::new();
    stage.script((0..50).map(|n| Cue::Event(AgentEvent::Garbage(format!("noise {n}")))));
    stage.script([say("fine"), done()]);
    let report = stage
        .chat(stage.request("go", Target::New), |_| {})
        .await
        .unwrap();
    assert_eq!(report.text.as_deref(), Some("fine"));
    let noted = report
        .decisions
        .iter()
        .filter(|decision| decision.text.contains("noise"));
    assert_eq!(noted.count(), 5);
}

#[tokio::test]
async fn words_that_were_cut_off_are_marked_as_such() {
    let stage = Stage::new();
    stage.script([say("half a"), Cue::Hang]);
    let stop = stage.stop.clone();
    let report = stage
        .chat(stage.request("go", Target::New), |event| {
            if let TurnEvent::Text { .. } = event {
                stop.send_replace(StopLevel::Graceful);
            }
        })
        .await
        .unwrap();
    let turns = stage.store.turns(&report.session).await.unwrap();
    let messages = stage.store.messages(turns[0].id).await.unwrap();
    assert_eq!(
        (messages[1].plain_text().as_str(), messages[1].complete),
        ("half a", false)
    );
}

#[tokio::test]
async fn output_that_comes_after_the_end_of_a_call_is_kept() {
    let stage = Stage::new();
    let mut first = tool(ToolStatus::Completed, "{}");
    first.output = None;
    stage.script([
        Cue::Event(AgentEvent::Tool(first)),
        Cue::Event(AgentEvent::Tool(tool(ToolStatus::Completed, "{}"))),
        done(),
    ]);
    let report = stage
        .chat(stage.request("go", Target::New), |_| {})
        .await
        .unwrap();
    let turns = stage.store.turns(&report.session).await.unwrap();
    let messages = stage.store.messages(turns[0].id).await.unwrap();
    assert_eq!(messages.len(), 3, "one call, one result: {messages:?}");
    assert!(matches!(
        messages[2].parts.as_slice(),
        [Part::FunctionResponse { response, .. }] if response.as_str() == "\"written\""
    ));
}

#[tokio::test]
async fn a_cancel_that_nobody_asked_for_is_told_apart() {
    let stage = Stage::new();
    let cancelled = || Cue::Done(StopReason::Cancelled, Usage::default());
    stage.script([cancelled()]);
    let by_itself = stage
        .chat(stage.request("one", Target::New), |_| {})
        .await
        .unwrap();
    assert_eq!(by_itself.state, TurnState::Failed);
    stage.script([Cue::Ask(question()), cancelled()]);
    let by_policy = stage
        .chat(stage.request("two", Target::New), |_| {})
        .await
        .unwrap();
    assert_eq!(
        (by_policy.state, by_policy.stopped_by_policy),
        (TurnState::Cancelled, true)
    );
}

#[tokio::test]
async fn a_listener_that_does_not_listen_holds_no_record_up() {
    let stage = Stage::new();
    stage.script((0..40).map(|n| say(&format!("{n} "))));
    stage.script([Cue::Hang]);
    let (sender, mut events) = tokio::sync::mpsc::channel(2);
    let chat = stage.engine.chat(stage.request("go", Target::New), sender);
    let listener = async {
        let first = events.recv().await.unwrap();
        let TurnEvent::Started { session, .. } = first else {
            panic!("{first:?}");
        };
        // The caller receives no more events. The text that was streamed until the channel was full is still drafted.
        tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
        let turns = stage.store.turns(&session).await.unwrap();
        let messages = stage.store.messages(turns[0].id).await.unwrap();
        messages.last().unwrap().plain_text()
    };
    tokio::select! {
        report = chat => panic!("the agent hangs, but the turn ended: {report:?}"),
        drafted = listener => assert!(drafted.starts_with("0 "), "{drafted:?}"),
    }
}
