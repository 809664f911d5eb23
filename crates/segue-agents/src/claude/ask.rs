//! Permission requests of Claude Code, and the conversion of their answers.

use segue_core::agent::{PermissionAnswer, PermissionKind, PermissionOption, PermissionRequest};
use segue_core::session::ToolCall;
use serde_json::{Value, json};

/// A permission request of Claude Code, with the data that its answer needs.
#[derive(Debug)]
pub(super) struct Asked {
    /// Request in segue's format.
    pub(super) request: PermissionRequest,
    answer: Answering,
}

/// Data that the answer needs.
#[derive(Debug)]
pub(super) struct Answering {
    id: String,
    input: Value,
    /// Permission updates that stop Claude Code from repeating this request.
    rules: Vec<Value>,
}

const ALLOW: &str = "allow";
const ALWAYS: &str = "allow_always";
const REJECT: &str = "reject";

impl Asked {
    /// Converts a `can_use_tool` request about a call.
    pub(super) fn new(id: &str, question: &Value, call: ToolCall) -> Self {
        let rules = rules(&question["permission_suggestions"]);
        let option = |id: &str, name: String, kind| PermissionOption {
            id: id.to_owned(),
            name,
            kind,
        };
        let mut options = vec![option(ALLOW, "Allow".to_owned(), PermissionKind::AllowOnce)];
        if !rules.is_empty() {
            let name = format!("Allow, and do not ask again for {}", described(&rules));
            options.push(option(ALWAYS, name, PermissionKind::AllowAlways));
        }
        options.push(option(
            REJECT,
            "Refuse".to_owned(),
            PermissionKind::RejectOnce,
        ));
        Self {
            request: PermissionRequest { call, options },
            answer: Answering {
                id: id.to_owned(),
                input: question["input"].clone(),
                rules,
            },
        }
    }

    pub(super) fn into_parts(self) -> (PermissionRequest, Answering) {
        (self.request, self.answer)
    }
}

impl Answering {
    /// Returns the line that answers the request.
    pub(super) fn line(self, answer: &PermissionAnswer) -> Value {
        let chosen = match answer {
            PermissionAnswer::Choose(id) => id.as_str(),
            PermissionAnswer::Cancelled => "",
        };
        let response = match chosen {
            ALLOW => json!({"behavior": "allow", "updatedInput": self.input}),
            ALWAYS => json!({
                "behavior": "allow", "updatedInput": self.input, "updatedPermissions": self.rules,
            }),
            REJECT => json!({"behavior": "deny", "message": "Permission to do this was refused."}),
            _ => json!({
                "behavior": "deny", "message": "The turn is being stopped.", "interrupt": true,
            }),
        };
        answer_to(&self.id, "response", &response)
    }
}

/// Returns the line that rejects an unsupported request, so that Claude Code does not wait for an answer.
pub(super) fn not_offered(id: &str, subtype: &str) -> Value {
    answer_to(
        id,
        "error",
        &json!(format!("segue does not offer {subtype}")),
    )
}

fn answer_to(id: &str, member: &str, content: &Value) -> Value {
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
fn rules(suggestions: &Value) -> Vec<Value> {
    let mut all: Vec<Value> = suggestions.as_array().cloned().unwrap_or_default();
    if all.iter().any(is_rule) {
        all.retain(is_rule);
    }
    for suggestion in &mut all {
        suggestion["destination"] = "session".into();
    }
    all
}

fn is_rule(suggestion: &Value) -> bool {
    suggestion["type"] == "addRules" && suggestion["behavior"] == "allow"
}

/// Describes to the user what the suggestions allow.
fn described(suggestions: &[Value]) -> String {
    let mut words: Vec<String> = Vec::new();
    for suggestion in suggestions {
        for rule in suggestion["rules"].as_array().into_iter().flatten() {
            let tool = rule["toolName"].as_str().unwrap_or("this tool");
            words.push(match rule["ruleContent"].as_str() {
                Some(content) => format!("{tool}({content})"),
                None => tool.to_owned(),
            });
        }
        for directory in suggestion["directories"].as_array().into_iter().flatten() {
            words.extend(directory.as_str().map(str::to_owned));
        }
        match suggestion["mode"].as_str() {
            Some("acceptEdits") => words.push("edits".to_owned()),
            Some(mode) => words.push(format!("anything in mode {mode}")),
            None => {}
        }
    }
    if words.is_empty() {
        return "the same".to_owned();
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::tools::Calls;

    fn asked(suggestions: &Value) -> Asked {
        let input = json!({"command": "touch x"});
        let question = json!({
            "subtype": "can_use_tool", "tool_name": "Bash", "input": input,
            "permission_suggestions": suggestions, "tool_use_id": "t1",
        });
        let call = Calls::default().announced("t1", "Bash", &input);
        Asked::new("r1", &question, call)
    }

    fn usual() -> Value {
        json!([
            {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch x *"}], "behavior": "allow", "destination": "localSettings"},
            {"type": "addDirectories", "directories": ["/p"], "destination": "session"},
            {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
        ])
    }

    #[test]
    fn the_options_say_what_they_do() {
        let edits = json!([{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]);
        let cases = [
            (
                usual(),
                Some("Allow, and do not ask again for Bash(touch x *)"),
            ),
            (edits, Some("Allow, and do not ask again for edits")),
            (json!([]), None),
            (Value::Null, None),
        ];
        for (suggestions, expected) in cases {
            let options = asked(&suggestions).request.options;
            let always = options
                .iter()
                .find(|option| option.kind == PermissionKind::AllowAlways);
            assert_eq!(
                always.map(|option| option.name.as_str()),
                expected,
                "{suggestions}"
            );
        }
    }

    #[test]
    fn each_answer_is_put_into_its_words() {
        let input = json!({"command": "touch x"});
        let rule = json!({"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch x *"}], "behavior": "allow", "destination": "session"});
        let choose = |id: &str| PermissionAnswer::Choose(id.to_owned());
        let stopping =
            json!({"behavior": "deny", "message": "The turn is being stopped.", "interrupt": true});
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
                json!({"behavior": "deny", "message": "Permission to do this was refused."}),
            ),
            (PermissionAnswer::Cancelled, stopping.clone()),
            (choose("nonsense"), stopping),
        ];
        for (answer, expected) in cases {
            let (_, answering) = asked(&usual()).into_parts();
            let line = answering.line(&answer);
            assert_eq!(line["response"]["request_id"], "r1");
            assert_eq!(line["response"]["subtype"], "success");
            assert_eq!(line["response"]["response"], expected, "{answer:?}");
        }
    }
}
