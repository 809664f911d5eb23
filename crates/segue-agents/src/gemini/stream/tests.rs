//! Lines as Gemini CLI 0.61 writes them.

use super::*;
use serde_json::json;

fn id() -> NativeId {
    NativeId::parse("11111111-1").unwrap()
}

fn hear(stream: &mut Stream, value: Value) -> Heard {
    stream.hear(Line::Json(value))
}

#[test]
fn lines_become_events() {
    let unknown = json!({"type": "news", "x": 1});
    let cases = [
        (
            json!({"type":"init","session_id":"11111111-1","model":"auto"}),
            Heard::Begun,
        ),
        (
            json!({"type":"message","role":"user","content":"hi"}),
            Heard::Nothing,
        ),
        (
            json!({"type":"message","role":"assistant","content":"a ","delta":true}),
            Heard::Event(AgentEvent::Text("a ".into())),
        ),
        (
            unknown.clone(),
            Heard::Event(AgentEvent::Unknown(unknown.into())),
        ),
        (
            json!({"type":"result","status":"error","error":{"type":"unknown","message":"no"}}),
            Heard::Failed("no".into()),
        ),
        (
            json!({"type":"result","status":"error"}),
            Heard::Failed("it gave no reason".into()),
        ),
        (
            json!({"type":"result"}),
            Heard::Failed("it gave no reason".into()),
        ),
    ];
    for (line, expected) in cases {
        let text = line.to_string();
        assert_eq!(hear(&mut Stream::new(id()), line), expected, "{text}");
    }
    let noise = Stream::new(id()).hear(Line::Noise("x".into()));
    assert_eq!(noise, Heard::Event(AgentEvent::Garbage("x".into())));
}

#[test]
fn figures_have_one_meaning() {
    let end = |stats: Value| {
        let line = json!({"type":"result","status":"success","stats":stats});
        match hear(&mut Stream::new(id()), line) {
            Heard::Finished(end) => end,
            other => panic!("{other:?}"),
        }
    };
    let told = end(
        json!({"total_tokens":126,"input_tokens":101,"output_tokens":20,"cached":11,"input":90}),
    );
    assert_eq!(told.reason, StopReason::EndTurn);
    assert_eq!(
        told.usage,
        Usage {
            input_tokens: Some(101),
            output_tokens: Some(25),
            cached_tokens: Some(11),
            total_tokens: Some(126),
            ..Usage::default()
        }
    );
    let none = json!({"total_tokens":0,"input_tokens":0,"output_tokens":0,"cached":0});
    assert_eq!(end(none).usage, Usage::default());
    assert_eq!(end(json!({})).usage, Usage::default());
}

#[test]
fn a_tool_call_is_told_as_a_whole_each_time() {
    let mut stream = Stream::new(id());
    let use_it = json!({"type":"tool_use","tool_name":"run_shell_command","tool_id":"t1","parameters":{"command":"ls"}});
    let Heard::Event(AgentEvent::Tool(call)) = hear(&mut stream, use_it) else {
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
        hear(&mut stream, result),
        Heard::Event(AgentEvent::Tool(expected))
    );
}

#[test]
fn a_tool_call_fails_with_its_words() {
    let mut stream = Stream::new(id());
    hear(
        &mut stream,
        json!({"type":"tool_use","tool_name":"x","tool_id":"t1"}),
    );
    let line = json!({"type":"tool_result","tool_id":"t1","status":"error","error":{"type":"t","message":"no such tool"}});
    let Heard::Event(AgentEvent::Tool(call)) = hear(&mut stream, line) else {
        panic!("no call");
    };
    assert_eq!(call.status, ToolStatus::Failed);
    assert_eq!(call.output, Some(Json::string("no such tool")));
}

#[test]
fn another_session_is_an_error_that_names_both() {
    let line = json!({"type":"init","session_id":"22222222-2"});
    let Heard::Odd(refusal) = hear(&mut Stream::new(id()), line) else {
        panic!("taken");
    };
    assert_eq!(refusal.class, FailureClass::SessionUnknown);
    assert!(refusal.message.contains("11111111-1") && refusal.message.contains("22222222-2"));
}

#[test]
fn a_turn_that_was_stopped_by_a_limit_says_so() {
    let mut stream = Stream::new(id());
    hear(
        &mut stream,
        json!({"type":"error","severity":"warning","message":"Loop detected, stopping execution"}),
    );
    let Heard::Finished(end) = hear(&mut stream, json!({"type":"result","status":"success"}))
    else {
        panic!("not finished");
    };
    assert_eq!(end.reason, StopReason::Limit);
}
