//! Correction of tool calls that the adapter cannot classify reliably.

use async_trait::async_trait;
use segue_core::agent::ProcessIdentity;
use segue_core::id::NativeId;
use segue_core::session::{AgentEvent, GuardAction, ToolCall};
use serde_json::{Value, json};

use crate::codex::{items, read_only_command};
use crate::{AgentConnection, AgentError, ConnectionEvent};

/// A connection that treats a command as read-only only if segue can verify it, whatever kind the adapter reports.
pub(super) struct ReclassifiedConnection(pub(super) Box<dyn AgentConnection>);

/// Corrects the kind of a call. Replaces the title too, because the user must see the complete command.
fn reclassify_call(mut call: ToolCall) -> ToolCall {
    let args: Value = serde_json::from_str(call.args.as_str()).unwrap_or_default();
    let kind = match find_script(&args) {
        Some(_) if needs_extra_permissions(&args) => "execute",
        Some(script) => {
            let read_only = read_only_command::is_read_only(&script);
            call.name = script;
            if read_only { "read" } else { "execute" }
        }
        // The adapter announces commands that it takes for read-only without their arguments.
        None if args == json!({}) && ["read", "search"].contains(&call.kind.as_str()) => "execute",
        None => return call,
    };
    kind.clone_into(&mut call.kind);
    call
}

/// Returns the script that a call runs; `None` if it runs none. Older adapters send the script as an array, with its
/// shell.
fn find_script(args: &Value) -> Option<String> {
    match &args["command"] {
        Value::Null => None,
        Value::String(command) => Some(items::strip_shell(command)),
        Value::Array(words) => Some(match words.as_slice() {
            [_, Value::String(flag), Value::String(script)] if flag == "-lc" => script.clone(),
            _ => args["command"].to_string(),
        }),
        other => Some(other.to_string()),
    }
}

/// Returns `true` if the call requests more than to run the command.
fn needs_extra_permissions(args: &Value) -> bool {
    let extra_fields = [
        "url",
        "additionalPermissions",
        "additional_permissions",
        "network_approval_context",
    ];
    extra_fields.iter().any(|name| !args[*name].is_null())
}

#[async_trait]
impl AgentConnection for ReclassifiedConnection {
    fn native_id(&self) -> Option<&NativeId> {
        self.0.native_id()
    }

    fn process_identity(&self) -> Option<ProcessIdentity> {
        self.0.process_identity()
    }

    async fn send_prompt(&mut self, prompt: &str) -> Result<(), AgentError> {
        self.0.send_prompt(prompt).await
    }

    async fn next_event(&mut self) -> ConnectionEvent {
        match self.0.next_event().await {
            ConnectionEvent::Event(AgentEvent::Tool(call)) => {
                ConnectionEvent::Event(AgentEvent::Tool(reclassify_call(call)))
            }
            ConnectionEvent::PermissionRequested(mut request, reply) => {
                request.call = reclassify_call(request.call);
                ConnectionEvent::PermissionRequested(request, reply)
            }
            event => event,
        }
    }

    fn cancel(&mut self) {
        self.0.cancel();
    }

    fn is_alive(&mut self) -> bool {
        self.0.is_alive()
    }

    async fn close(self: Box<Self>) -> Vec<GuardAction> {
        self.0.close().await
    }
}

#[cfg(test)]
mod tests {
    use segue_core::session::ToolStatus;

    use super::*;

    fn build_call(kind: &str, args: &Value) -> ToolCall {
        ToolCall {
            id: "c".into(),
            name: "Read file 'a'".into(),
            kind: kind.into(),
            args: args.clone().into(),
            status: ToolStatus::Pending,
            output: None,
            diffs: Vec::new(),
        }
    }

    #[test]
    fn the_reported_kind_of_a_command_is_ignored() {
        // Calls as the adapters 2.6 and 0.16 report them.
        let cases = [
            ("execute", json!({"command": "cat a", "cwd": "/p"}), "read"),
            (
                "search",
                json!({"command": "find . -delete", "cwd": "/p"}),
                "execute",
            ),
            ("read", json!({"command": "cat a | tee b"}), "execute"),
            (
                "read",
                json!({"command": ["/bin/bash", "-lc", "cat a | tee b"], "parsed_cmd": [{"type": "read"}]}),
                "execute",
            ),
            (
                "search",
                json!({"command": ["/bin/bash", "-lc", "find . -name x -delete"]}),
                "execute",
            ),
            (
                "read",
                json!({"command": ["/bin/bash", "-lc", "cat a"]}),
                "read",
            ),
            ("read", json!({"command": ["cat", "a"]}), "execute"),
            ("read", json!({"command": {"cat": "a"}}), "execute"),
            (
                "read",
                json!({"command": "cat a", "url": "https://example.org"}),
                "execute",
            ),
            (
                "read",
                json!({"command": "cat a", "additionalPermissions": {"network": {}}}),
                "execute",
            ),
            ("read", json!({}), "execute"),
            ("search", json!({}), "execute"),
            ("edit", json!({}), "edit"),
            ("read", json!({"path": "/p/a.png"}), "read"),
            ("search", json!({"query": "weather"}), "search"),
            ("other", json!({"server": "s", "tool": "t"}), "other"),
        ];
        for (reported_kind, args, expected) in cases {
            assert_eq!(
                reclassify_call(build_call(reported_kind, &args)).kind,
                expected,
                "{reported_kind} {args}"
            );
        }
    }

    #[test]
    fn the_title_of_a_call_is_its_complete_command() {
        const ADAPTER_TITLE: &str = "Read file 'a'";
        let cases = [
            (json!({"command": "cat a | tee b"}), "cat a | tee b"),
            (
                json!({"command": "/bin/bash -lc 'cat a | tee b'"}),
                "cat a | tee b",
            ),
            (
                json!({"command": ["/bin/bash", "-lc", "cat a | tee b"]}),
                "cat a | tee b",
            ),
            (json!({"command": ["tee", "b"]}), r#"["tee","b"]"#),
            (
                json!({"command": "curl x", "url": "https://example.org"}),
                ADAPTER_TITLE,
            ),
            (json!({"path": "/p/a.png"}), ADAPTER_TITLE),
            (json!({}), ADAPTER_TITLE),
        ];
        for (args, expected) in cases {
            assert_eq!(
                reclassify_call(build_call("read", &args)).name,
                expected,
                "{args}"
            );
        }
    }
}
