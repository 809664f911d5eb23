//! Selection of the answer to a request.

use segue_testkit::model::{Call, Model, Reply, Script, Seen};
use serde_json::{Value, json};

use crate::http::{ask, post};
use crate::{ALL, Asked};

fn text(asked: Asked, answer: &Value) -> &str {
    let place = match asked {
        Asked::Anthropic => "/content/0/text",
        Asked::Responses => "/output/0/content/0/text",
        Asked::Gemini => "/candidates/0/content/parts/0/text",
    };
    answer
        .pointer(place)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Creates a request with two prompts, the second of which was followed by a round of two tool calls.
fn later(asked: Asked) -> (String, Value) {
    let (path, mut body) = asked.request("", false);
    let (field, messages) = match asked {
        Asked::Anthropic => (
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
        Asked::Responses => (
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
        Asked::Gemini => (
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
fn another_round(asked: Asked, mut body: Value) -> Value {
    let (field, length) = match asked {
        Asked::Anthropic => ("messages", 2),
        Asked::Responses => ("input", 4),
        Asked::Gemini => ("contents", 2),
    };
    let messages = body[field].as_array_mut().unwrap();
    let round = messages.split_off(messages.len() - length);
    messages.extend(round.iter().chain(&round).cloned());
    body
}

#[test]
fn without_a_rule_the_prompt_is_repeated() {
    let model = Model::start(Script::new().on("else", [Reply::say("no")]));
    for asked in ALL {
        let answer = ask(&model, asked, "hello there", false).json();
        assert_eq!(text(asked, &answer), "You said: hello there");
    }
}

#[test]
fn the_step_is_found_by_the_rounds_since_the_last_prompt() {
    let steps = ["zero", "one", "two"].map(Reply::say);
    let model = Model::start(Script::new().on("second", steps));
    for asked in ALL {
        let answer = ask(&model, asked, "a second thing", false).json();
        assert_eq!(text(asked, &answer), "zero", "{asked:?}");
        let (path, body) = later(asked);
        let answer = post(&model, &path, &body).json();
        assert_eq!(text(asked, &answer), "one", "{asked:?}");
        let answer = post(&model, &path, &another_round(asked, body)).json();
        assert_eq!(text(asked, &answer), "two", "{asked:?}");
    }
}

#[test]
fn past_the_last_step_it_is_done() {
    let steps = [Reply::calling(Call::shell("ls"))];
    let model = Model::start(Script::new().on("second", steps));
    for asked in ALL {
        let (path, body) = later(asked);
        let answer = post(&model, &path, &body).json();
        assert_eq!(text(asked, &answer), "Done.", "{asked:?}");
    }
}

#[test]
fn what_the_model_saw_is_the_same_in_every_dialect() {
    let model = Model::start(Script::new());
    for asked in ALL {
        let (path, body) = later(asked);
        post(&model, &path, &body);
        let request = model.requests().pop().unwrap();
        assert_eq!(request.prompts(), ["first", "second"], "{asked:?}");
        assert_eq!(request.results(), ["file", "/here"], "{asked:?}");
        assert!(request.contains("it rains") && request.contains("pwd") && request.contains("hm"));
        assert!(!request.contains("it snows"));
        let seen = request.seen();
        assert_eq!(seen[1], Seen::Assistant("answer".to_owned()), "{asked:?}");
        assert!(matches!(seen[2], Seen::Injected(_)), "{asked:?}");
        let called = seen.iter().filter_map(|piece| match piece {
            Seen::Call { input, .. } => input["command"].as_str(),
            _ => None,
        });
        assert_eq!(called.collect::<Vec<_>>(), ["ls", "pwd"], "{asked:?}");
    }
}

#[test]
fn a_script_can_be_written_as_json() {
    let script: Script = serde_json::from_value(json!({
        "rules": [{"on": "go", "steps": [
            {"think": "hm", "text": "I go.", "calls": [{"shell": "ls"}, {"write": {"path": "/a", "content": "b"}}]},
            {"fail": {"rate_limit": {"retry_after": 2}}, "times": 3},
            {"fail": "cut"},
        ]}],
        "title": "A title",
    }))
    .unwrap();
    let built = Script::new().title("A title").on(
        "go",
        [
            Reply::say("I go.")
                .think("hm")
                .call(Call::shell("ls"))
                .call(Call::write("/a", "b")),
            Reply::default().failing_times(
                segue_testkit::model::Failure::RateLimit { retry_after: 2 },
                3,
            ),
            Reply::fail(segue_testkit::model::Failure::Cut),
        ],
    );
    assert_eq!(script, built);
}
