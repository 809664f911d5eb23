//! Lines as Gemini CLI 0.61 writes them.

use super::*;
use serde_json::json;

fn session_id() -> NativeId {
    NativeId::parse("11111111-1").unwrap()
}

fn convert(stream: &mut GeminiStream, value: Value) -> GeminiEvent {
    stream.convert_line(OutputLine::Json(value))
}

#[test]
fn lines_become_events() {
    let unknown = json!({"type": "unknown", "x": 1});
    let cases = [
        (
            json!({"type":"init","session_id":"11111111-1","model":"auto"}),
            GeminiEvent::SessionOpened,
        ),
        (
            json!({"type":"message","role":"user","content":"hi"}),
            GeminiEvent::Ignored,
        ),
        (
            json!({"type":"message","role":"assistant","content":"a ","delta":true}),
            GeminiEvent::Event(AgentEvent::Text("a ".into())),
        ),
        (
            unknown.clone(),
            GeminiEvent::Event(AgentEvent::Unknown(unknown.into())),
        ),
        (
            json!({"type":"result","status":"error","error":{"type":"unknown","message":"no"}}),
            GeminiEvent::Failed("no".into()),
        ),
        (
            json!({"type":"result","status":"error"}),
            GeminiEvent::Failed("no reason given".into()),
        ),
        (
            json!({"type":"result"}),
            GeminiEvent::Failed("no reason given".into()),
        ),
    ];
    for (line, expected) in cases {
        let text = line.to_string();
        assert_eq!(
            convert(&mut GeminiStream::new(session_id()), line),
            expected,
            "{text}"
        );
    }
    let noise = GeminiStream::new(session_id()).convert_line(OutputLine::Noise("x".into()));
    assert_eq!(noise, GeminiEvent::Event(AgentEvent::Garbage("x".into())));
}

#[test]
fn output_tokens_include_thoughts() {
    let end_with_stats = |stats: Value| {
        let line = json!({"type":"result","status":"success","stats":stats});
        match convert(&mut GeminiStream::new(session_id()), line) {
            GeminiEvent::Finished(end) => end,
            event => panic!("{event:?}"),
        }
    };
    let turn_end = end_with_stats(
        json!({"total_tokens":126,"input_tokens":101,"output_tokens":20,"cached":11,"input":90}),
    );
    assert_eq!(turn_end.reason, StopReason::EndTurn);
    assert_eq!(
        turn_end.usage,
        Usage {
            input_tokens: Some(101),
            output_tokens: Some(25),
            cached_tokens: Some(11),
            total_tokens: Some(126),
            ..Usage::default()
        }
    );
    let no_tokens = json!({"total_tokens":0,"input_tokens":0,"output_tokens":0,"cached":0});
    assert_eq!(end_with_stats(no_tokens).usage, Usage::default());
    assert_eq!(end_with_stats(json!({})).usage, Usage::default());
}

#[test]
fn every_update_contains_the_complete_call() {
    let mut stream = GeminiStream::new(session_id());
    let tool_use = json!({"type":"tool_use","tool_name":"run_shell_command","tool_id":"t1","parameters":{"command":"ls"}});
    let GeminiEvent::Event(AgentEvent::Tool(call)) = convert(&mut stream, tool_use) else {
        panic!("no call");
    };
    assert_eq!(
        (call.kind.as_str(), call.status),
        ("execute", ToolStatus::InProgress)
    );
    let result = json!({"type":"tool_result","tool_id":"t1","status":"success","output":"a b"});
    let expected = ToolCall {
        status: ToolStatus::Completed,
        output: Some(Json::string("a b")),
        ..call
    };
    assert_eq!(
        convert(&mut stream, result),
        GeminiEvent::Event(AgentEvent::Tool(expected))
    );
}

#[test]
fn a_failed_tool_call_contains_the_error_message() {
    let mut stream = GeminiStream::new(session_id());
    convert(
        &mut stream,
        json!({"type":"tool_use","tool_name":"x","tool_id":"t1"}),
    );
    let line = json!({"type":"tool_result","tool_id":"t1","status":"error","error":{"type":"t","message":"no such tool"}});
    let GeminiEvent::Event(AgentEvent::Tool(call)) = convert(&mut stream, line) else {
        panic!("no call");
    };
    assert_eq!(call.status, ToolStatus::Failed);
    assert_eq!(call.output, Some(Json::string("no such tool")));
}

#[test]
fn an_answer_of_another_session_is_an_error_that_names_both() {
    let line = json!({"type":"init","session_id":"22222222-2"});
    let GeminiEvent::Mismatched(refusal) = convert(&mut GeminiStream::new(session_id()), line)
    else {
        panic!("the answer was accepted");
    };
    assert_eq!(refusal.class, FailureClass::SessionUnknown);
    assert!(refusal.message.contains("11111111-1") && refusal.message.contains("22222222-2"));
}

#[test]
fn a_turn_stopped_by_a_limit_has_the_limit_stop_reason() {
    let mut stream = GeminiStream::new(session_id());
    convert(
        &mut stream,
        json!({"type":"error","severity":"warning","message":"Loop detected, stopping execution"}),
    );
    let GeminiEvent::Finished(end) =
        convert(&mut stream, json!({"type":"result","status":"success"}))
    else {
        panic!("not finished");
    };
    assert_eq!(end.reason, StopReason::Limit);
}
