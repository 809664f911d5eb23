//! Conversion of Claude Code's tool calls: their kinds, file changes and plans.

use std::collections::HashMap;
use std::fmt::Write;

use segue_core::agent::RoleDescription;
use segue_core::json::Json;
use segue_core::session::{Diff, PlanStep, ToolCall, ToolStatus};
use serde_json::Value;

use crate::wire::parse_plan_steps;

/// Tool calls of one turn, with the data received so far.
#[derive(Debug, Default)]
pub(super) struct ClaudeToolCalls(HashMap<String, ToolCall>);

impl ClaudeToolCalls {
    /// Records an announced call, whose arguments may still be missing.
    pub(super) fn announce(&mut self, id: &str, name: &str, args: &Value) -> ToolCall {
        let call = self.entry(id);
        name.clone_into(&mut call.name);
        tool_kind(name).clone_into(&mut call.kind);
        call.args = Json::from(args.clone());
        call.clone()
    }

    /// Marks a call as running; `None` if the call is unknown or has ended.
    pub(super) fn mark_running(&mut self, id: &str) -> Option<ToolCall> {
        let call = self.0.get_mut(id).filter(|call| !call.status.has_ended())?;
        call.status = ToolStatus::InProgress;
        Some(call.clone())
    }

    /// Marks a call as ended. `details` contains what Claude Code records about the result but does not send to the
    /// model.
    pub(super) fn finish(&mut self, result: &Value, details: &Value) -> Option<ToolCall> {
        let call = self.entry(result["tool_use_id"].as_str()?);
        call.status = if result["is_error"] == true {
            ToolStatus::Failed
        } else {
            ToolStatus::Completed
        };
        call.output = Some(match &result["content"] {
            Value::Null => Json::string(""),
            content => Json::from(content.clone()),
        });
        call.diffs = parse_diff(details).into_iter().collect();
        Some(call.clone())
    }

    fn entry(&mut self, id: &str) -> &mut ToolCall {
        self.0.entry(id.to_owned()).or_insert_with(|| ToolCall {
            id: id.to_owned(),
            name: "tool".to_owned(),
            kind: "other".to_owned(),
            args: Json::empty_object(),
            status: ToolStatus::Pending,
            output: None,
            diffs: Vec::new(),
        })
    }
}

/// Known tools of Claude Code that change files, run commands or use the network.
const TOOLS_WITH_SIDE_EFFECTS: [&str; 9] = [
    "Bash",
    "Edit",
    "KillShell",
    "Monitor",
    "MultiEdit",
    "NotebookEdit",
    "WebFetch",
    "WebSearch",
    "Write",
];

/// Returns the tools that the role forbids, in the format of `--disallowedTools`; `None` if it forbids none. Needed
/// because Claude Code runs a tool that its own settings allow without a permission request. It sends no request for a
/// denied tool.
pub(super) fn disallowed_tools(role: &RoleDescription) -> Option<String> {
    let disallowed = TOOLS_WITH_SIDE_EFFECTS.iter().copied();
    let disallowed = disallowed.filter(|name| !role.can_use_tool(name, tool_kind(name)));
    let disallowed: Vec<&str> = disallowed.collect();
    (!disallowed.is_empty()).then(|| disallowed.join(","))
}

/// Returns the kind of a tool.
fn tool_kind(name: &str) -> &'static str {
    match name {
        "Read" | "NotebookRead" | "BashOutput" | "TaskOutput" | "ReadMcpResource" => "read",
        "Glob" | "Grep" | "LS" | "ToolSearch" => "search",
        "Edit" | "Write" | "MultiEdit" | "NotebookEdit" => "edit",
        "Bash" | "KillShell" | "Monitor" => "execute",
        "WebFetch" | "WebSearch" => "fetch",
        "Task" | "Agent" | "TaskCreate" | "TaskUpdate" | "TaskList" | "TaskGet" | PLAN_TOOL => {
            "think"
        }
        "EnterPlanMode" | "ExitPlanMode" => "switch_mode",
        _ => "other",
    }
}

const PLAN_TOOL: &str = "TodoWrite";

/// Returns the plan in a call; `None` unless the tool is the planner.
pub(super) fn parse_plan(name: &str, args: &Value) -> Option<Vec<PlanStep>> {
    let steps = &args["todos"];
    (name == PLAN_TOOL && steps.is_array()).then(|| parse_plan_steps(steps, "content"))
}

/// Returns the file change in the details of a result.
fn parse_diff(details: &Value) -> Option<Diff> {
    let file = details["filePath"].as_str()?;
    let hunks = details["structuredPatch"].as_array()?;
    let patch = match details["content"].as_str() {
        // Claude Code reports a new file without a patch.
        Some(content) if hunks.is_empty() && details["type"] == "create" => {
            render_new_file_hunk(content)
        }
        _ => hunks.iter().map(render_hunk).collect(),
    };
    (!patch.is_empty()).then_some(Diff {
        path: file.to_owned(),
        patch,
    })
}

fn render_hunk(hunk: &Value) -> String {
    let number = |name: &str| hunk[name].as_u64().unwrap_or(0);
    let mut text = format!(
        "@@ -{},{} +{},{} @@\n",
        number("oldStart"),
        number("oldLines"),
        number("newStart"),
        number("newLines")
    );
    for line in hunk["lines"].as_array().into_iter().flatten() {
        text += line.as_str().unwrap_or_default();
        text.push('\n');
    }
    text
}

fn render_new_file_hunk(content: &str) -> String {
    let line_count = content.lines().count();
    let mut text = String::new();
    if line_count > 0 {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "@@ -0,0 +1,{line_count} @@");
    }
    for line in content.lines() {
        let _ = writeln!(text, "+{line}");
    }
    if line_count > 0 && !content.ends_with('\n') {
        text += "\\ No newline at end of file\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use segue_core::session::PlanStatus;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_tool_has_a_kind() {
        let cases = [
            ("Read", "read"),
            ("Grep", "search"),
            ("Write", "edit"),
            ("Bash", "execute"),
            ("WebFetch", "fetch"),
            ("Agent", "think"),
            ("TodoWrite", "think"),
            ("TaskCreate", "think"),
            ("TaskUpdate", "think"),
            ("ExitPlanMode", "switch_mode"),
            ("mcp__segue__read", "other"),
            ("SomethingNew", "other"),
        ];
        for (name, expected) in cases {
            assert_eq!(tool_kind(name), expected, "{name}");
        }
    }

    #[test]
    fn file_changes_are_rendered_as_unified_diffs() {
        let edited = json!({
            "filePath": "/p/f.txt", "oldString": "b", "newString": "B", "originalFile": "a\nb\nc\n",
            "structuredPatch": [{"oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 3, "lines": [" a", "-b", "+B", " c"]}],
        });
        let created = |content: &str| json!({"type": "create", "filePath": "/p/f.txt", "content": content, "structuredPatch": []});
        let cases = [
            (edited, Some("@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n")),
            (created("a\nb\n"), Some("@@ -0,0 +1,2 @@\n+a\n+b\n")),
            (
                created("a"),
                Some("@@ -0,0 +1,1 @@\n+a\n\\ No newline at end of file\n"),
            ),
            (created(""), None),
            (
                json!({"type": "text", "file": {"filePath": "/p/f.txt", "content": "a"}}),
                None,
            ),
            (json!("Error: no"), None),
            (json!({"stdout": "x"}), None),
        ];
        for (details, expected) in cases {
            let patch = parse_diff(&details).map(|diff| diff.patch);
            assert_eq!(patch.as_deref(), expected, "{details}");
        }
    }

    #[test]
    fn every_update_contains_the_complete_call() {
        let mut calls = ClaudeToolCalls::default();
        let call = calls.announce("t1", "Bash", &json!({"command": "ls"}));
        assert_eq!(
            (call.kind.as_str(), call.status),
            ("execute", ToolStatus::Pending)
        );
        let status = calls.mark_running("t1").map(|call| call.status);
        assert_eq!(status, Some(ToolStatus::InProgress));
        let result =
            json!({"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": true});
        let call = calls.finish(&result, &Value::Null).unwrap();
        assert_eq!(call.status, ToolStatus::Failed);
        assert_eq!(call.args.as_str(), r#"{"command":"ls"}"#);
        assert_eq!(call.output, Some(Json::string("no")));
        assert_eq!(
            calls.mark_running("t1"),
            None,
            "an ended call is not running"
        );
        assert_eq!(calls.mark_running("t2"), None);
    }

    #[test]
    fn a_todo_list_is_a_plan() {
        let todos = json!({"todos": [
            {"content": "look", "status": "completed", "activeForm": "looking"},
            {"content": "do", "status": "in_progress", "activeForm": "doing"},
            {"content": "report", "status": "pending"},
            {"nonsense": 1},
        ]});
        let step = |text: &str, status| PlanStep {
            text: text.to_owned(),
            status,
        };
        let expected = vec![
            step("look", PlanStatus::Completed),
            step("do", PlanStatus::InProgress),
            step("report", PlanStatus::Pending),
        ];
        assert_eq!(parse_plan("TodoWrite", &todos), Some(expected));
        assert_eq!(parse_plan("Other", &todos), None);
    }
}
