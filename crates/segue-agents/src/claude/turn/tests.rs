//! Turns as the real Claude Code streams them, reduced to the relevant lines and fields.

use segue_core::session::ToolStatus;
use serde_json::json;

use super::*;

fn now() -> Timestamp {
    Timestamp::from_second(1_794_800_000).unwrap()
}

/// Returns the events, in a short notation, of a turn whose start Claude Code does not report.
fn told(lines: &[Value]) -> Vec<String> {
    let mut turn = Turn::new("u1".to_owned(), false);
    told_of(&mut turn, lines)
}

fn told_of(turn: &mut Turn, lines: &[Value]) -> Vec<String> {
    let mut all = Vec::new();
    for line in lines {
        turn.takes_up(line);
        all.extend(turn.hear(line, now()).iter().map(in_short));
    }
    all
}

fn in_short(heard: &Heard) -> String {
    match heard {
        Heard::Event(AgentEvent::Text(words)) => format!("text {words}"),
        Heard::Event(AgentEvent::Thought(words)) => format!("thought {words}"),
        Heard::Event(AgentEvent::Tool(call)) => {
            format!(
                "{} {} {}",
                call.name,
                call.status.as_str(),
                call.args.as_str()
            )
        }
        Heard::Event(AgentEvent::Usage(usage)) => format!("context {:?}", usage.context_tokens),
        Heard::Event(AgentEvent::Compacted) => "compacted".to_owned(),
        Heard::Event(AgentEvent::Plan(steps)) => format!("plan of {}", steps.len()),
        Heard::Event(AgentEvent::Unknown(json)) => format!("unknown {}", json.as_str()),
        Heard::Event(other) => format!("{other:?}"),
        Heard::Asked(asked) => format!("asked about {}", asked.request.call.id),
        Heard::NotOffered { id, subtype } => format!("{id} wants {subtype}"),
        Heard::Named(name) => format!("named {name}"),
        Heard::Over(Ok(end)) => format!("over: {:?}", end.reason),
        Heard::Over(Err(error)) => format!("failed: {error}"),
    }
}

fn event(event: impl Into<Value>) -> Value {
    json!({"type": "stream_event", "event": event.into(), "parent_tool_use_id": null})
}

fn starts(id: &str) -> Value {
    let usage = json!({"cache_creation_input_tokens": 7, "cache_read_input_tokens": 11, "input_tokens": 101, "output_tokens": 1});
    event(json!({"type": "message_start", "message": {"id": id, "model": "m", "usage": usage}}))
}

fn says(words: &str) -> Value {
    event(
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}}),
    )
}

fn ends() -> Value {
    event(
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 20}}),
    )
}

fn whole(id: &str, content: impl Into<Value>) -> Value {
    json!({"type": "assistant", "message": {"id": id, "content": [content.into()], "usage": {"input_tokens": 101, "output_tokens": 1}}, "parent_tool_use_id": null})
}

fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

fn result() -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "stop_reason": "end_turn"})
}

#[test]
fn what_was_streamed_is_not_told_twice() {
    let lines = [
        starts("m1"),
        event(
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hmm"}}),
        ),
        event(
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c3R1Yg=="}}),
        ),
        whole(
            "m1",
            json!({"type": "thinking", "thinking": "hmm", "signature": "c3R1Yg=="}),
        ),
        says("You "),
        says("said"),
        whole("m1", text("You said")),
        event(json!({"type": "content_block_stop", "index": 1})),
        ends(),
        event(json!({"type": "message_stop"})),
        result(),
    ];
    assert_eq!(
        told(&lines),
        [
            "thought hmm",
            "text You ",
            "text said",
            "context Some(139)",
            "over: EndTurn"
        ]
    );
}

#[test]
fn what_was_not_streamed_is_told_whole() {
    let lines = [
        whole("m1", json!({"type": "thinking", "thinking": "hmm"})),
        whole("m1", text("You said")),
        whole("m2", text("more")),
        result(),
    ];
    assert_eq!(
        told(&lines),
        ["thought hmm", "text You said", "text more", "over: EndTurn"]
    );
}

#[test]
fn an_answer_that_is_begun_again_is_not_told_twice() {
    let cut = [
        starts("m1"),
        says("some words "),
        says("that are "),
        event(json!({"type": "message_stop"})),
    ];
    let retry = json!({"type": "system", "subtype": "api_retry", "attempt": 1, "retry_delay_ms": 615, "error_status": null});
    let again = [
        starts("m2"),
        says("some words "),
        says("that are "),
        says("cut"),
        whole("m2", text("some words that are cut")),
        ends(),
    ];
    let mut lines = cut.to_vec();
    lines.push(retry);
    lines.extend(again);
    assert_eq!(
        told(&lines),
        [
            "text some words ",
            "text that are ",
            "text cut",
            "context Some(139)"
        ]
    );
    // The stream may break a second time, earlier than before.
    let mut lines = cut.to_vec();
    lines.extend([starts("m2"), says("some words "), starts("m3")]);
    lines.extend([says("some words "), says("that are "), says("new")]);
    assert_eq!(
        told(&lines),
        ["text some words ", "text that are ", "text new"]
    );
    // Claude Code may stop streaming and send the complete answer.
    let mut lines = cut.to_vec();
    lines.push(whole("m3", text("some words that are whole")));
    assert_eq!(
        told(&lines),
        ["text some words ", "text that are ", "text whole"]
    );
    // Text that repeats an earlier, complete answer is not omitted.
    let lines = [
        starts("m1"),
        says("yes"),
        ends(),
        starts("m2"),
        says("yes"),
        ends(),
    ];
    let words: Vec<String> = told(&lines);
    assert_eq!(words.iter().filter(|told| *told == "text yes").count(), 2);
}

#[test]
fn a_tool_is_announced_filled_in_and_concluded() {
    let lines = [
        starts("m1"),
        event(
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}}),
        ),
        event(
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"command\""}}),
        ),
        whole(
            "m1",
            json!({"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}),
        ),
        json!({"type": "tool_progress", "tool_use_id": "t1", "elapsed_time_seconds": 2}),
        json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a"}]}, "tool_use_result": {"stdout": "a"}}),
    ];
    assert_eq!(
        told(&lines),
        [
            "Bash pending {}",
            r#"Bash pending {"command":"ls"}"#,
            r#"Bash in_progress {"command":"ls"}"#,
            r#"Bash completed {"command":"ls"}"#,
        ]
    );
}

#[test]
fn subagents_are_seen_working_and_not_heard() {
    let of_subagent = |mut line: Value| {
        line["parent_tool_use_id"] = "t1".into();
        line
    };
    let lines = [
        starts("m1"),
        says("main"),
        of_subagent(says("sub")),
        of_subagent(whole("m9", text("sub"))),
        of_subagent(whole(
            "m9",
            json!({"type": "tool_use", "id": "t2", "name": "Read", "input": {}}),
        )),
        of_subagent(
            json!({"type": "user", "message": {"content": [{"type": "text", "text": "do it"}]}}),
        ),
        of_subagent(
            json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t2", "content": "x"}]}}),
        ),
        says(" again"),
        whole("m1", text("main again")),
        ends(),
    ];
    assert_eq!(
        told(&lines),
        [
            "text main",
            "Read pending {}",
            "Read completed {}",
            "text  again",
            "context Some(139)"
        ]
    );
}

#[test]
fn claudes_own_errors_are_no_answer() {
    let error = json!({
        "type": "assistant", "error": "rate_limit", "is_api_error_message": true,
        "message": {"id": "e1", "model": "<synthetic>", "content": [{"type": "text", "text": "API Error: 429"}]},
    });
    let over = json!({"type": "result", "subtype": "success", "is_error": true, "api_error_status": 429, "result": "API Error: 429"});
    assert_eq!(
        told(&[error, over]),
        ["failed: the agent answered the prompt with an error: API Error: 429"]
    );
}

#[test]
fn the_wait_before_the_last_try_is_when_to_try_again() {
    let mut turn = Turn::new("u1".to_owned(), false);
    let retry = json!({"type": "system", "subtype": "api_retry", "retry_delay_ms": 1000, "error_status": 429});
    turn.hear(&retry, now());
    let over = json!({"type": "result", "is_error": true, "api_error_status": 429, "result": "no"});
    let heard = turn.hear(&over, now());
    let [Heard::Over(Err(error))] = heard.as_slice() else {
        panic!("{heard:?}");
    };
    let failure = error.failure(now());
    assert_eq!(
        failure.retry_at,
        now().checked_add(Duration::from_secs(1)).ok()
    );
}

#[test]
fn a_spent_quota_is_told_with_its_reset() {
    let mut turn = Turn::new("u1".to_owned(), false);
    let reset = now().as_second() + 60;
    let limit = json!({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": reset, "rateLimitType": "five_hour"}});
    assert!(turn.hear(&limit, now()).is_empty());
    let over = json!({"type": "result", "is_error": true, "api_error_status": 429, "result": "You've hit your limit"});
    let heard = turn.hear(&over, now());
    let [Heard::Over(Err(error))] = heard.as_slice() else {
        panic!("{heard:?}");
    };
    let failure = error.failure(now());
    assert_eq!(failure.class, segue_core::session::FailureClass::Quota);
    assert_eq!(failure.retry_at, Timestamp::from_second(reset).ok());
}

#[test]
fn lines_are_told_by_their_type() {
    let cases = [
        (
            json!({"type": "system", "subtype": "init", "session_id": "s2"}),
            vec!["named s2"],
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
            whole("m1", json!({"type": "odd_block"})),
            vec![r#"unknown {"type":"odd_block"}"#],
        ),
        (
            whole(
                "m1",
                json!({"type": "tool_use", "id": "t1", "name": "TodoWrite", "input": {"todos": []}}),
            ),
            vec![r#"TodoWrite pending {"todos":[]}"#, "plan of 0"],
        ),
        (
            json!({"type": "control_request", "request_id": "r1", "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": "t1"}}),
            vec!["asked about t1"],
        ),
        (
            json!({"type": "control_request", "request_id": "r1", "request": {"subtype": "elicitation"}}),
            vec!["r1 wants elicitation"],
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(told(std::slice::from_ref(&line)), expected, "{line}");
    }
}

#[test]
fn a_question_is_about_a_call_that_waits() {
    let mut turn = Turn::new("u1".to_owned(), false);
    let line = json!({"type": "control_request", "request_id": "r1", "request": {"subtype": "can_use_tool", "tool_name": "Write", "input": {"file_path": "/f"}, "tool_use_id": "t1"}});
    let heard = turn.hear(&line, now());
    let [Heard::Asked(asked)] = heard.as_slice() else {
        panic!("{heard:?}");
    };
    let call = &asked.request.call;
    assert_eq!(
        (call.name.as_str(), call.kind.as_str(), call.status),
        ("Write", "edit", ToolStatus::Pending)
    );
    assert_eq!(call.args.as_str(), r#"{"file_path":"/f"}"#);
}

#[test]
fn a_turn_of_claudes_own_is_not_taken_for_ours() {
    let own = [
        json!({"type": "system", "subtype": "task_notification", "summary": "done"}),
        starts("m1"),
        says("by the way"),
        result(),
    ];
    let question = json!({"type": "control_request", "request_id": "r1", "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": "t1"}});
    let taken_up = [
        json!({"type": "user", "uuid": "u1", "isReplay": true, "message": {"content": []}}),
        json!({"type": "command_lifecycle", "command_uuid": "u1", "state": "started"}),
    ];
    for sign in taken_up {
        let mut turn = Turn::new("u1".to_owned(), true);
        assert_eq!(told_of(&mut turn, &own), Vec::<String>::new());
        let asked = told_of(&mut turn, std::slice::from_ref(&question));
        assert_eq!(asked, ["asked about t1"], "whoever asks, Claude waits");
        let ours = [sign, starts("m2"), says("answer"), result()];
        assert_eq!(told_of(&mut turn, &ours), ["text answer", "over: EndTurn"]);
    }
    let mut turn = Turn::new("u1".to_owned(), true);
    let others =
        json!({"type": "user", "uuid": "u0", "isReplay": true, "message": {"content": []}});
    assert_eq!(turn.takes_up(&others), TakenUp::NotTold);
    assert_eq!(told_of(&mut turn, &[result()]), Vec::<String>::new());
}

#[test]
fn a_cancelled_turn_is_cancelled() {
    let mut turn = Turn::new("u1".to_owned(), false);
    turn.cancel();
    let over = json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "terminal_reason": "aborted_streaming"});
    let heard = turn.hear(&over, now());
    assert!(
        matches!(heard.as_slice(), [Heard::Over(Ok(end))] if end.reason == StopReason::Cancelled)
    );
}

#[test]
fn a_cancel_that_came_before_the_prompt_was_taken_up_is_too_early() {
    let ours = json!({"type": "user", "uuid": "u1", "isReplay": true, "message": {"content": []}});
    let cases = [
        // (Claude Code reports the start, segue requested a stop, expected result)
        (true, false, TakenUp::Told),
        (true, true, TakenUp::TooLate),
        (false, true, TakenUp::Told),
    ];
    for (tells, cancelled, expected) in cases {
        let mut turn = Turn::new("u1".to_owned(), tells);
        if cancelled {
            turn.cancel();
        }
        assert_eq!(turn.takes_up(&ours), expected);
        assert_eq!(turn.takes_up(&ours), TakenUp::Told, "once");
    }
}

#[test]
fn a_refusal_is_told_with_its_reason() {
    let over = json!({"type": "result", "subtype": "success", "is_error": true, "stop_reason": "refusal", "result": "API Error: flagged"});
    assert_eq!(
        told(std::slice::from_ref(&over)),
        ["text API Error: flagged", "over: Refusal"]
    );
    assert_eq!(
        told(&[starts("m1"), says("partial"), over]),
        [
            "text partial",
            "text \n\nAPI Error: flagged",
            "over: Refusal"
        ]
    );
}
