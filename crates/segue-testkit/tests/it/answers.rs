//! Selection of the answer to a request.

use segue_testkit::model::{ModelStub, Reply, Script, ScriptedCall, TranscriptEntry};
use serde_json::{Value, json};

use crate::http::{post, send_prompt};
use crate::{ALL_APIS, TestApi};

fn answer_text(api: TestApi, answer: &Value) -> &str {
    let pointer = match api {
        TestApi::Anthropic => "/content/0/text",
        TestApi::Responses => "/output/0/content/0/text",
        TestApi::Gemini => "/candidates/0/content/parts/0/text",
    };
    answer
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Creates a request with two prompts, the second of which was followed by a round of two tool calls.
fn build_tool_round_request(api: TestApi) -> (String, Value) {
    let (path, mut body) = api.build_request("", false);
    let (field, messages) = match api {
        TestApi::Anthropic => (
            "messages",
            json!([
                {"role": "user", "content": "first"},
                {"role": "assistant", "content": [{"type": "text", "text": "answer"}]},
                {"role": "user", "content": [
                    {"type": "text", "text": "<system-reminder>it rains</system-reminder>"},
                    {"type": "text", "text": "second"},
                ]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": ""},
                    {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "ls"}},
                    {"type": "tool_use", "id": "b", "name": "Bash", "input": {"command": "pwd"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "file"},
                    {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "/here"}]},
                    {"type": "text", "text": "<system-reminder>still</system-reminder>"},
                ]},
            ]),
        ),
        TestApi::Responses => (
            "input",
            json!([
                {"role": "user", "content": "first"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "answer"}]},
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "<environment_context>it rains</environment_context>"},
                ]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "second"}]},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
                {"type": "function_call", "name": "shell", "call_id": "a", "arguments": "{\"command\":\"ls\"}"},
                {"type": "function_call", "name": "shell", "call_id": "b", "arguments": "{\"command\":\"pwd\"}"},
                {"type": "function_call_output", "call_id": "a", "output": "file"},
                {"type": "function_call_output", "call_id": "b", "output": "/here"},
            ]),
        ),
        TestApi::Gemini => (
            "contents",
            json!([
                {"role": "user", "parts": [{"text": "first"}]},
                {"role": "model", "parts": [{"text": "answer"}]},
                {"role": "user", "parts": [{"text": "<session_context>it rains</session_context>"}]},
                {"role": "user", "parts": [{"text": "second"}]},
                {"role": "model", "parts": [
                    {"text": "hm", "thought": true},
                    {"functionCall": {"name": "run_shell_command", "args": {"command": "ls"}}},
                    {"functionCall": {"name": "run_shell_command", "args": {"command": "pwd"}}},
                ]},
                {"role": "user", "parts": [
                    {"functionResponse": {"name": "run_shell_command", "response": {"output": "file"}}},
                    {"functionResponse": {"name": "run_shell_command", "response": {"output": "/here"}}},
                ]},
            ]),
        ),
    };
    body[field] = messages;
    (path, body)
}

/// Repeats the tool calls at the end of a conversation, with their results.
fn repeat_tool_round(api: TestApi, mut body: Value) -> Value {
    let (field, length) = match api {
        TestApi::Anthropic => ("messages", 2),
        TestApi::Responses => ("input", 4),
        TestApi::Gemini => ("contents", 2),
    };
    let messages = body[field].as_array_mut().unwrap();
    let round = messages.split_off(messages.len() - length);
    messages.extend(round.iter().chain(&round).cloned());
    body
}

#[test]
fn without_a_rule_the_prompt_is_repeated() {
    let model = ModelStub::start(Script::new().with_rule("else", [Reply::from_text("no")]));
    for api in ALL_APIS {
        let answer = send_prompt(&model, api, "hello there", false).json();
        assert_eq!(answer_text(api, &answer), "You said: hello there");
    }
}

#[test]
fn the_rounds_since_the_last_prompt_select_the_step() {
    let steps = ["zero", "one", "two"].map(Reply::from_text);
    let model = ModelStub::start(Script::new().with_rule("second", steps));
    for api in ALL_APIS {
        let answer = send_prompt(&model, api, "a second thing", false).json();
        assert_eq!(answer_text(api, &answer), "zero", "{api:?}");
        let (path, body) = build_tool_round_request(api);
        let answer = post(&model, &path, &body).json();
        assert_eq!(answer_text(api, &answer), "one", "{api:?}");
        let answer = post(&model, &path, &repeat_tool_round(api, body)).json();
        assert_eq!(answer_text(api, &answer), "two", "{api:?}");
    }
}

#[test]
fn the_stub_answers_done_after_the_last_step() {
    let steps = [Reply::from_call(ScriptedCall::shell("ls"))];
    let model = ModelStub::start(Script::new().with_rule("second", steps));
    for api in ALL_APIS {
        let (path, body) = build_tool_round_request(api);
        let answer = post(&model, &path, &body).json();
        assert_eq!(answer_text(api, &answer), "Done.", "{api:?}");
    }
}

#[test]
fn the_transcript_is_the_same_in_every_api_format() {
    let model = ModelStub::start(Script::new());
    for api in ALL_APIS {
        let (path, body) = build_tool_round_request(api);
        post(&model, &path, &body);
        let request = model.requests().pop().unwrap();
        assert_eq!(request.prompts(), ["first", "second"], "{api:?}");
        assert_eq!(request.tool_results(), ["file", "/here"], "{api:?}");
        assert!(request.contains("it rains") && request.contains("pwd") && request.contains("hm"));
        assert!(!request.contains("it snows"));
        let entries = request.transcript();
        assert_eq!(
            entries[1],
            TranscriptEntry::Assistant("answer".to_owned()),
            "{api:?}"
        );
        assert!(
            matches!(entries[2], TranscriptEntry::Injected(_)),
            "{api:?}"
        );
        let commands = entries.iter().filter_map(|entry| match entry {
            TranscriptEntry::Call { input, .. } => input["command"].as_str(),
            _ => None,
        });
        assert_eq!(commands.collect::<Vec<_>>(), ["ls", "pwd"], "{api:?}");
    }
}

#[test]
fn a_script_can_be_parsed_from_json() {
    let parsed: Script = serde_json::from_value(json!({
        "rules": [{"on": "go", "steps": [
            {"think": "hm", "text": "I go.", "calls": [{"shell": "ls"}, {"write": {"path": "/a", "content": "b"}}]},
            {"fail": {"rate_limit": {"retry_after": 2}}, "times": 3},
            {"fail": "cut"},
        ]}],
        "title": "A title",
    }))
    .unwrap();
    let built = Script::new().with_title("A title").with_rule(
        "go",
        [
            Reply::from_text("I go.")
                .with_thoughts("hm")
                .with_call(ScriptedCall::shell("ls"))
                .with_call(ScriptedCall::write("/a", "b")),
            Reply::default().with_failures(
                segue_testkit::model::StubFailure::RateLimit { retry_after: 2 },
                3,
            ),
            Reply::from_failure(segue_testkit::model::StubFailure::Cut),
        ],
    );
    assert_eq!(parsed, built);
}
