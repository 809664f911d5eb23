//! Correction of tool calls that the adapter cannot classify reliably.

use async_trait::async_trait;
use segue_core::agent::ProcessMark;
use segue_core::id::NativeId;
use segue_core::session::{AgentEvent, ToolCall};
use serde_json::{Value, json};

use crate::codex::{items, reads};
use crate::{AgentError, Conversation, Step};

/// A connection that treats a command as read-only only if segue can verify it, whatever kind the adapter reports.
pub(super) struct Doubted(pub(super) Box<dyn Conversation>);

/// Corrects the kind of a call. Replaces the title too, because the user must see the complete command.
fn doubted(mut call: ToolCall) -> ToolCall {
    let args: Value = serde_json::from_str(call.args.as_str()).unwrap_or_default();
    let kind = match command(&args) {
        Some(_) if wants_more(&args) => "execute",
        Some(script) => {
            let reads = reads::only_reads(&script);
            call.name = script;
            if reads { "read" } else { "execute" }
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
fn command(args: &Value) -> Option<String> {
    match &args["command"] {
        Value::Null => None,
        Value::String(command) => Some(items::script(command)),
        Value::Array(words) => Some(match words.as_slice() {
            [_, Value::String(flag), Value::String(script)] if flag == "-lc" => script.clone(),
            _ => args["command"].to_string(),
        }),
        other => Some(other.to_string()),
    }
}

/// Returns `true` if the call requests more than to run the command.
fn wants_more(args: &Value) -> bool {
    let more = [
        "url",
        "additionalPermissions",
        "additional_permissions",
        "network_approval_context",
    ];
    more.iter().any(|name| !args[*name].is_null())
}

#[async_trait]
impl Conversation for Doubted {
    fn native_id(&self) -> Option<&NativeId> {
        self.0.native_id()
    }

    fn process(&self) -> Option<ProcessMark> {
        self.0.process()
    }

    async fn send(&mut self, prompt: &str) -> Result<(), AgentError> {
        self.0.send(prompt).await
    }

    async fn next(&mut self) -> Step {
        match self.0.next().await {
            Step::Event(AgentEvent::Tool(call)) => Step::Event(AgentEvent::Tool(doubted(call))),
            Step::Ask(mut request, reply) => {
                request.call = doubted(request.call);
                Step::Ask(request, reply)
            }
            step => step,
        }
    }

    fn cancel(&mut self) {
        self.0.cancel();
    }

    fn is_alive(&mut self) -> bool {
        self.0.is_alive()
    }

    async fn close(self: Box<Self>) -> Vec<String> {
        self.0.close().await
    }
}

#[cfg(test)]
mod tests {
    use segue_core::session::ToolStatus;

    use super::*;

    fn call(kind: &str, args: &Value) -> ToolCall {
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
    fn what_a_command_is_called_does_not_count() {
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
        for (called, args, expected) in cases {
            assert_eq!(
                doubted(call(called, &args)).kind,
                expected,
                "{called} {args}"
            );
        }
    }

    #[test]
    fn a_command_is_called_by_all_of_it() {
        const TITLE: &str = "Read file 'a'";
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
                TITLE,
            ),
            (json!({"path": "/p/a.png"}), TITLE),
            (json!({}), TITLE),
        ];
        for (args, expected) in cases {
            assert_eq!(doubted(call("read", &args)).name, expected, "{args}");
        }
    }
}
