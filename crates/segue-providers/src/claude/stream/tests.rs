//! Tests with output of the real Claude Code, reduced to the relevant lines and fields.

use segue_core::session::ToolStatus;
use serde_json::json;

use super::*;

fn now() -> Timestamp {
    Timestamp::from_second(1_794_800_000).unwrap()
}

/// Converts the lines of a turn whose acceptance Claude Code does not report. Returns the formatted events.
fn collect_events(lines: &[Value]) -> Vec<String> {
    let mut turn = ClaudeTurn::new("u1".to_owned(), false);
    collect_turn_events(&mut turn, lines)
}

fn collect_turn_events(turn: &mut ClaudeTurn, lines: &[Value]) -> Vec<String> {
    let mut events = Vec::new();
    for line in lines {
        turn.check_acceptance(line);
        events.extend(turn.convert_line(line, now()).iter().map(format_event));
    }
    events
}

fn format_event(claude_event: &ClaudeEvent) -> String {
    match claude_event {
        ClaudeEvent::Event(AgentEvent::Text(text)) => format!("text {text}"),
        ClaudeEvent::Event(AgentEvent::Thought(text)) => format!("thought {text}"),
        ClaudeEvent::Event(AgentEvent::Tool(call)) => {
            format!(
                "{} {} {}",
                call.name,
                call.status.as_str(),
                call.args.as_str()
            )
        }
        ClaudeEvent::Event(AgentEvent::Usage(usage)) => {
            format!("context {:?}", usage.context_tokens)
        }
        ClaudeEvent::Event(AgentEvent::Compacted) => "compacted".to_owned(),
        ClaudeEvent::Event(AgentEvent::Plan(steps)) => format!("plan of {}", steps.len()),
        ClaudeEvent::Event(AgentEvent::Unknown(json)) => format!("unknown {}", json.as_str()),
        ClaudeEvent::Event(other) => format!("{other:?}"),
        ClaudeEvent::PermissionRequest(permission) => {
            format!("permission for {}", permission.request.call.id)
        }
        ClaudeEvent::UnsupportedRequest { id, subtype } => format!("unsupported {subtype} {id}"),
        ClaudeEvent::NativeId(native_id) => format!("native id {native_id}"),
        ClaudeEvent::TurnEnded(Ok(end)) => format!("ended: {:?}", end.reason),
        ClaudeEvent::TurnEnded(Err(error)) => format!("failed: {error}"),
    }
}

fn stream_event(event: impl Into<Value>) -> Value {
    json!({"type": "stream_event", "event": event.into(), "parent_tool_use_id": null})
}

fn message_start(id: &str) -> Value {
    let usage = json!({"cache_creation_input_tokens": 7, "cache_read_input_tokens": 11, "input_tokens": 101, "output_tokens": 1});
    stream_event(
        json!({"type": "message_start", "message": {"id": id, "model": "m", "usage": usage}}),
    )
}

fn text_delta(text: &str) -> Value {
    stream_event(
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
    )
}

fn message_delta() -> Value {
    stream_event(
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 20}}),
    )
}

fn complete_block(id: &str, content: impl Into<Value>) -> Value {
    json!({"type": "assistant", "message": {"id": id, "content": [content.into()], "usage": {"input_tokens": 101, "output_tokens": 1}}, "parent_tool_use_id": null})
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn success_result() -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "stop_reason": "end_turn"})
}

#[test]
fn streamed_text_is_emitted_once() {
    let lines = [
        message_start("m1"),
        stream_event(
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hmm"}}),
        ),
        stream_event(
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c3R1Yg=="}}),
        ),
        complete_block(
            "m1",
            json!({"type": "thinking", "thinking": "hmm", "signature": "c3R1Yg=="}),
        ),
        text_delta("You "),
        text_delta("said"),
        complete_block("m1", text_block("You said")),
        stream_event(json!({"type": "content_block_stop", "index": 1})),
        message_delta(),
        stream_event(json!({"type": "message_stop"})),
        success_result(),
    ];
    assert_eq!(
        collect_events(&lines),
        [
            "thought hmm",
            "text You ",
            "text said",
            "context Some(139)",
            "ended: EndTurn"
        ]
    );
}

#[test]
fn text_that_was_not_streamed_is_emitted_in_full() {
    let lines = [
        complete_block("m1", json!({"type": "thinking", "thinking": "hmm"})),
        complete_block("m1", text_block("You said")),
        complete_block("m2", text_block("more")),
        success_result(),
    ];
    assert_eq!(
        collect_events(&lines),
        [
            "thought hmm",
            "text You said",
            "text more",
            "ended: EndTurn"
        ]
    );
}

#[test]
fn a_restarted_answer_is_emitted_once() {
    let broken = [
        message_start("m1"),
        text_delta("some words "),
        text_delta("that are "),
        stream_event(json!({"type": "message_stop"})),
    ];
    let retry = json!({"type": "system", "subtype": "api_retry", "attempt": 1, "retry_delay_ms": 615, "error_status": null});
    let restarted = [
        message_start("m2"),
        text_delta("some words "),
        text_delta("that are "),
        text_delta("cut"),
        complete_block("m2", text_block("some words that are cut")),
        message_delta(),
    ];
    let mut lines = broken.to_vec();
    lines.push(retry);
    lines.extend(restarted);
    assert_eq!(
        collect_events(&lines),
        [
            "text some words ",
            "text that are ",
            "text cut",
            "context Some(139)"
        ]
    );
    // The stream may break a second time, earlier than before.
    let mut lines = broken.to_vec();
    lines.extend([
        message_start("m2"),
        text_delta("some words "),
        message_start("m3"),
    ]);
    lines.extend([
        text_delta("some words "),
        text_delta("that are "),
        text_delta("new"),
    ]);
    assert_eq!(
        collect_events(&lines),
        ["text some words ", "text that are ", "text new"]
    );
    // Claude Code may stop streaming and send the complete answer.
    let mut lines = broken.to_vec();
    lines.push(complete_block(
        "m3",
        text_block("some words that are complete"),
    ));
    assert_eq!(
        collect_events(&lines),
        ["text some words ", "text that are ", "text complete"]
    );
    // Text that repeats an earlier, complete answer is not omitted.
    let lines = [
        message_start("m1"),
        text_delta("yes"),
        message_delta(),
        message_start("m2"),
        text_delta("yes"),
        message_delta(),
    ];
    let events: Vec<String> = collect_events(&lines);
    assert_eq!(
        events.iter().filter(|event| *event == "text yes").count(),
        2
    );
}

#[test]
fn a_tool_call_is_announced_updated_and_completed() {
    let lines = [
        message_start("m1"),
        stream_event(
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}}),
        ),
        stream_event(
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"command\""}}),
        ),
        complete_block(
            "m1",
            json!({"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}),
        ),
        json!({"type": "tool_progress", "tool_use_id": "t1", "elapsed_time_seconds": 2}),
        json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a"}]}, "tool_use_result": {"stdout": "a"}}),
    ];
    assert_eq!(
        collect_events(&lines),
        [
            "Bash pending {}",
            r#"Bash pending {"command":"ls"}"#,
            r#"Bash in_progress {"command":"ls"}"#,
            r#"Bash completed {"command":"ls"}"#,
        ]
    );
}

#[test]
fn tool_calls_of_subagents_are_emitted_but_not_their_text() {
    let from_subagent = |mut line: Value| {
        line["parent_tool_use_id"] = "t1".into();
        line
    };
    let lines = [
        message_start("m1"),
        text_delta("main"),
        from_subagent(text_delta("sub")),
        from_subagent(complete_block("m9", text_block("sub"))),
        from_subagent(complete_block(
            "m9",
            json!({"type": "tool_use", "id": "t2", "name": "Read", "input": {}}),
        )),
        from_subagent(
            json!({"type": "user", "message": {"content": [{"type": "text", "text": "do it"}]}}),
        ),
        from_subagent(
            json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t2", "content": "x"}]}}),
        ),
        text_delta(" more"),
        complete_block("m1", text_block("main more")),
        message_delta(),
    ];
    assert_eq!(
        collect_events(&lines),
        [
            "text main",
            "Read pending {}",
            "Read completed {}",
            "text  more",
            "context Some(139)"
        ]
    );
}

#[test]
fn errors_of_claude_code_are_not_part_of_the_answer() {
    let error = json!({
        "type": "assistant", "error": "rate_limit", "is_api_error_message": true,
        "message": {"id": "e1", "model": "<synthetic>", "content": [{"type": "text", "text": "API Error: 429"}]},
    });
    let result = json!({"type": "result", "subtype": "success", "is_error": true, "api_error_status": 429, "result": "API Error: 429"});
    assert_eq!(
        collect_events(&[error, result]),
        ["failed: the agent answered the prompt with an error: API Error: 429"]
    );
}

#[test]
fn the_delay_before_the_last_retry_determines_the_retry_time() {
    let mut turn = ClaudeTurn::new("u1".to_owned(), false);
    let retry = json!({"type": "system", "subtype": "api_retry", "retry_delay_ms": 1000, "error_status": 429});
    turn.convert_line(&retry, now());
    let result =
        json!({"type": "result", "is_error": true, "api_error_status": 429, "result": "no"});
    let events = turn.convert_line(&result, now());
    let [ClaudeEvent::TurnEnded(Err(error))] = events.as_slice() else {
        panic!("{events:?}");
    };
    let failure = error.to_failure(now());
    assert_eq!(
        failure.retry_at,
        now().checked_add(Duration::from_secs(1)).ok()
    );
}

#[test]
fn an_exhausted_quota_reports_its_reset_time() {
    let mut turn = ClaudeTurn::new("u1".to_owned(), false);
    let reset = now().as_second() + 60;
    let limit = json!({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": reset, "rateLimitType": "five_hour"}});
    assert!(turn.convert_line(&limit, now()).is_empty());
    let result = json!({"type": "result", "is_error": true, "api_error_status": 429, "result": "You've hit your limit"});
    let events = turn.convert_line(&result, now());
    let [ClaudeEvent::TurnEnded(Err(error))] = events.as_slice() else {
        panic!("{events:?}");
    };
    let failure = error.to_failure(now());
    assert_eq!(failure.class, segue_core::session::FailureClass::Quota);
    assert_eq!(failure.retry_at, Timestamp::from_second(reset).ok());
}

#[test]
fn lines_are_converted_by_their_type() {
    // A line, and the formatted events that it is converted to.
    let cases = [
        (
            json!({"type": "system", "subtype": "init", "session_id": "s2"}),
            vec!["native id s2"],
        ),
        (
            json!({"type": "system", "subtype": "status", "status": "requesting"}),
            vec![],
        ),
        (
            json!({"type": "system", "subtype": "something_new"}),
            vec![],
        ),
        (
            json!({"type": "system", "subtype": "compact_boundary", "compact_metadata": {"trigger": "auto"}}),
            vec!["compacted"],
        ),
        (json!({"type": "control_response", "response": {}}), vec![]),
        (
            json!({"type": "control_cancel_request", "request_id": "r1"}),
            vec![],
        ),
        (
            json!({"type": "user", "message": {"content": "This session is being continued…"}}),
            vec![],
        ),
        (
            json!({"type": "brand_new"}),
            vec![r#"unknown {"type":"brand_new"}"#],
        ),
        (json!({}), vec!["unknown {}"]),
        (
            complete_block("m1", json!({"type": "odd_block"})),
            vec![r#"unknown {"type":"odd_block"}"#],
        ),
        (
            complete_block(
                "m1",
                json!({"type": "tool_use", "id": "t1", "name": "TodoWrite", "input": {"todos": []}}),
            ),
            vec![r#"TodoWrite pending {"todos":[]}"#, "plan of 0"],
        ),
        (
            json!({"type": "control_request", "request_id": "r1", "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": "t1"}}),
            vec!["permission for t1"],
        ),
        (
            json!({"type": "control_request", "request_id": "r1", "request": {"subtype": "elicitation"}}),
            vec!["unsupported elicitation r1"],
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(
            collect_events(std::slice::from_ref(&line)),
            expected,
            "{line}"
        );
    }
}

#[test]
fn a_permission_request_concerns_a_pending_call() {
    let mut turn = ClaudeTurn::new("u1".to_owned(), false);
    let line = json!({"type": "control_request", "request_id": "r1", "request": {"subtype": "can_use_tool", "tool_name": "Write", "input": {"file_path": "/f"}, "tool_use_id": "t1"}});
    let events = turn.convert_line(&line, now());
    let [ClaudeEvent::PermissionRequest(permission)] = events.as_slice() else {
        panic!("{events:?}");
    };
    let call = &permission.request.call;
    assert_eq!(
        (call.name.as_str(), call.kind.as_str(), call.status),
        ("Write", "edit", ToolStatus::Pending)
    );
    assert_eq!(call.args.as_str(), r#"{"file_path":"/f"}"#);
}

#[test]
fn lines_of_a_background_turn_are_not_part_of_the_prompts_turn() {
    let background_turn = [
        json!({"type": "system", "subtype": "task_notification", "summary": "done"}),
        message_start("m1"),
        text_delta("by the way"),
        success_result(),
    ];
    let permission_request = json!({"type": "control_request", "request_id": "r1", "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": "t1"}});
    let acceptance_lines = [
        json!({"type": "user", "uuid": "u1", "isReplay": true, "message": {"content": []}}),
        json!({"type": "command_lifecycle", "command_uuid": "u1", "state": "started"}),
    ];
    for acceptance_line in acceptance_lines {
        let mut turn = ClaudeTurn::new("u1".to_owned(), true);
        assert_eq!(
            collect_turn_events(&mut turn, &background_turn),
            Vec::<String>::new()
        );
        let events = collect_turn_events(&mut turn, std::slice::from_ref(&permission_request));
        assert_eq!(
            events,
            ["permission for t1"],
            "a request in a background turn needs an answer too"
        );
        let prompt_turn = [
            acceptance_line,
            message_start("m2"),
            text_delta("answer"),
            success_result(),
        ];
        assert_eq!(
            collect_turn_events(&mut turn, &prompt_turn),
            ["text answer", "ended: EndTurn"]
        );
    }
    let mut turn = ClaudeTurn::new("u1".to_owned(), true);
    let other_prompt =
        json!({"type": "user", "uuid": "u0", "isReplay": true, "message": {"content": []}});
    assert_eq!(
        turn.check_acceptance(&other_prompt),
        PromptAcceptance::Unreported
    );
    assert_eq!(
        collect_turn_events(&mut turn, &[success_result()]),
        Vec::<String>::new()
    );
}

#[test]
fn a_cancelled_turn_ends_as_cancelled() {
    let mut turn = ClaudeTurn::new("u1".to_owned(), false);
    turn.record_cancel();
    let result = json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "terminal_reason": "aborted_streaming"});
    let events = turn.convert_line(&result, now());
    assert!(
        matches!(events.as_slice(), [ClaudeEvent::TurnEnded(Ok(end))] if end.reason == StopReason::Cancelled)
    );
}

#[test]
fn an_interrupt_before_the_prompt_was_accepted_must_be_repeated() {
    let acceptance_line =
        json!({"type": "user", "uuid": "u1", "isReplay": true, "message": {"content": []}});
    let cases = [
        // Whether Claude Code reports acceptance, whether segue cancelled the turn, and the expected result.
        (true, false, PromptAcceptance::Accepted),
        (true, true, PromptAcceptance::AcceptedAfterCancel),
        (false, true, PromptAcceptance::Accepted),
    ];
    for (reports_acceptance, cancelled, expected) in cases {
        let mut turn = ClaudeTurn::new("u1".to_owned(), reports_acceptance);
        if cancelled {
            turn.record_cancel();
        }
        assert_eq!(turn.check_acceptance(&acceptance_line), expected);
        assert_eq!(
            turn.check_acceptance(&acceptance_line),
            PromptAcceptance::Accepted,
            "a second report of the acceptance"
        );
    }
}

#[test]
fn a_refusal_includes_its_reason() {
    let result = json!({"type": "result", "subtype": "success", "is_error": true, "stop_reason": "refusal", "result": "API Error: flagged"});
    assert_eq!(
        collect_events(std::slice::from_ref(&result)),
        ["text API Error: flagged", "ended: Refusal"]
    );
    assert_eq!(
        collect_events(&[message_start("m1"), text_delta("partial"), result]),
        [
            "text partial",
            "text \n\nAPI Error: flagged",
            "ended: Refusal"
        ]
    );
}
