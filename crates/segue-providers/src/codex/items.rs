//! Conversion of the items of a Codex turn to tool calls.
//!
//! `app-server` and `exec` report the same items in two spellings; this module reads both.

use segue_core::json::Json;
use segue_core::session::{Diff, ToolCall, ToolStatus};
use serde_json::{Value, json};

/// Converts an item to a tool call; `None` if the item is not one. `is_completed` is needed because not every item
/// contains its status.
pub(crate) fn parse_tool_call(item: &Value, is_completed: bool) -> Option<ToolCall> {
    let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
    let (name, kind, args, output) = match item_type(item) {
        "commandExecution" | "command_execution" => (
            strip_shell(&text("command")),
            "execute",
            json!({"command": item["command"], "cwd": item["cwd"]}),
            Some(command_output(item)),
        ),
        "fileChange" | "file_change" => (
            edit_title(item),
            "edit",
            json!({"changes": summarise_changes(item)}),
            None,
        ),
        "mcpToolCall" | "mcp_tool_call" => (
            format!("{}.{}", text("server"), text("tool")),
            "other",
            item["arguments"].clone(),
            [&item["result"], &item["error"]]
                .into_iter()
                .find(|value| !value.is_null())
                .cloned(),
        ),
        "dynamicToolCall" => (
            text("tool"),
            "other",
            item["arguments"].clone(),
            Some(item["contentItems"].clone()),
        ),
        "collabAgentToolCall" | "collab_tool_call" => (
            text("tool"),
            "other",
            json!({"prompt": item["prompt"]}),
            None,
        ),
        "webSearch" | "web_search" => (
            format!("web search: {}", text("query")),
            "fetch",
            json!({"query": item["query"], "action": item["action"]}),
            Some(item["results"].clone()),
        ),
        "imageView" => (
            format!("view {}", text("path")),
            "read",
            json!({"path": item["path"]}),
            None,
        ),
        "imageGeneration" => (
            "generate an image".to_owned(),
            "other",
            json!({"prompt": item["revisedPrompt"]}),
            Some(item["savedPath"].clone()),
        ),
        _ => return None,
    };
    let status = tool_status(item, is_completed);
    Some(ToolCall {
        id: text("id"),
        name,
        kind: kind.to_owned(),
        args: args.into(),
        status,
        output: status
            .has_ended()
            .then(|| output.filter(|output| !output.is_null()))
            .flatten()
            .map(Json::from),
        diffs: collect_diffs(item),
    })
}

/// Returns the type of an item.
pub(crate) fn item_type(item: &Value) -> &str {
    item["type"].as_str().unwrap_or_default()
}

fn tool_status(item: &Value, is_completed: bool) -> ToolStatus {
    match item["status"].as_str() {
        Some("failed" | "declined" | "interrupted") => ToolStatus::Failed,
        Some(_) | None if is_completed => ToolStatus::Completed,
        Some(_) | None => ToolStatus::InProgress,
    }
}

/// Returns the output of a command, with the exit code if it is not 0.
fn command_output(item: &Value) -> Value {
    if item["status"] == "declined" {
        return "declined".into();
    }
    let either = |camel: &str, snake: &str| match &item[camel] {
        Value::Null => item[snake].clone(),
        value => value.clone(),
    };
    let printed = either("aggregatedOutput", "aggregated_output");
    let printed = printed.as_str().unwrap_or_default();
    match either("exitCode", "exit_code").as_i64() {
        Some(0) | None => printed.into(),
        Some(code) => json!({"output": printed, "exit_code": code}),
    }
}

/// Returns a command without the shell that Codex wraps around it: `/bin/bash -lc 'touch x'`.
pub(crate) fn strip_shell(command: &str) -> String {
    let inner = command
        .split_once(" -lc ")
        .filter(|(shell, _)| !shell.contains(' '))
        .map(|(_, inner)| inner.trim());
    let inner = inner.map(|inner| {
        let unquoted = inner
            .strip_prefix('\'')
            .and_then(|inner| inner.strip_suffix('\''));
        // A script that is quoted in several segments stays unchanged.
        unquoted
            .filter(|unquoted| !unquoted.contains('\''))
            .unwrap_or(inner)
    });
    inner.unwrap_or(command).to_owned()
}

fn edit_title(item: &Value) -> String {
    let changes = item["changes"].as_array().into_iter().flatten();
    let names: Vec<&str> = changes
        .filter_map(|change| change["path"].as_str())
        .map(|path| path.rsplit('/').next().unwrap_or(path))
        .collect();
    format!("edit {}", names.join(", "))
}

fn summarise_changes(item: &Value) -> Vec<Value> {
    let changes = item["changes"].as_array().into_iter().flatten();
    changes
        .map(|change| json!({"path": change["path"], "kind": change_kind(change)}))
        .collect()
}

/// Returns the kind of a change: `{"type": "add"}` from `app-server`, `"add"` from `exec`.
fn change_kind(change: &Value) -> &str {
    let kind = &change["kind"];
    kind.as_str()
        .or_else(|| kind["type"].as_str())
        .unwrap_or_default()
}

fn collect_diffs(item: &Value) -> Vec<Diff> {
    let changes = item["changes"].as_array().into_iter().flatten();
    changes
        .filter_map(|change| {
            let text = change["diff"].as_str()?;
            Some(Diff {
                path: change["path"].as_str()?.to_owned(),
                patch: match change_kind(change) {
                    "add" => render_full_file_diff(text, '+'),
                    "delete" => render_full_file_diff(text, '-'),
                    _ => text.to_owned(),
                },
            })
        })
        .collect()
}

/// Returns the diff of a created or deleted file, for which Codex sends only the text.
fn render_full_file_diff(text: &str, sign: char) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("{sign}{line}\n")).collect();
    let range = match lines.len() {
        0 => return String::new(),
        count => format!("1,{count}"),
    };
    let header = match sign {
        '+' => format!("@@ -0,0 +{range} @@\n"),
        _ => format!("@@ -{range} +0,0 @@\n"),
    };
    header + &lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_parsed_in_both_spellings() {
        let camel = json!({"type": "commandExecution", "id": "c1", "command": "/bin/bash -lc 'touch a b'",
            "cwd": "/p", "status": "completed", "aggregatedOutput": "hi\n", "exitCode": 0});
        let snake = json!({"type": "command_execution", "id": "c1", "command": "/bin/bash -lc 'touch a b'",
            "cwd": "/p", "status": "completed", "aggregated_output": "hi\n", "exit_code": 0});
        let call = parse_tool_call(&camel, true).unwrap();
        assert_eq!(parse_tool_call(&snake, true).as_ref(), Some(&call));
        assert_eq!(
            (call.name.as_str(), call.kind.as_str()),
            ("touch a b", "execute")
        );
        assert_eq!(call.output, Some(Json::string("hi\n")));
    }

    #[test]
    fn a_command_reports_its_status_and_output() {
        let cases = [
            (
                "completed",
                Some(0),
                ToolStatus::Completed,
                Some(json!("out")),
            ),
            (
                "failed",
                Some(2),
                ToolStatus::Failed,
                Some(json!({"output": "out", "exit_code": 2})),
            ),
            (
                "declined",
                None,
                ToolStatus::Failed,
                Some(json!("declined")),
            ),
            ("inProgress", None, ToolStatus::InProgress, None),
        ];
        for (status, code, expected, output) in cases {
            let item = json!({"type": "commandExecution", "id": "c", "command": "x",
                "status": status, "aggregatedOutput": "out", "exitCode": code});
            let call = parse_tool_call(&item, status != "inProgress").unwrap();
            assert_eq!(call.status, expected, "{status}");
            assert_eq!(call.output, output.map(Json::from), "{status}");
        }
    }

    #[test]
    fn the_shell_around_a_command_is_removed() {
        let cases = [
            ("/bin/bash -lc 'touch a'", "touch a"),
            ("/bin/zsh -lc ls", "ls"),
            (r#"/bin/bash -lc "echo 'a'""#, r#""echo 'a'""#),
            (r"/bin/bash -lc 'a'\''b'", r"'a'\''b'"),
            ("touch a", "touch a"),
            ("my tool -lc x", "my tool -lc x"),
        ];
        for (command, expected) in cases {
            assert_eq!(strip_shell(command), expected);
        }
    }

    #[test]
    fn changed_files_are_converted_to_diffs() {
        let item = json!({"type": "fileChange", "id": "f", "status": "inProgress", "changes": [
            {"path": "/p/new.txt", "kind": {"type": "add"}, "diff": "a\nb\n"},
            {"path": "/p/old.txt", "kind": {"type": "delete"}, "diff": "c\n"},
            {"path": "/p/mod.txt", "kind": {"type": "update"}, "diff": "@@ -1 +1 @@\n-x\n+y\n"},
            {"path": "/p/empty", "kind": {"type": "add"}, "diff": ""},
        ]});
        let call = parse_tool_call(&item, false).unwrap();
        assert_eq!(call.name, "edit new.txt, old.txt, mod.txt, empty");
        assert_eq!(call.kind, "edit");
        let patches: Vec<&str> = call.diffs.iter().map(|diff| diff.patch.as_str()).collect();
        assert_eq!(
            patches,
            [
                "@@ -0,0 +1,2 @@\n+a\n+b\n",
                "@@ -1,1 +0,0 @@\n-c\n",
                "@@ -1 +1 @@\n-x\n+y\n",
                "",
            ]
        );
    }

    #[test]
    fn other_tool_calls_include_their_result() {
        let call = parse_tool_call(
            &json!({"type": "mcpToolCall", "id": "m", "server": "lab", "tool": "ping",
            "arguments": {"x": 1}, "status": "failed", "result": null, "error": {"message": "no"}}),
            true,
        )
        .unwrap();
        assert_eq!(call.name, "lab.ping");
        assert_eq!(call.args.as_str(), r#"{"x":1}"#);
        assert_eq!(call.output.unwrap().as_str(), r#"{"message":"no"}"#);
        assert_eq!(
            parse_tool_call(
                &json!({"type": "agentMessage", "id": "a", "text": "hi"}),
                true
            ),
            None
        );
    }
}
