//! Requests of Codex to its client, and the format of their answers.

use segue_core::agent::{PermissionAnswer, PermissionKind, PermissionOption, PermissionRequest};
use segue_core::session::{ToolCall, ToolStatus};
use serde_json::{Map, Value, json};

use crate::codex::{items, reads};

/// A request of Codex.
#[derive(Debug, PartialEq)]
pub(super) enum Question {
    /// A permission request, with the format of its answer.
    May(PermissionRequest, Form),
    /// A request for input, which segue cannot provide, with the result that declines it.
    Nobody(Value),
    /// A request of an unknown kind.
    Unknown,
}

/// Format in which a permission is granted.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Form {
    /// Decision about a command or a change.
    Decision,
    /// Result of a form, which is how Codex requests permission for tools of MCP servers.
    Elicitation,
    /// Permissions that are granted.
    Grant(Value),
}

const ONCE: &str = "accept";
const ALWAYS: &str = "acceptForSession";
const NO: &str = "decline";

/// Classifies a request of Codex. `open` finds an open tool call that satisfies a predicate.
pub(super) fn question<'a>(
    method: &str,
    params: &Value,
    open: impl Fn(&dyn Fn(&ToolCall) -> bool) -> Option<&'a ToolCall>,
) -> Question {
    let id = params["itemId"].as_str().unwrap_or_default();
    let known = || open(&|call| call.id == id).cloned();
    match method {
        "item/commandExecution/requestApproval" => {
            Question::May(request(command(params, known())), Form::Decision)
        }
        "item/fileChange/requestApproval" => {
            let call = known().unwrap_or_else(|| bare(id, "edit files", "edit", params));
            Question::May(request(call), Form::Decision)
        }
        "item/permissions/requestApproval" => {
            let call = bare(id, "more permissions", "other", params);
            let form = Form::Grant(params["permissions"].clone());
            Question::May(request(call), form)
        }
        "mcpServer/elicitation/request" => elicitation(params, open),
        "item/tool/requestUserInput" => {
            let questions = params["questions"].as_array().into_iter().flatten();
            let none = questions
                .filter_map(|question| question["id"].as_str())
                .map(|id| (id.to_owned(), json!({"answers": []})))
                .collect::<Map<_, _>>();
            Question::Nobody(json!({ "answers": none }))
        }
        _ => Question::Unknown,
    }
}

/// Classifies an elicitation: an MCP server asks for input, or Codex asks whether a tool of the server may run. Only
/// the latter is a permission request. segue declines the former, because it cannot fill in forms.
fn elicitation<'a>(
    params: &Value,
    open: impl Fn(&dyn Fn(&ToolCall) -> bool) -> Option<&'a ToolCall>,
) -> Question {
    let meta = &params["_meta"];
    if meta["codex_approval_kind"] != "mcp_tool_call" {
        return Question::Nobody(json!({"action": "decline", "content": null}));
    }
    let server = format!("{}.", params["serverName"].as_str().unwrap_or_default());
    let args = |call: &ToolCall| serde_json::from_str::<Value>(call.args.as_str()).ok();
    let known = open(&|call| {
        call.name.starts_with(&server) && args(call).as_ref() == Some(&meta["tool_params"])
    });
    let call = known.cloned().unwrap_or_else(|| {
        let name = params["message"].as_str().unwrap_or("a tool");
        bare(&server, name, "other", &meta["tool_params"])
    });
    Question::May(request(call), Form::Elicitation)
}

fn command(params: &Value, known: Option<ToolCall>) -> ToolCall {
    let text = params["command"].as_str();
    let id = params["itemId"].as_str().unwrap_or_default();
    let mut call = known.unwrap_or_else(|| {
        let name = text.map_or_else(|| "a command".to_owned(), items::script);
        bare(id, &name, "execute", params)
    });
    // Codex requests network access for, or input to, a running command with the item of that command.
    let host = params["networkApprovalContext"]["host"].as_str();
    if let Some(host) = host {
        call.name = format!("reach {host}");
        "fetch".clone_into(&mut call.kind);
    } else if text.is_some_and(|text| only_reads(text, &params["commandActions"])) {
        "read".clone_into(&mut call.kind);
    }
    call
}

fn bare(id: &str, name: &str, kind: &str, args: &Value) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        kind: kind.to_owned(),
        args: args.clone().into(),
        status: ToolStatus::Pending,
        output: None,
        diffs: Vec::new(),
    }
}

/// Returns `true` if a command only reads and Codex finds no other command in it.
fn only_reads(command: &str, actions: &Value) -> bool {
    let script = items::script(command);
    let one = actions.as_array().is_some_and(|actions| {
        actions
            .iter()
            .all(|action| action["command"] == script.as_str())
    });
    one && reads::only_reads(&script)
}

fn request(mut call: ToolCall) -> PermissionRequest {
    call.status = ToolStatus::Pending;
    let option = |id: &str, name: &str, kind| PermissionOption {
        id: id.to_owned(),
        name: name.to_owned(),
        kind,
    };
    PermissionRequest {
        call,
        options: vec![
            option(ONCE, "Yes", PermissionKind::AllowOnce),
            option(
                ALWAYS,
                "Yes, for the rest of the conversation",
                PermissionKind::AllowAlways,
            ),
            option(NO, "No", PermissionKind::RejectOnce),
        ],
    }
}

/// Converts an answer to the format that Codex expects.
pub(super) fn answer(form: &Form, answer: &PermissionAnswer) -> Value {
    let chosen = match answer {
        PermissionAnswer::Choose(id) if [ONCE, ALWAYS].contains(&id.as_str()) => id,
        PermissionAnswer::Choose(_) => NO,
        PermissionAnswer::Cancelled => "cancel",
    };
    match (form, chosen) {
        (Form::Decision, decision) => json!({ "decision": decision }),
        (Form::Elicitation, ALWAYS) => {
            json!({"action": "accept", "content": null, "_meta": {"persist": "session"}})
        }
        (Form::Elicitation, action) => json!({"action": action, "content": null}),
        (Form::Grant(wanted), ONCE) => json!({"permissions": wanted, "scope": "turn"}),
        (Form::Grant(wanted), ALWAYS) => json!({"permissions": wanted, "scope": "session"}),
        (Form::Grant(_), _) => json!({"permissions": {}, "scope": "turn"}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, params: &Value, open: &[ToolCall]) -> Question {
        question(method, params, |wanted| {
            open.iter().find(|call| wanted(call))
        })
    }

    fn permission(question: Question) -> (PermissionRequest, Form) {
        match question {
            Question::May(request, form) => (request, form),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_command_that_only_reads_is_known_and_nothing_else_is() {
        // Command, action that Codex 0.166 reported for it, and expected result.
        let cases = [
            ("cat README.md", "cat README.md", true),
            ("head -n 3 README.md", "head -n 3 README.md", true),
            ("ls -la", "ls -la", true),
            ("grep -rn A .", "grep -rn A .", true),
            ("cat README.md | tee out", "cat README.md", false),
            ("ls | xargs touch", "ls", false),
            ("cd / && ls", "ls", false),
            ("find . -delete", "find . -delete", false),
            ("rg --pre touch A", "rg --pre touch A", false),
            ("git grep -O/bin/sh x", "git grep -O/bin/sh x", false),
            ("tree -o x", "tree -o x", false),
            ("awk 1 README.md", "awk 1 README.md", false),
            ("cat a > b", "cat a > b", false),
            ("cat $(touch x)", "cat $(touch x)", false),
            ("cat a\ntouch b", "cat a\ntouch b", false),
            ("touch made.txt", "touch made.txt", false),
        ];
        for (script, action, expected) in cases {
            let params = json!({"itemId": "c", "command": format!("/bin/bash -lc '{script}'"),
                "commandActions": [{"type": "read", "command": action}]});
            let (request, _) =
                permission(asked("item/commandExecution/requestApproval", &params, &[]));
            let kind = if expected { "read" } else { "execute" };
            assert_eq!(request.call.kind, kind, "{script}");
            assert_eq!(request.call.name, script);
        }
        assert!(!only_reads("ls", &Value::Null));
    }

    #[test]
    fn a_change_is_asked_for_with_what_is_known_of_it() {
        let item = json!({"type": "fileChange", "id": "f", "status": "inProgress",
            "changes": [{"path": "/p/a", "kind": {"type": "add"}, "diff": "x\n"}]});
        let open = [items::tool(&item, false).unwrap()];
        let (request, form) = permission(asked(
            "item/fileChange/requestApproval",
            &json!({"itemId": "f"}),
            &open,
        ));
        assert_eq!(request.call.diffs.len(), 1);
        assert_eq!(request.call.kind, "edit");
        assert_eq!(form, Form::Decision);
        let unknown = json!({"itemId": "g"});
        let (request, _) = permission(asked("item/fileChange/requestApproval", &unknown, &open));
        assert_eq!(
            (request.call.id.as_str(), request.call.kind.as_str()),
            ("g", "edit")
        );
    }

    #[test]
    fn tools_of_servers_are_asked_for_and_their_forms_are_not_filled_in() {
        let item = json!({"type": "mcpToolCall", "id": "m", "server": "lab", "tool": "ping",
            "arguments": {"x": "1"}, "status": "inProgress"});
        let open = [items::tool(&item, false).unwrap()];
        let mut params = json!({"serverName": "lab", "message": "Allow it?", "mode": "form",
            "_meta": {"codex_approval_kind": "mcp_tool_call", "tool_params": {"x": "1"}}});
        let (request, form) = permission(asked("mcpServer/elicitation/request", &params, &open));
        assert_eq!(request.call.id, "m");
        assert_eq!(form, Form::Elicitation);
        params["_meta"]["tool_params"] = json!({"x": "2"});
        let (request, _) = permission(asked("mcpServer/elicitation/request", &params, &open));
        assert_eq!(request.call.name, "Allow it?");
        params["_meta"] = Value::Null;
        let refused = Question::Nobody(json!({"action": "decline", "content": null}));
        assert_eq!(
            asked("mcpServer/elicitation/request", &params, &open),
            refused
        );
    }

    #[test]
    fn reaching_a_host_is_not_the_command_itself() {
        let params = json!({"itemId": "c", "command": "/bin/bash -lc 'cat x'",
            "commandActions": [{"command": "cat x"}], "networkApprovalContext": {"host": "example.org"}});
        let (request, _) = permission(asked("item/commandExecution/requestApproval", &params, &[]));
        assert_eq!(request.call.name, "reach example.org");
        assert_eq!(request.call.kind, "fetch");
    }

    #[test]
    fn questions_are_never_left_open() {
        let params = json!({"questions": [{"id": "q1"}, {"id": "q2"}]});
        let none = json!({"answers": {"q1": {"answers": []}, "q2": {"answers": []}}});
        assert_eq!(
            asked("item/tool/requestUserInput", &params, &[]),
            Question::Nobody(none)
        );
        assert_eq!(
            asked("attestation/generate", &params, &[]),
            Question::Unknown
        );
    }

    #[test]
    fn each_form_has_its_answers() {
        let wanted = json!({"network": {"enabled": true}});
        let grant = Form::Grant(wanted.clone());
        let chosen = |id: &str| PermissionAnswer::Choose(id.to_owned());
        let cases = [
            (Form::Decision, chosen(ONCE), json!({"decision": "accept"})),
            (
                Form::Decision,
                chosen(ALWAYS),
                json!({"decision": "acceptForSession"}),
            ),
            (Form::Decision, chosen(NO), json!({"decision": "decline"})),
            (
                Form::Decision,
                chosen("nonsense"),
                json!({"decision": "decline"}),
            ),
            (
                Form::Decision,
                PermissionAnswer::Cancelled,
                json!({"decision": "cancel"}),
            ),
            (
                Form::Elicitation,
                chosen(ONCE),
                json!({"action": "accept", "content": null}),
            ),
            (
                Form::Elicitation,
                chosen(ALWAYS),
                json!({"action": "accept", "content": null, "_meta": {"persist": "session"}}),
            ),
            (
                Form::Elicitation,
                chosen(NO),
                json!({"action": "decline", "content": null}),
            ),
            (
                grant.clone(),
                chosen(ONCE),
                json!({"permissions": wanted, "scope": "turn"}),
            ),
            (
                grant.clone(),
                chosen(ALWAYS),
                json!({"permissions": wanted, "scope": "session"}),
            ),
            (
                grant,
                chosen(NO),
                json!({"permissions": {}, "scope": "turn"}),
            ),
        ];
        for (form, given, expected) in cases {
            assert_eq!(answer(&form, &given), expected, "{form:?} {given:?}");
        }
    }
}
