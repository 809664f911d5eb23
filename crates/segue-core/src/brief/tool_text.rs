//! Tool calls and their responses as short text.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::json::Json;

/// Keys of a call's main argument, by precedence: a command to run, a text to search for, or a file to open.
const MAIN_ARGUMENT_KEYS: [&str; 14] = [
    "command",
    "cmd",
    "pattern",
    "query",
    "file_path",
    "filePath",
    "absolute_path",
    "notebook_path",
    "path",
    "dir_path",
    "url",
    "uri",
    "skill",
    "prompt",
];

/// Keys of the text in a response, by precedence.
const RESULT_TEXT_KEYS: [&str; 10] = [
    "output",
    "error",
    "text",
    "aggregated_output",
    "formatted_output",
    "stdout",
    "result",
    "response",
    "message",
    "content",
];

/// Maximum length in bytes of an argument that is shown in full. The main argument has no limit; any other argument
/// that is longer, or has several lines, is shown by its name and size.
const MAX_ARGUMENT_BYTES: usize = 120;

/// Renders a call: the tool's name, its main argument, and the other arguments in short.
#[must_use]
pub fn describe_tool_call(name: &str, args: &Json) -> String {
    let fields = match serde_json::from_str(args.as_str()) {
        Ok(Value::Object(fields)) => fields,
        Ok(Value::Null) | Err(_) => return name.to_owned(),
        Ok(Value::String(text)) => return join_name_and_argument(name, &text),
        Ok(Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
            return join_name_and_argument(name, args.as_str());
        }
    };
    let main = MAIN_ARGUMENT_KEYS.into_iter().find_map(|key| {
        let value = fields.get(key)?;
        Some((key, inline_text(value)?))
    });
    let mut description = match &main {
        Some((_, value)) => join_name_and_argument(name, value),
        None => name.to_owned(),
    };
    let main = main.map(|(key, _)| key);
    for (key, value) in other_fields(&fields, |key| Some(key) == main) {
        let value = match inline_text(value).filter(|text| is_short_argument(text)) {
            Some(text) => format!(": {text}"),
            None => format!(" ({} bytes)", value_bytes(value)),
        };
        let _ = write!(description, "; {key}{value}");
    }
    description
}

/// Renders a response: its text, its diffs, and its other fields. If it contains no text, renders the JSON on one line.
#[must_use]
pub fn describe_tool_result(response: &Json) -> String {
    let value = serde_json::from_str(response.as_str()).unwrap_or_default();
    render_result_value(&value).unwrap_or_else(|| response.to_single_line())
}

/// Returns all text in a response, without its other fields.
pub(crate) fn collect_result_text(result: &Value) -> String {
    match result {
        Value::String(text) => text.clone(),
        Value::Array(values) => {
            let texts: Vec<String> = values.iter().map(collect_result_text).collect();
            texts.join("\n")
        }
        Value::Object(fields) => {
            let keys = RESULT_TEXT_KEYS.iter().chain(&["stderr"]);
            let texts = keys.filter_map(|key| fields.get(*key));
            let texts = texts
                .map(collect_result_text)
                .filter(|text| !text.is_empty());
            texts.collect::<Vec<String>>().join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// Joins a tool's name and its main argument. Some agents derive one from the other; then only the longer text is used.
fn join_name_and_argument(name: &str, argument: &str) -> String {
    if argument.is_empty() || name.contains(argument) {
        name.to_owned()
    } else if name.contains(' ') && argument.contains(name) {
        argument.to_owned()
    } else {
        format!("{name}: {argument}")
    }
}

/// Returns a value as a single text: a string, a number, a boolean, the path of an object, or a list of these. `None`
/// for other values.
fn inline_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(values) => {
            let values: Option<Vec<String>> = values.iter().map(inline_text).collect();
            values.map(|values| values.join(" "))
        }
        Value::Object(fields) => match fields.get("path")? {
            Value::String(path) => Some(path.clone()),
            _ => None,
        },
        Value::Null => None,
    }
}

fn is_short_argument(text: &str) -> bool {
    text.len() <= MAX_ARGUMENT_BYTES && !text.contains('\n')
}

fn value_bytes(value: &Value) -> usize {
    value
        .as_str()
        .map_or_else(|| value.to_string().len(), str::len)
}

/// Returns the fields that are not empty and that `is_excluded` does not exclude.
fn other_fields(
    fields: &Map<String, Value>,
    is_excluded: impl Fn(&str) -> bool,
) -> impl Iterator<Item = (&String, &Value)> {
    fields.iter().filter(move |(key, value)| {
        let has_content = match value {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(values) => !values.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            Value::Bool(_) | Value::Number(_) => true,
        };
        has_content && !is_excluded(key)
    })
}

fn render_result_value(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(blocks) if !blocks.is_empty() => {
            let texts: Option<Vec<String>> = blocks.iter().map(render_result_value).collect();
            texts.map(|texts| texts.join("\n"))
        }
        Value::Object(fields) => render_result_fields(fields),
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn render_result_fields(fields: &Map<String, Value>) -> Option<String> {
    let main = RESULT_TEXT_KEYS.into_iter().find_map(|key| {
        let text = render_result_value(fields.get(key)?)?;
        Some((key, text))
    });
    let diffs = fields.get("diffs").and_then(Value::as_array);
    if main.is_none() && diffs.is_none() {
        return None;
    }
    let (main, text) = main.unzip();
    let mut parts: Vec<String> = text.into_iter().filter(|text| !text.is_empty()).collect();
    for diff in diffs.into_iter().flatten() {
        let text = |key: &str| diff[key].as_str().unwrap_or_default();
        parts.push(format!("{}\n{}", text("path"), text("patch")));
    }
    // `content` repeats for the screen what another field has for the model, and `type` only states that a block is
    // text.
    let is_excluded = |key: &str| {
        Some(key) == main || key == "diffs" || key == "type" || (key == "content" && main.is_some())
    };
    let remaining_fields: Vec<String> = other_fields(fields, is_excluded)
        .map(|(key, value)| match value {
            Value::String(text) => format!("{key}: {text}"),
            json_value => format!("{key}: {json_value}"),
        })
        .collect();
    if !remaining_fields.is_empty() {
        parts.push(format!("({})", remaining_fields.join(", ")));
    }
    Some(parts.join("\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_described_by_its_name_and_main_argument() {
        let long = "x".repeat(1_000);
        let cases = [
            ("Bash", json!({"command": "ls"}), "Bash: ls"),
            (
                "Bash",
                json!({"command": "ls", "description": "look", "timeout": 5}),
                "Bash: ls; description: look; timeout: 5",
            ),
            ("shell", json!({"command": ["ls", "-l"]}), "shell: ls -l"),
            (
                "Grep",
                json!({"path": "src", "pattern": "TODO", "glob": null}),
                "Grep: TODO; path: src",
            ),
            (
                "Write",
                json!({"file_path": "/p/a", "content": long}),
                "Write: /p/a; content (1000 bytes)",
            ),
            (
                "Edit",
                json!({"file_path": "/p/a", "old_string": "a\nb", "new_string": ""}),
                "Edit: /p/a; old_string (3 bytes)",
            ),
            // An agent that includes the argument in the name, and an agent that derives the name from the argument.
            (
                "Read notes.txt",
                json!({"path": "notes.txt"}),
                "Read notes.txt",
            ),
            (
                "touch x",
                json!({"command": "/bin/bash -lc 'touch x'", "cwd": "/p"}),
                "/bin/bash -lc 'touch x'; cwd: /p",
            ),
            (
                "edit a",
                json!({"changes": [{"path": "/p/a", "kind": "add"}]}),
                "edit a; changes: /p/a",
            ),
            (
                "ask",
                json!({"x": {"y": [1, {"z": 2}]}}),
                "ask; x (17 bytes)",
            ),
            (
                "apply_patch",
                json!("*** Begin Patch"),
                "apply_patch: *** Begin Patch",
            ),
            ("now", json!({}), "now"),
            ("now", json!(null), "now"),
            ("sum", json!([1, 2]), "sum: [1,2]"),
        ];
        for (name, args, expected) in cases {
            let case = format!("{name} {args}");
            assert_eq!(
                describe_tool_call(name, &Json::from(args)),
                expected,
                "{case}"
            );
        }
    }

    #[test]
    fn a_result_is_described_by_its_text_and_other_fields() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let diff = json!({"path": "/p/a", "patch": "@@ -1 +1 @@\n-a\n+b"});
        let cases = [
            (json!("a\nb"), "a\nb"),
            (json!([text("a"), text("b")]), "a\nb"),
            (json!([{"type": "content", "content": text("a")}]), "a"),
            (json!({"output": "a"}), "a"),
            (json!({"error": "no"}), "no"),
            (json!({"output": "a", "exit_code": 1}), "a\n(exit_code: 1)"),
            (json!({"output": "", "exit_code": 1}), "(exit_code: 1)"),
            (
                json!({"output": "done", "diffs": [diff]}),
                "done\n/p/a\n@@ -1 +1 @@\n-a\n+b",
            ),
            (
                json!({"output": null, "diffs": [diff]}),
                "/p/a\n@@ -1 +1 @@\n-a\n+b",
            ),
            (
                json!({"content": [{"type": "content", "content": text("shown")}], "output": {"output": "a"}}),
                "a",
            ),
            (
                json!({"content": [text("a")], "structuredContent": {"n": 1}, "_meta": null}),
                "a\n(structuredContent: {\"n\":1})",
            ),
            (
                json!({"content": [text("a")], "output": {"n": 1}}),
                "a\n(output: {\"n\":1})",
            ),
            // A response without text is rendered as JSON.
            (json!({"code": 1}), r#"{"code":1}"#),
            (json!([1]), "[1]"),
            (json!([]), "[]"),
            (json!(null), "null"),
        ];
        for (result, expected) in cases {
            let case = result.to_string();
            assert_eq!(
                describe_tool_result(&Json::from(result)),
                expected,
                "{case}"
            );
        }
        let multi_line = Json::parse("{\"code\":\n1}").unwrap();
        assert_eq!(describe_tool_result(&multi_line), r#"{"code":1}"#);
    }
}
