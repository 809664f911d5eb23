//! Answers in the format of each API.

use segue_testkit::model::{ApiFormat, ModelStub, Reply, Script, ScriptedCall, StubUsage};
use serde_json::{Value, json};

use crate::http::{get, post, send_prompt};
use crate::{ALL_APIS, TestApi};

fn script() -> Script {
    let usage = StubUsage {
        input: 1000,
        output: 200,
        thoughts: 30,
        cache_read: 4,
        cache_write: 5,
    };
    let reply = Reply::from_text("one two three four five")
        .with_thoughts("hm")
        .with_call(ScriptedCall::shell("ls"))
        .with_usage(usage);
    Script::new().with_rule("go", [reply])
}

#[test]
fn anthropic_answers_arrive_in_one_response() {
    let model = ModelStub::start(script());
    let mut message = send_prompt(&model, TestApi::Anthropic, "go", false).json();
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
fn anthropic_answers_arrive_as_a_stream() {
    let model = ModelStub::start(script());
    let response = send_prompt(&model, TestApi::Anthropic, "go", true);
    let events = response.events();
    let join_deltas = |kind: &str, field: &str| -> String {
        let deltas = events.iter().map(|event| &event["delta"]);
        let deltas = deltas.filter(|delta| delta["type"] == kind);
        deltas.map(|delta| delta[field].as_str().unwrap()).collect()
    };
    assert_eq!(join_deltas("text_delta", "text"), "one two three four five");
    assert_eq!(join_deltas("thinking_delta", "thinking"), "hm");
    assert_eq!(
        join_deltas("input_json_delta", "partial_json"),
        r#"{"command":"ls"}"#
    );
    let text_delta_count = response.body.matches("text_delta").count();
    assert!(text_delta_count > 1, "streamed in one chunk");
    assert_eq!(events[0]["type"], "message_start");
    let end = &events[events.len() - 2];
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
    assert_eq!(end["usage"]["output_tokens"], 200);
    assert!(response.is_complete);
}

#[test]
fn responses_answers_arrive_in_one_response() {
    let model = ModelStub::start(script());
    let response = send_prompt(&model, TestApi::Responses, "go", false).json();
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
fn responses_answers_arrive_as_a_stream() {
    let model = ModelStub::start(script());
    let stream = send_prompt(&model, TestApi::Responses, "go", true);
    let events = stream.events();
    let deltas: Vec<&str> = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .map(|event| event["delta"].as_str().unwrap())
        .collect();
    assert!(deltas.len() > 1, "streamed in one chunk");
    assert_eq!(deltas.concat(), "one two three four five");
    let completed = events.last().unwrap();
    assert_eq!(completed["type"], "response.completed");
    let unstreamed = send_prompt(&model, TestApi::Responses, "go", false).json();
    assert_eq!(completed["response"]["usage"], unstreamed["usage"]);
    assert_ne!(
        completed["response"]["id"], unstreamed["id"],
        "ids are unique within a stub"
    );
}

#[test]
fn gemini_answers_arrive_in_one_response() {
    let model = ModelStub::start(script());
    let answer = send_prompt(&model, TestApi::Gemini, "go", false).json();
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
fn gemini_answers_arrive_as_a_stream() {
    let model = ModelStub::start(script());
    let events = send_prompt(&model, TestApi::Gemini, "go", true).events();
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
    assert!(parts.len() > 4, "streamed in one chunk");
    let last = events.last().unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert_eq!(last["usageMetadata"]["totalTokenCount"], 1230);
}

#[test]
fn the_stub_counts_tokens_and_lists_models() {
    let model = ModelStub::start(Script::new());
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
    assert_eq!(model.turn_requests().len(), 0);
}

#[test]
fn an_unknown_path_is_refused_and_recorded() {
    let model = ModelStub::start(Script::new());
    let response = post(&model, "/v2/else?x=1", &json!({"a": 1}));
    assert_eq!(response.status, 404);
    assert_eq!(
        response.json()["error"]["message"],
        "unknown path `/v2/else?x=1`"
    );
    let requests = model.requests();
    assert_eq!(requests[0].path, "/v2/else?x=1");
    assert_eq!(
        (requests[0].api_format, requests[0].status),
        (ApiFormat::Unknown, 404)
    );
    assert_eq!(requests[0].body, json!({"a": 1}));
}

#[test]
fn requests_are_recorded_unchanged() {
    let model = ModelStub::start(Script::new());
    for (api, api_format) in ALL_APIS.into_iter().zip([
        ApiFormat::Anthropic,
        ApiFormat::Responses,
        ApiFormat::Gemini,
    ]) {
        send_prompt(&model, api, "remember me", true);
        let request = model.requests().pop().unwrap();
        assert_eq!(request.api_format, api_format);
        assert_eq!((request.method.as_str(), request.status), ("POST", 200));
        assert_eq!(request.model.as_deref(), Some("m"));
        assert_eq!(request.headers["x-api-key"], "dummy");
        assert_eq!(
            (request.path, request.body),
            api.build_request("remember me", true)
        );
        assert!(request.streaming);
    }
    assert_eq!(model.turn_requests().len(), 3);
}
