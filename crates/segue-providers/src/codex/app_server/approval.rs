//! Requests of Codex to its client, and the format of their answers.

use segue_core::agent::{PermissionAnswer, PermissionKind, PermissionOption, PermissionRequest};
use segue_core::session::{ToolCall, ToolStatus};
use serde_json::{Map, Value, json};

use crate::codex::{items, read_only_command};

/// A request of Codex.
#[derive(Debug, PartialEq)]
pub(super) enum CodexRequest {
    /// A permission request, with the format of its answer.
    Permission(PermissionRequest, CodexAnswerFormat),
    /// A request for input, which segue cannot provide, with the result that declines it.
    Declined(Value),
    /// A request of an unknown kind.
    Unknown,
}

/// Format in which a permission is granted.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum CodexAnswerFormat {
    /// Decision about a command or a change.
    Decision,
    /// Result of a form, which is how Codex requests permission for tools of MCP servers.
    Elicitation,
    /// Permissions that are granted.
    Grant(Value),
}

const ACCEPT_OPTION_ID: &str = "accept";
const ACCEPT_FOR_SESSION_OPTION_ID: &str = "acceptForSession";
const DECLINE_OPTION_ID: &str = "decline";

/// Classifies a request of Codex. `find_open_call` finds an open tool call that satisfies a predicate.
pub(super) fn classify_request<'a>(
    method: &str,
    params: &Value,
    find_open_call: impl Fn(&dyn Fn(&ToolCall) -> bool) -> Option<&'a ToolCall>,
) -> CodexRequest {
    let id = params["itemId"].as_str().unwrap_or_default();
    let open_call = || find_open_call(&|call| call.id == id).cloned();
    match method {
        "item/commandExecution/requestApproval" => CodexRequest::Permission(
            build_permission_request(build_command_call(params, open_call())),
            CodexAnswerFormat::Decision,
        ),
        "item/fileChange/requestApproval" => {
            let call =
                open_call().unwrap_or_else(|| build_pending_call(id, "edit files", "edit", params));
            CodexRequest::Permission(build_permission_request(call), CodexAnswerFormat::Decision)
        }
        "item/permissions/requestApproval" => {
            let call = build_pending_call(id, "additional permissions", "other", params);
            let format = CodexAnswerFormat::Grant(params["permissions"].clone());
            CodexRequest::Permission(build_permission_request(call), format)
        }
        "mcpServer/elicitation/request" => classify_elicitation(params, find_open_call),
        "item/tool/requestUserInput" => {
            let questions = params["questions"].as_array().into_iter().flatten();
            let empty_answers = questions
                .filter_map(|question| question["id"].as_str())
                .map(|id| (id.to_owned(), json!({"answers": []})))
                .collect::<Map<_, _>>();
            CodexRequest::Declined(json!({ "answers": empty_answers }))
        }
        _ => CodexRequest::Unknown,
    }
}

/// Classifies an elicitation: an MCP server asks for input, or Codex asks whether a tool of the server may run. Only
/// the latter is a permission request. segue declines the former, because it cannot fill in forms.
fn classify_elicitation<'a>(
    params: &Value,
    find_open_call: impl Fn(&dyn Fn(&ToolCall) -> bool) -> Option<&'a ToolCall>,
) -> CodexRequest {
    let meta = &params["_meta"];
    if meta["codex_approval_kind"] != "mcp_tool_call" {
        return CodexRequest::Declined(json!({"action": "decline", "content": null}));
    }
    let server = format!("{}.", params["serverName"].as_str().unwrap_or_default());
    let args = |call: &ToolCall| serde_json::from_str::<Value>(call.args.as_str()).ok();
    let open_call = find_open_call(&|call| {
        call.name.starts_with(&server) && args(call).as_ref() == Some(&meta["tool_params"])
    });
    let call = open_call.cloned().unwrap_or_else(|| {
        let name = params["message"].as_str().unwrap_or("a tool");
        build_pending_call(&server, name, "other", &meta["tool_params"])
    });
    CodexRequest::Permission(
        build_permission_request(call),
        CodexAnswerFormat::Elicitation,
    )
}

fn build_command_call(params: &Value, open_call: Option<ToolCall>) -> ToolCall {
    let text = params["command"].as_str();
    let id = params["itemId"].as_str().unwrap_or_default();
    let mut call = open_call.unwrap_or_else(|| {
        let name = text.map_or_else(|| "a command".to_owned(), items::strip_shell);
        build_pending_call(id, &name, "execute", params)
    });
    // Codex requests network access for, or input to, a running command with the item of that command.
    let host = params["networkApprovalContext"]["host"].as_str();
    if let Some(host) = host {
        call.name = format!("connect to {host}");
        "fetch".clone_into(&mut call.kind);
    } else if text.is_some_and(|text| is_read_only_command(text, &params["commandActions"])) {
        "read".clone_into(&mut call.kind);
    }
    call
}

fn build_pending_call(id: &str, name: &str, kind: &str, args: &Value) -> ToolCall {
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
fn is_read_only_command(command: &str, actions: &Value) -> bool {
    let script = items::strip_shell(command);
    let is_single_command = actions.as_array().is_some_and(|actions| {
        actions
            .iter()
            .all(|action| action["command"] == script.as_str())
    });
    is_single_command && read_only_command::is_read_only(&script)
}

fn build_permission_request(mut call: ToolCall) -> PermissionRequest {
    call.status = ToolStatus::Pending;
    let option = |id: &str, name: &str, kind| PermissionOption {
        id: id.to_owned(),
        name: name.to_owned(),
        kind,
    };
    PermissionRequest {
        call,
        options: vec![
            option(ACCEPT_OPTION_ID, "Yes", PermissionKind::AllowOnce),
            option(
                ACCEPT_FOR_SESSION_OPTION_ID,
                "Yes, for the rest of the conversation",
                PermissionKind::AllowAlways,
            ),
            option(DECLINE_OPTION_ID, "No", PermissionKind::RejectOnce),
        ],
    }
}

/// Converts an answer to the format that Codex expects.
pub(super) fn encode_answer(format: &CodexAnswerFormat, answer: &PermissionAnswer) -> Value {
    let choice = match answer {
        PermissionAnswer::Selected(id)
            if [ACCEPT_OPTION_ID, ACCEPT_FOR_SESSION_OPTION_ID].contains(&id.as_str()) =>
        {
            id
        }
        PermissionAnswer::Selected(_) => DECLINE_OPTION_ID,
        PermissionAnswer::Cancelled => "cancel",
    };
    match (format, choice) {
        (CodexAnswerFormat::Decision, decision) => json!({ "decision": decision }),
        (CodexAnswerFormat::Elicitation, ACCEPT_FOR_SESSION_OPTION_ID) => {
            json!({"action": "accept", "content": null, "_meta": {"persist": "session"}})
        }
        (CodexAnswerFormat::Elicitation, action) => json!({"action": action, "content": null}),
        (CodexAnswerFormat::Grant(permissions), ACCEPT_OPTION_ID) => {
            json!({"permissions": permissions, "scope": "turn"})
        }
        (CodexAnswerFormat::Grant(permissions), ACCEPT_FOR_SESSION_OPTION_ID) => {
            json!({"permissions": permissions, "scope": "session"})
        }
        (CodexAnswerFormat::Grant(_), _) => json!({"permissions": {}, "scope": "turn"}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classify(method: &str, params: &Value, open_calls: &[ToolCall]) -> CodexRequest {
        classify_request(method, params, |predicate| {
            open_calls.iter().find(|call| predicate(call))
        })
    }

    fn expect_permission(codex_request: CodexRequest) -> (PermissionRequest, CodexAnswerFormat) {
        match codex_request {
            CodexRequest::Permission(request, format) => (request, format),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_read_only_commands_are_classified_as_reads() {
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
            let (request, _) = expect_permission(classify(
                "item/commandExecution/requestApproval",
                &params,
                &[],
            ));
            let kind = if expected { "read" } else { "execute" };
            assert_eq!(request.call.kind, kind, "{script}");
            assert_eq!(request.call.name, script);
        }
        assert!(!is_read_only_command("ls", &Value::Null));
    }

    #[test]
    fn a_permission_request_for_a_change_contains_the_open_call() {
        let item = json!({"type": "fileChange", "id": "f", "status": "inProgress",
            "changes": [{"path": "/p/a", "kind": {"type": "add"}, "diff": "x\n"}]});
        let open_calls = [items::parse_tool_call(&item, false).unwrap()];
        let (request, format) = expect_permission(classify(
            "item/fileChange/requestApproval",
            &json!({"itemId": "f"}),
            &open_calls,
        ));
        assert_eq!(request.call.diffs.len(), 1);
        assert_eq!(request.call.kind, "edit");
        assert_eq!(format, CodexAnswerFormat::Decision);
        let unknown = json!({"itemId": "g"});
        let (request, _) = expect_permission(classify(
            "item/fileChange/requestApproval",
            &unknown,
            &open_calls,
        ));
        assert_eq!(
            (request.call.id.as_str(), request.call.kind.as_str()),
            ("g", "edit")
        );
    }

    #[test]
    fn mcp_tools_request_permission_and_mcp_forms_are_declined() {
        let item = json!({"type": "mcpToolCall", "id": "m", "server": "lab", "tool": "ping",
            "arguments": {"x": "1"}, "status": "inProgress"});
        let open_calls = [items::parse_tool_call(&item, false).unwrap()];
        let mut params = json!({"serverName": "lab", "message": "Allow it?", "mode": "form",
            "_meta": {"codex_approval_kind": "mcp_tool_call", "tool_params": {"x": "1"}}});
        let (request, format) = expect_permission(classify(
            "mcpServer/elicitation/request",
            &params,
            &open_calls,
        ));
        assert_eq!(request.call.id, "m");
        assert_eq!(format, CodexAnswerFormat::Elicitation);
        params["_meta"]["tool_params"] = json!({"x": "2"});
        let (request, _) = expect_permission(classify(
            "mcpServer/elicitation/request",
            &params,
            &open_calls,
        ));
        assert_eq!(request.call.name, "Allow it?");
        params["_meta"] = Value::Null;
        let declined = CodexRequest::Declined(json!({"action": "decline", "content": null}));
        assert_eq!(
            classify("mcpServer/elicitation/request", &params, &open_calls),
            declined
        );
    }

    #[test]
    fn network_access_is_not_classified_as_the_command() {
        let params = json!({"itemId": "c", "command": "/bin/bash -lc 'cat x'",
            "commandActions": [{"command": "cat x"}], "networkApprovalContext": {"host": "example.org"}});
        let (request, _) = expect_permission(classify(
            "item/commandExecution/requestApproval",
            &params,
            &[],
        ));
        assert_eq!(request.call.name, "connect to example.org");
        assert_eq!(request.call.kind, "fetch");
    }

    #[test]
    fn input_requests_get_empty_answers() {
        let params = json!({"questions": [{"id": "q1"}, {"id": "q2"}]});
        let empty_answers = json!({"answers": {"q1": {"answers": []}, "q2": {"answers": []}}});
        assert_eq!(
            classify("item/tool/requestUserInput", &params, &[]),
            CodexRequest::Declined(empty_answers)
        );
        assert_eq!(
            classify("attestation/generate", &params, &[]),
            CodexRequest::Unknown
        );
    }

    #[test]
    fn each_answer_format_encodes_every_choice() {
        let permissions = json!({"network": {"enabled": true}});
        let grant = CodexAnswerFormat::Grant(permissions.clone());
        let choose = |id: &str| PermissionAnswer::Selected(id.to_owned());
        let cases = [
            (
                CodexAnswerFormat::Decision,
                choose(ACCEPT_OPTION_ID),
                json!({"decision": "accept"}),
            ),
            (
                CodexAnswerFormat::Decision,
                choose(ACCEPT_FOR_SESSION_OPTION_ID),
                json!({"decision": "acceptForSession"}),
            ),
            (
                CodexAnswerFormat::Decision,
                choose(DECLINE_OPTION_ID),
                json!({"decision": "decline"}),
            ),
            (
                CodexAnswerFormat::Decision,
                choose("nonsense"),
                json!({"decision": "decline"}),
            ),
            (
                CodexAnswerFormat::Decision,
                PermissionAnswer::Cancelled,
                json!({"decision": "cancel"}),
            ),
            (
                CodexAnswerFormat::Elicitation,
                choose(ACCEPT_OPTION_ID),
                json!({"action": "accept", "content": null}),
            ),
            (
                CodexAnswerFormat::Elicitation,
                choose(ACCEPT_FOR_SESSION_OPTION_ID),
                json!({"action": "accept", "content": null, "_meta": {"persist": "session"}}),
            ),
            (
                CodexAnswerFormat::Elicitation,
                choose(DECLINE_OPTION_ID),
                json!({"action": "decline", "content": null}),
            ),
            (
                grant.clone(),
                choose(ACCEPT_OPTION_ID),
                json!({"permissions": permissions, "scope": "turn"}),
            ),
            (
                grant.clone(),
                choose(ACCEPT_FOR_SESSION_OPTION_ID),
                json!({"permissions": permissions, "scope": "session"}),
            ),
            (
                grant,
                choose(DECLINE_OPTION_ID),
                json!({"permissions": {}, "scope": "turn"}),
            ),
        ];
        for (format, answer, expected) in cases {
            assert_eq!(
                encode_answer(&format, &answer),
                expected,
                "{format:?} {answer:?}"
            );
        }
    }
}
