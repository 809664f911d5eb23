//! Side requests, which CLIs send for their own purposes.

use segue_testkit::model::{Model, Reply, Script, Side};
use serde_json::{Value, json};

use crate::Asked;
use crate::http::{ask, post};

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
    let model = Model::start(Script::new().on("go", [Reply::say("not this")]));
    let (path, mut body) = Asked::Gemini.request("go", false);
    body["generationConfig"] = json!({"responseJsonSchema": schema});
    let answer = post(&model, &path, &body).json();
    let text = answer["candidates"][0]["content"]["parts"][0]["text"]
        .as_str()
        .unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), expected);

    let (path, mut body) = Asked::Responses.request("go", false);
    body["text"] = json!({"format": {"type": "json_schema", "schema": schema}});
    let answer = post(&model, &path, &body).json();
    let text = answer["output"][0]["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), expected);

    let (path, mut body) = Asked::Anthropic.request("go", false);
    body["output_config"] = json!({"format": {"type": "json_schema", "schema": schema}});
    let answer = post(&model, &path, &body).json();
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), expected);

    assert!(
        model
            .requests()
            .iter()
            .all(|request| request.side == Some(Side::Object))
    );
    assert!(model.turns().is_empty());
}

#[test]
fn titles_and_summaries_come_from_the_script() {
    let script = Script::new().title("My title").summary("All that was.");
    let model = Model::start(script);
    let (path, mut body) = Asked::Anthropic.request("greet me", false);
    body["system"] = json!("You are a title generator. You output only a title.");
    body["tools"] = json!([]);
    let answer = post(&model, &path, &body).json();
    assert_eq!(answer["content"][0]["text"], "My title");

    let prompt = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary.";
    let answer = ask(&model, Asked::Responses, prompt, false).json();
    assert_eq!(answer["output"][0]["content"][0]["text"], "All that was.");

    let sides: Vec<Option<Side>> = model
        .requests()
        .iter()
        .map(|request| request.side)
        .collect();
    assert_eq!(sides, [Some(Side::Title), Some(Side::Summary)]);
}

#[test]
fn a_user_may_ask_for_a_title_too() {
    let model = Model::start(Script::new());
    ask(
        &model,
        Asked::Anthropic,
        "generate a title for my book",
        false,
    );
    assert_eq!(model.turns().len(), 1);
}
