//! A running Claude Code with an open native session.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use segue_core::agent::ProcessIdentity;
use segue_core::id::NativeId;
use segue_core::session::{AgentEvent, GuardAction};
use serde_json::{Value, json};

use super::permission;
use super::stream::{ClaudeEvent, ClaudeTurn, PromptAcceptance};
use crate::wire::json_lines::{JsonLineProcess, OutputLine};
use crate::wire::uuid;
use crate::{AgentConnection, AgentError, ConnectionEvent, SystemFns};

/// Time in which the process may exit on its own once its input is closed; it needs 0.1 s if it is idle.
const EXIT_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// A connection and its current turn.
pub(super) struct ClaudeConnection {
    wire: JsonLineProcess,
    native_id: NativeId,
    system: SystemFns,
    turn: Option<ClaudeTurn>,
    /// Whether this Claude Code reports when it accepts a prompt.
    reports_acceptance: bool,
    /// Events of the lines read so far that `next_event` has not returned yet.
    pending_events: VecDeque<ConnectionEvent>,
}

impl ClaudeConnection {
    pub(super) fn new(wire: JsonLineProcess, native_id: NativeId, system: SystemFns) -> Self {
        Self {
            wire,
            native_id,
            system,
            turn: None,
            reports_acceptance: false,
            pending_events: VecDeque::new(),
        }
    }

    fn handle_line(&mut self, line: &Value) {
        let Some(turn) = &mut self.turn else { return };
        match turn.check_acceptance(line) {
            PromptAcceptance::Unreported => {}
            PromptAcceptance::Accepted => self.reports_acceptance = true,
            PromptAcceptance::AcceptedAfterCancel => send_interrupt(&self.wire),
        }
        for claude_event in turn.convert_line(line, (self.system.now)()) {
            let connection_event = self.convert_event(claude_event);
            self.pending_events.extend(connection_event);
        }
    }

    fn convert_event(&mut self, claude_event: ClaudeEvent) -> Option<ConnectionEvent> {
        match claude_event {
            ClaudeEvent::Event(event) => Some(ConnectionEvent::Event(event)),
            ClaudeEvent::PermissionRequest(permission) => {
                let (request, answer_context) = permission.into_parts();
                let sender = self.wire.sender()?;
                let reply = move |answer| sender.send(&answer_context.into_response_line(&answer));
                Some(ConnectionEvent::PermissionRequested(
                    request,
                    Box::new(reply),
                ))
            }
            ClaudeEvent::UnsupportedRequest { id, subtype } => {
                self.wire
                    .send(&permission::build_unsupported_response(&id, &subtype));
                None
            }
            ClaudeEvent::NativeId(native_id) if native_id == self.native_id.as_str() => None,
            ClaudeEvent::NativeId(native_id) => {
                self.native_id = NativeId::parse(&native_id).ok()?;
                Some(ConnectionEvent::NativeIdReported(self.native_id.clone()))
            }
            ClaudeEvent::TurnEnded(end) => {
                self.turn = None;
                Some(ConnectionEvent::TurnEnded(end))
            }
        }
    }
}

fn send_interrupt(wire: &JsonLineProcess) {
    wire.send(&json!({
        "type": "control_request",
        "request_id": "segue-interrupt",
        "request": {"subtype": "interrupt"},
    }));
}

/// Returns the line that sends a prompt.
fn prompt_line(prompt: &str, prompt_id: &str) -> Value {
    let mut content = vec![json!({"type": "text", "text": prompt})];
    // Claude Code looks for a slash command in the last block only, and does not send a blank block to the model. The
    // blank block therefore delivers the prompt unchanged and stops it from running as a command.
    if prompt.trim_start().starts_with('/') {
        content.push(json!({"type": "text", "text": " "}));
    }
    json!({
        "type": "user",
        "uuid": prompt_id,
        "message": {"role": "user", "content": content},
    })
}

#[async_trait]
impl AgentConnection for ClaudeConnection {
    fn native_id(&self) -> Option<&NativeId> {
        Some(&self.native_id)
    }

    fn process_identity(&self) -> Option<ProcessIdentity> {
        self.wire.process().identity()
    }

    async fn send_prompt(&mut self, prompt: &str) -> Result<(), AgentError> {
        if !self.wire.is_alive() {
            return Err(self.wire.exit_error("the prompt").await);
        }
        let prompt_id = uuid::generate_v4(self.system.random);
        self.pending_events.clear();
        self.turn = Some(ClaudeTurn::new(
            prompt_id.to_string(),
            self.reports_acceptance,
        ));
        self.wire.send(&prompt_line(prompt, prompt_id.as_str()));
        Ok(())
    }

    async fn next_event(&mut self) -> ConnectionEvent {
        loop {
            if let Some(event) = self.pending_events.pop_front() {
                return event;
            }
            match self.wire.next_line().await {
                Some(OutputLine::Json(line)) => self.handle_line(&line),
                Some(OutputLine::Noise(text)) => {
                    return ConnectionEvent::Event(AgentEvent::Garbage(text));
                }
                None => {
                    return ConnectionEvent::TurnEnded(Err(self
                        .wire
                        .exit_error("the prompt")
                        .await));
                }
            }
        }
    }

    fn cancel(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.record_cancel();
            send_interrupt(&self.wire);
        }
    }

    fn is_alive(&mut self) -> bool {
        self.wire.is_alive()
    }

    async fn close(mut self: Box<Self>) -> Vec<GuardAction> {
        self.wire.close_input();
        // The process saves its remaining data and exits on its own.
        let drain_output = async { while self.wire.next_line().await.is_some() {} };
        let _ = tokio::time::timeout(EXIT_GRACE_PERIOD, drain_output).await;
        self.wire.stop().await;
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_that_looks_like_a_command_is_never_the_last_block() {
        let cases = [
            ("hello", 1),
            ("-x", 1),
            ("\nnext", 1),
            ("what is /etc?", 1),
            ("/compact", 2),
            ("/etc/passwd is what?", 2),
            (" \n/compact", 2),
        ];
        for (prompt, blocks) in cases {
            let line = prompt_line(prompt, "u1");
            let content = line["message"]["content"].as_array().unwrap();
            assert_eq!(content[0]["text"], prompt);
            assert_eq!(content.len(), blocks, "{prompt:?}");
        }
    }
}
