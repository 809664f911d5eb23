//! Permission requests of Claude Code, and the conversion of their answers.

use segue_core::agent::{PermissionAnswer, PermissionKind, PermissionOption, PermissionRequest};
use segue_core::session::ToolCall;
use serde_json::{Value, json};

/// A permission request of Claude Code, with the data that its answer needs.
#[derive(Debug)]
pub(super) struct ClaudePermissionRequest {
    /// Request in segue's format.
    pub(super) request: PermissionRequest,
    answer_context: ClaudeAnswerContext,
}

/// Data that the answer needs.
#[derive(Debug)]
pub(super) struct ClaudeAnswerContext {
    request_id: String,
    tool_input: Value,
    /// Permission updates that stop Claude Code from repeating this request.
    permission_updates: Vec<Value>,
}

const ALLOW_OPTION_ID: &str = "allow";
const ALLOW_ALWAYS_OPTION_ID: &str = "allow_always";
const REJECT_OPTION_ID: &str = "reject";

impl ClaudePermissionRequest {
    /// Converts a `can_use_tool` request about a call.
    pub(super) fn new(id: &str, request: &Value, call: ToolCall) -> Self {
        let permission_updates = select_permission_updates(&request["permission_suggestions"]);
        let option = |id: &str, name: String, kind| PermissionOption {
            id: id.to_owned(),
            name,
            kind,
        };
        let mut options = vec![option(
            ALLOW_OPTION_ID,
            "Allow".to_owned(),
            PermissionKind::AllowOnce,
        )];
        if !permission_updates.is_empty() {
            let name = format!(
                "Allow, and do not ask again for {}",
                format_suggestions(&permission_updates)
            );
            options.push(option(
                ALLOW_ALWAYS_OPTION_ID,
                name,
                PermissionKind::AllowAlways,
            ));
        }
        options.push(option(
            REJECT_OPTION_ID,
            "Deny".to_owned(),
            PermissionKind::RejectOnce,
        ));
        Self {
            request: PermissionRequest { call, options },
            answer_context: ClaudeAnswerContext {
                request_id: id.to_owned(),
                tool_input: request["input"].clone(),
                permission_updates,
            },
        }
    }

    pub(super) fn into_parts(self) -> (PermissionRequest, ClaudeAnswerContext) {
        (self.request, self.answer_context)
    }
}

impl ClaudeAnswerContext {
    /// Returns the line that answers the request.
    pub(super) fn into_response_line(self, answer: &PermissionAnswer) -> Value {
        let option_id = match answer {
            PermissionAnswer::Selected(id) => id.as_str(),
            PermissionAnswer::Cancelled => "",
        };
        let response = match option_id {
            ALLOW_OPTION_ID => json!({"behavior": "allow", "updatedInput": self.tool_input}),
            ALLOW_ALWAYS_OPTION_ID => json!({
                "behavior": "allow", "updatedInput": self.tool_input, "updatedPermissions": self.permission_updates,
            }),
            REJECT_OPTION_ID => {
                json!({"behavior": "deny", "message": "Permission for this tool call was denied."})
            }
            _ => json!({
                "behavior": "deny", "message": "The turn was cancelled.", "interrupt": true,
            }),
        };
        build_control_response(&self.request_id, "response", &response)
    }
}

/// Returns the line that rejects an unsupported request, so that Claude Code does not wait for an answer.
pub(super) fn build_unsupported_response(id: &str, subtype: &str) -> Value {
    build_control_response(
        id,
        "error",
        &json!(format!("segue does not support `{subtype}`")),
    )
}

fn build_control_response(id: &str, member: &str, content: &Value) -> Value {
    let subtype = if member == "error" {
        "error"
    } else {
        "success"
    };
    json!({
        "type": "control_response",
        "response": {"subtype": subtype, "request_id": id, member: content},
    })
}

/// Returns the narrowest of Claude Code's suggestions that prevents a repeated request: its rules if it suggests any,
/// else all suggestions. They apply to the session only, because Claude Code stores permanent ones in the project's or
/// the user's files.
fn select_permission_updates(suggestions: &Value) -> Vec<Value> {
    let mut updates: Vec<Value> = suggestions.as_array().cloned().unwrap_or_default();
    if updates.iter().any(is_allow_rule) {
        updates.retain(is_allow_rule);
    }
    for suggestion in &mut updates {
        suggestion["destination"] = "session".into();
    }
    updates
}

fn is_allow_rule(suggestion: &Value) -> bool {
    suggestion["type"] == "addRules" && suggestion["behavior"] == "allow"
}

/// Describes to the user what the suggestions allow.
fn format_suggestions(suggestions: &[Value]) -> String {
    let mut descriptions: Vec<String> = Vec::new();
    for suggestion in suggestions {
        for rule in suggestion["rules"].as_array().into_iter().flatten() {
            let tool = rule["toolName"].as_str().unwrap_or("this tool");
            descriptions.push(match rule["ruleContent"].as_str() {
                Some(content) => format!("{tool}({content})"),
                None => tool.to_owned(),
            });
        }
        for directory in suggestion["directories"].as_array().into_iter().flatten() {
            descriptions.extend(directory.as_str().map(str::to_owned));
        }
        match suggestion["mode"].as_str() {
            Some("acceptEdits") => descriptions.push("edits".to_owned()),
            Some(mode) => descriptions.push(format!("anything in {mode} mode")),
            None => {}
        }
    }
    if descriptions.is_empty() {
        return "the same request".to_owned();
    }
    descriptions.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::tool_calls::ClaudeToolCalls;

    fn build_request(suggestions: &Value) -> ClaudePermissionRequest {
        let input = json!({"command": "touch x"});
        let request = json!({
            "subtype": "can_use_tool", "tool_name": "Bash", "input": input,
            "permission_suggestions": suggestions, "tool_use_id": "t1",
        });
        let call = ClaudeToolCalls::default().announce("t1", "Bash", &input);
        ClaudePermissionRequest::new("r1", &request, call)
    }

    fn sample_suggestions() -> Value {
        json!([
            {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch x *"}], "behavior": "allow", "destination": "localSettings"},
            {"type": "addDirectories", "directories": ["/p"], "destination": "session"},
            {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
        ])
    }

    #[test]
    fn the_option_names_describe_their_effect() {
        let edits = json!([{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]);
        let cases = [
            (
                sample_suggestions(),
                Some("Allow, and do not ask again for Bash(touch x *)"),
            ),
            (edits, Some("Allow, and do not ask again for edits")),
            (json!([]), None),
            (Value::Null, None),
        ];
        for (suggestions, expected) in cases {
            let options = build_request(&suggestions).request.options;
            let always_option = options
                .iter()
                .find(|option| option.kind == PermissionKind::AllowAlways);
            assert_eq!(
                always_option.map(|option| option.name.as_str()),
                expected,
                "{suggestions}"
            );
        }
    }

    #[test]
    fn each_answer_becomes_a_control_response() {
        let input = json!({"command": "touch x"});
        let rule = json!({"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch x *"}], "behavior": "allow", "destination": "session"});
        let choose = |id: &str| PermissionAnswer::Selected(id.to_owned());
        let interrupt_response =
            json!({"behavior": "deny", "message": "The turn was cancelled.", "interrupt": true});
        let cases = [
            (
                choose("allow"),
                json!({"behavior": "allow", "updatedInput": input}),
            ),
            (
                choose("allow_always"),
                json!({"behavior": "allow", "updatedInput": input, "updatedPermissions": [rule]}),
            ),
            (
                choose("reject"),
                json!({"behavior": "deny", "message": "Permission for this tool call was denied."}),
            ),
            (PermissionAnswer::Cancelled, interrupt_response.clone()),
            (choose("nonsense"), interrupt_response),
        ];
        for (answer, expected) in cases {
            let (_, answer_context) = build_request(&sample_suggestions()).into_parts();
            let line = answer_context.into_response_line(&answer);
            assert_eq!(line["response"]["request_id"], "r1");
            assert_eq!(line["response"]["subtype"], "success");
            assert_eq!(line["response"]["response"], expected, "{answer:?}");
        }
    }
}
