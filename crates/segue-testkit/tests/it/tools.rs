//! Adaptation of calls to the offered tools.

use segue_testkit::model::{Call, Model, Reply, Script};
use serde_json::{Value, json};

use crate::Asked;
use crate::http::post;

/// Returns the first output item of the answer to a request with these tools.
fn called(call: Call, tools: Value) -> Value {
    let model = Model::start(Script::new().on("go", [Reply::calling(call)]));
    let (path, mut body) = Asked::Responses.request("go", false);
    body["tools"] = tools;
    post(&model, &path, &body).json()["output"][0].take()
}

fn function(name: &str, schema: &Value) -> Value {
    json!([{"type": "function", "name": name, "parameters": schema}])
}

#[test]
fn a_command_takes_the_shape_of_the_shell() {
    let schema = json!({"properties": {"cmd": {"type": "string"}}});
    let item = called(Call::shell("ls"), function("exec_command", &schema));
    assert_eq!(item["arguments"], r#"{"cmd":"ls"}"#);
    let schema = json!({"properties": {"command": {"type": "array"}}});
    let item = called(Call::shell("ls"), function("shell", &schema));
    assert_eq!(item["arguments"], r#"{"command":["bash","-lc","ls"]}"#);
    let schema = json!({
        "properties": {"command": {"type": "string"}, "description": {"type": "string"}},
        "required": ["command", "description"],
    });
    let item = called(Call::shell("ls"), function("bash", &schema));
    assert_eq!(
        item["arguments"],
        r#"{"command":"ls","description":"stub"}"#
    );
}

#[test]
fn files_are_read_and_written_by_whatever_can() {
    let schema = json!({"properties": {"filePath": {"type": "string"}}});
    let item = called(Call::read("/a"), function("read", &schema));
    assert_eq!(item["arguments"], r#"{"filePath":"/a"}"#);
    let item = called(Call::write("/a", "b"), function("write", &schema));
    let arguments: Value = serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({"content": "b", "filePath": "/a"}));

    let patch = json!([{"type": "custom", "name": "apply_patch"}]);
    let item = called(Call::write("/a", "b\nc\n"), patch);
    assert_eq!(item["type"], "custom_tool_call");
    assert_eq!(
        item["input"],
        "*** Begin Patch\n*** Add File: /a\n+b\n+c\n*** End Patch\n"
    );

    let schema = json!({"properties": {"cmd": {"type": "string"}}});
    let item = called(Call::read("/it's"), function("exec_command", &schema));
    assert_eq!(item["arguments"], r#"{"cmd":"cat '/it'\\''s'"}"#);
}

#[test]
fn a_tool_in_a_namespace_is_called_there() {
    let tools = json!([{"type": "namespace", "name": "mcp__lab", "tools": [{"type": "function", "name": "ping"}]}]);
    let item = called(Call::tool("mcp__lab__ping", json!({"x": 1})), tools);
    assert_eq!(
        (&item["namespace"], &item["name"]),
        (&json!("mcp__lab"), &json!("ping"))
    );
}

#[test]
fn what_is_not_on_offer_is_said() {
    let item = called(Call::tool("fly", json!({})), json!([]));
    assert_eq!(
        item["content"][0]["text"],
        "[the request offers no tool fly]"
    );
    let item = called(Call::shell("ls"), json!([]));
    assert_eq!(
        item["content"][0]["text"],
        "[the request offers no tool for a shell]"
    );
}
