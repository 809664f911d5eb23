//! Adaptation of calls to the offered tools.

use segue_testkit::model::{ModelStub, Reply, Script, ScriptedCall};
use serde_json::{Value, json};

use crate::TestApi;
use crate::http::post;

/// Returns the first output item of the answer to a request with these tools.
fn first_output_item(call: ScriptedCall, tools: Value) -> Value {
    let model = ModelStub::start(Script::new().with_rule("go", [Reply::from_call(call)]));
    let (path, mut body) = TestApi::Responses.build_request("go", false);
    body["tools"] = tools;
    post(&model, &path, &body).json()["output"][0].take()
}

fn function_tool_list(name: &str, schema: &Value) -> Value {
    json!([{"type": "function", "name": name, "parameters": schema}])
}

#[test]
fn a_command_fits_the_arguments_of_the_shell_tool() {
    let schema = json!({"properties": {"cmd": {"type": "string"}}});
    let item = first_output_item(
        ScriptedCall::shell("ls"),
        function_tool_list("exec_command", &schema),
    );
    assert_eq!(item["arguments"], r#"{"cmd":"ls"}"#);
    let schema = json!({"properties": {"command": {"type": "array"}}});
    let item = first_output_item(
        ScriptedCall::shell("ls"),
        function_tool_list("shell", &schema),
    );
    assert_eq!(item["arguments"], r#"{"command":["bash","-lc","ls"]}"#);
    let schema = json!({
        "properties": {"command": {"type": "string"}, "description": {"type": "string"}},
        "required": ["command", "description"],
    });
    let item = first_output_item(
        ScriptedCall::shell("ls"),
        function_tool_list("bash", &schema),
    );
    assert_eq!(
        item["arguments"],
        r#"{"command":"ls","description":"stub"}"#
    );
}

#[test]
fn files_are_read_and_written_by_any_suitable_tool() {
    let schema = json!({"properties": {"filePath": {"type": "string"}}});
    let item = first_output_item(
        ScriptedCall::read("/a"),
        function_tool_list("read", &schema),
    );
    assert_eq!(item["arguments"], r#"{"filePath":"/a"}"#);
    let item = first_output_item(
        ScriptedCall::write("/a", "b"),
        function_tool_list("write", &schema),
    );
    let arguments: Value = serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({"content": "b", "filePath": "/a"}));

    let patch = json!([{"type": "custom", "name": "apply_patch"}]);
    let item = first_output_item(ScriptedCall::write("/a", "b\nc\n"), patch);
    assert_eq!(item["type"], "custom_tool_call");
    assert_eq!(
        item["input"],
        "*** Begin Patch\n*** Add File: /a\n+b\n+c\n*** End Patch\n"
    );

    let schema = json!({"properties": {"cmd": {"type": "string"}}});
    let item = first_output_item(
        ScriptedCall::read("/it's"),
        function_tool_list("exec_command", &schema),
    );
    assert_eq!(item["arguments"], r#"{"cmd":"cat '/it'\\''s'"}"#);
}

#[test]
fn a_tool_in_a_namespace_is_called_with_its_namespace() {
    let tools = json!([{"type": "namespace", "name": "mcp__lab", "tools": [{"type": "function", "name": "ping"}]}]);
    let item = first_output_item(ScriptedCall::tool("mcp__lab__ping", json!({"x": 1})), tools);
    assert_eq!(
        (&item["namespace"], &item["name"]),
        (&json!("mcp__lab"), &json!("ping"))
    );
}

#[test]
fn a_call_of_a_missing_tool_becomes_text() {
    let item = first_output_item(ScriptedCall::tool("fly", json!({})), json!([]));
    assert_eq!(
        item["content"][0]["text"],
        "[the request offers no tool fly]"
    );
    let item = first_output_item(ScriptedCall::shell("ls"), json!([]));
    assert_eq!(
        item["content"][0]["text"],
        "[the request offers no tool for a shell]"
    );
}
