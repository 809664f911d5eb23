//! What the adapter says that a call does, corrected where it can't know.

use async_trait::async_trait;
use segue_core::{AgentEvent, NativeId, ProcessMark, ToolCall};
use serde_json::Value;

use crate::codex::{items, reads};
use crate::{AgentError, Conversation, Step};

/// A conversation in which a command is one that only reads if we can see that, whatever the adapter calls it.
pub(super) struct Doubted(pub(super) Box<dyn Conversation>);

/// The kind of a call, where it is not what it is called.
fn kind(call: &ToolCall) -> Option<&'static str> {
    let args: Value = serde_json::from_str(call.args.as_str()).ok()?;
    match command(&args) {
        Some(script) if !wants_more(&args) && reads::only_reads(&script) => Some("read"),
        Some(_) => Some("execute"),
        // Commands that it thinks only read are announced without a word about them.
        None if args == Value::Object(serde_json::Map::new()) => {
            matches!(call.kind.as_str(), "read" | "search").then_some("execute")
        }
        None => None,
    }
}

/// The script that a call runs, if it runs one. Older adapters tell it with its shell, in pieces.
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

/// Whether more is asked for than to run the command.
fn wants_more(args: &Value) -> bool {
    let more = [
        "url",
        "additionalPermissions",
        "additional_permissions",
        "network_approval_context",
    ];
    more.iter().any(|name| !args[*name].is_null())
}

fn doubted(mut call: ToolCall) -> ToolCall {
    if let Some(kind) = kind(&call) {
        kind.clone_into(&mut call.kind);
    }
    call
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
    use segue_core::ToolStatus;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_command_is_called_does_not_count() {
        // As the adapters 2.6 and 0.16 tell of them.
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
            let call = doubted(ToolCall {
                id: "c".into(),
                name: "Read file 'a'".into(),
                kind: called.into(),
                args: args.clone().into(),
                status: ToolStatus::Pending,
                output: None,
                diffs: Vec::new(),
            });
            assert_eq!(call.kind, expected, "{called} {args}");
        }
    }
}
