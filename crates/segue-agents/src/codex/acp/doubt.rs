//! What the adapter says that a call does, corrected where it can't know.

use async_trait::async_trait;
use segue_core::{AgentEvent, NativeId, ProcessMark, ToolCall};
use serde_json::{Value, json};

use crate::codex::{items, reads};
use crate::{AgentError, Conversation, Step};

/// A conversation in which a command is one that only reads if we can see that, whatever the adapter calls it.
pub(super) struct Doubted(pub(super) Box<dyn Conversation>);

/// A call as what it is. Its title is not believed either: a person who is asked has to see all of the command.
fn doubted(mut call: ToolCall) -> ToolCall {
    let args: Value = serde_json::from_str(call.args.as_str()).unwrap_or_default();
    let kind = match command(&args) {
        Some(_) if wants_more(&args) => "execute",
        Some(script) => {
            let reads = reads::only_reads(&script);
            call.name = script;
            if reads { "read" } else { "execute" }
        }
        // Commands that it thinks only read are announced without a word about them.
        None if args == json!({}) && ["read", "search"].contains(&call.kind.as_str()) => "execute",
        None => return call,
    };
    kind.clone_into(&mut call.kind);
    call
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
