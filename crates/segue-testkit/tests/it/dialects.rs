//! Answers in the format of each API.

use segue_testkit::model::{Call, Dialect, Model, Reply, Script, Usage};
use serde_json::{Value, json};

use crate::http::{ask, get, post};
use crate::{ALL, Asked};

fn script() -> Script {
    let usage = Usage {
        input: 1000,
        output: 200,
        thoughts: 30,
        cache_read: 4,
        cache_write: 5,
    };
    let reply = Reply::say("one two three four five")
        .think("hm")
        .call(Call::shell("ls"))
        .usage(usage);
    Script::new().on("go", [reply])
}

#[test]
fn anthropic_whole() {
    let model = Model::start(script());
    let mut message = ask(&model, Asked::Anthropic, "go", false).json();
    let usage = message["usage"].take();
    assert_eq!(
        message["content"],
        json!([
            {"type": "thinking", "thinking": "hm", "signature": "c3R1Yg=="},
            {"type": "text", "text": "one two three four five"},
            {"type": "tool_use", "id": "toolu_stub_000001", "name": "Bash", "input": {"command": "ls"}},
        ])
    );
    assert_eq!(message["stop_reason"], "tool_use");
    assert_eq!(usage["input_tokens"], 1000);
    assert_eq!(usage["output_tokens"], 200);
    assert_eq!(usage["cache_read_input_tokens"], 4);
    assert_eq!(usage["cache_creation_input_tokens"], 5);
}

#[test]
fn anthropic_streamed() {
    let model = Model::start(script());
    let got = ask(&model, Asked::Anthropic, "go", true);
    let events = got.events();
    let joined = |kind: &str, field: &str| -> String {
        let deltas = events.iter().map(|event| &event["delta"]);
        let deltas = deltas.filter(|delta| delta["type"] == kind);
        deltas.map(|delta| delta[field].as_str().unwrap()).collect()
    };
    assert_eq!(joined("text_delta", "text"), "one two three four five");
    assert_eq!(joined("thinking_delta", "thinking"), "hm");
    assert_eq!(
        joined("input_json_delta", "partial_json"),
        r#"{"command":"ls"}"#
    );
    let texts = got.body.matches("text_delta").count();
    assert!(texts > 1, "streamed in one piece");
    assert_eq!(events[0]["type"], "message_start");
    let end = &events[events.len() - 2];
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
    assert_eq!(end["usage"]["output_tokens"], 200);
    assert!(got.whole);
}

#[test]
fn responses_whole() {
    let model = Model::start(script());
    let response = ask(&model, Asked::Responses, "go", false).json();
    let kinds: Vec<&Value> = response["output"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["type"])
        .collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call"]);
    assert_eq!(response["output"][0]["summary"][0]["text"], "hm");
    assert_eq!(
        response["output"][1]["content"][0]["text"],
        "one two three four five"
    );
    assert_eq!(response["output"][2]["arguments"], r#"{"command":"ls"}"#);
    let usage = &response["usage"];
    assert_eq!(usage["input_tokens"], 1000);
    assert_eq!(usage["input_tokens_details"]["cached_tokens"], 4);
    assert_eq!(usage["output_tokens_details"]["reasoning_tokens"], 30);
    assert_eq!(usage["total_tokens"], 1200);
}

#[test]
fn responses_streamed() {
    let model = Model::start(script());
    let got = ask(&model, Asked::Responses, "go", true);
    let events = got.events();
    let deltas: Vec<&str> = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .map(|event| event["delta"].as_str().unwrap())
        .collect();
    assert!(deltas.len() > 1, "streamed in one piece");
    assert_eq!(deltas.concat(), "one two three four five");
    let done = events.last().unwrap();
    assert_eq!(done["type"], "response.completed");
    let whole = ask(&model, Asked::Responses, "go", false).json();
    assert_eq!(done["response"]["usage"], whole["usage"]);
    assert_ne!(
        done["response"]["id"], whole["id"],
        "ids are unique within a stub"
    );
}

#[test]
fn gemini_whole() {
    let model = Model::start(script());
    let answer = ask(&model, Asked::Gemini, "go", false).json();
    let parts = &answer["candidates"][0]["content"]["parts"];
    assert_eq!(parts[0], json!({"text": "hm", "thought": true}));
    assert_eq!(parts[1], json!({"text": "one two three four five"}));
    assert_eq!(parts[2]["functionCall"]["args"], json!({"command": "ls"}));
    let usage = json!({
        "promptTokenCount": 1000, "cachedContentTokenCount": 4, "candidatesTokenCount": 200,
        "thoughtsTokenCount": 30, "totalTokenCount": 1230,
    });
    assert_eq!(answer["usageMetadata"], usage);
}

#[test]
fn gemini_streamed() {
    let model = Model::start(script());
    let events = ask(&model, Asked::Gemini, "go", true).events();
    let parts: Vec<&Value> = events
        .iter()
        .flat_map(|event| {
            event["candidates"][0]["content"]["parts"]
                .as_array()
                .unwrap()
        })
        .collect();
    let texts: String = parts
        .iter()
        .filter(|part| part["thought"] != true)
        .filter_map(|part| part["text"].as_str())
        .collect();
    assert_eq!(texts, "one two three four five");
    assert!(parts.len() > 4, "streamed in one piece");
    let last = events.last().unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert_eq!(last["usageMetadata"]["totalTokenCount"], 1230);
}

#[test]
fn counts_and_lists() {
    let model = Model::start(Script::new());
    let count = post(
        &model,
        "/v1/messages/count_tokens",
        &json!({"messages": []}),
    );
    assert_eq!(count.json(), json!({"input_tokens": 101}));
    let count = post(&model, "/v1beta/models/m:countTokens", &json!({}));
    assert_eq!(count.json(), json!({"totalTokens": 101}));
    let models = get(&model, "/v1/models").json();
    assert_eq!(models["data"][0]["id"], "stub-model");
    let models = get(&model, "/v1beta/models").json();
    assert_eq!(models["models"][0]["name"], "models/gemini-2.5-flash");
    assert_eq!(model.turns().len(), 0);
}

#[test]
fn what_nobody_knows_is_refused_and_remembered() {
    let model = Model::start(Script::new());
    let got = post(&model, "/v2/else?x=1", &json!({"a": 1}));
    assert_eq!(got.status, 404);
    assert_eq!(
        got.json()["error"]["message"],
        "the stub has no /v2/else?x=1"
    );
    let requests = model.requests();
    assert_eq!(requests[0].path, "/v2/else?x=1");
    assert_eq!(
        (requests[0].dialect, requests[0].status),
        (Dialect::Unknown, 404)
    );
    assert_eq!(requests[0].body, json!({"a": 1}));
}

#[test]
fn requests_are_remembered_as_they_were() {
    let model = Model::start(Script::new());
    for (asked, dialect) in
        ALL.into_iter()
            .zip([Dialect::Anthropic, Dialect::Responses, Dialect::Gemini])
    {
        ask(&model, asked, "remember me", true);
        let request = model.requests().pop().unwrap();
        assert_eq!(request.dialect, dialect);
        assert_eq!((request.method.as_str(), request.status), ("POST", 200));
        assert_eq!(request.model.as_deref(), Some("m"));
        assert_eq!(request.headers["x-api-key"], "dummy");
        assert_eq!(
            (request.path, request.body),
            asked.request("remember me", true)
        );
        assert!(request.streaming);
    }
    assert_eq!(model.turns().len(), 3);
}
