//! Side requests, which CLIs send for their own purposes.

use segue_testkit::model::{ModelStub, Reply, Script, SideRequestKind};
use serde_json::{Value, json};

use crate::TestApi;
use crate::http::{post, send_prompt};

#[test]
fn an_object_fits_its_schema() {
    let schema = json!({
        "type": "OBJECT",
        "properties": {
            "complexity_score": {"type": "INTEGER", "minimum": 3},
            "outcome": {"type": "string", "enum": ["deny", "allow"]},
            "title": {"type": "string"},
            "list": {"type": "array"},
            "inner": {"type": "object", "properties": {"sure": {"type": "boolean"}}},
        },
    });
    let expected = json!({
        "complexity_score": 3, "outcome": "allow", "title": "Stub title", "list": [], "inner": {"sure": false},
    });
    let model = ModelStub::start(Script::new().with_rule("go", [Reply::from_text("not this")]));
    let (path, mut body) = TestApi::Gemini.build_request("go", false);
    body["generationConfig"] = json!({"responseJsonSchema": schema});
    let answer = post(&model, &path, &body).json();
    let text = answer["candidates"][0]["content"]["parts"][0]["text"]
        .as_str()
        .unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), expected);

    let (path, mut body) = TestApi::Responses.build_request("go", false);
    body["text"] = json!({"format": {"type": "json_schema", "schema": schema}});
    let answer = post(&model, &path, &body).json();
    let text = answer["output"][0]["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), expected);

    let (path, mut body) = TestApi::Anthropic.build_request("go", false);
    body["output_config"] = json!({"format": {"type": "json_schema", "schema": schema}});
    let answer = post(&model, &path, &body).json();
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), expected);

    assert!(
        model
            .requests()
            .iter()
            .all(|request| request.side_request == Some(SideRequestKind::Object))
    );
    assert!(model.turn_requests().is_empty());
}

#[test]
fn titles_and_summaries_come_from_the_script() {
    let script = Script::new()
        .with_title("My title")
        .with_summary("A short summary.");
    let model = ModelStub::start(script);
    let (path, mut body) = TestApi::Anthropic.build_request("greet me", false);
    body["system"] = json!("You are a title generator. You output only a title.");
    body["tools"] = json!([]);
    let answer = post(&model, &path, &body).json();
    assert_eq!(answer["content"][0]["text"], "My title");

    let prompt = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary.";
    let answer = send_prompt(&model, TestApi::Responses, prompt, false).json();
    assert_eq!(
        answer["output"][0]["content"][0]["text"],
        "A short summary."
    );

    let side_requests: Vec<Option<SideRequestKind>> = model
        .requests()
        .iter()
        .map(|request| request.side_request)
        .collect();
    assert_eq!(
        side_requests,
        [Some(SideRequestKind::Title), Some(SideRequestKind::Summary)]
    );
}

#[test]
fn a_user_request_for_a_title_is_a_turn() {
    let model = ModelStub::start(Script::new());
    send_prompt(
        &model,
        TestApi::Anthropic,
        "generate a title for my book",
        false,
    );
    assert_eq!(model.turn_requests().len(), 1);
}
