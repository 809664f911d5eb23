//! A running Claude Code with an open native session.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use segue_core::agent::ProcessMark;
use segue_core::id::NativeId;
use segue_core::session::AgentEvent;
use serde_json::{Value, json};

use super::ask;
use super::turn::{Heard, TakenUp, Turn};
use crate::wire::{Line, Wire};
use crate::{AgentError, Conversation, Outside, Step, uuid};

/// Time in which the process may exit on its own once its input is closed; it needs 0.1 s if it is idle.
const FAREWELL: Duration = Duration::from_secs(2);

/// A connection and its current turn.
pub(super) struct ClaudeConversation {
    wire: Wire,
    native_id: NativeId,
    outside: Outside,
    turn: Option<Turn>,
    /// Whether this Claude Code reports when it accepts a prompt.
    tells: bool,
    /// Events of the lines read so far that `next` has not returned yet.
    waiting: VecDeque<Step>,
}

impl ClaudeConversation {
    pub(super) fn new(wire: Wire, native_id: NativeId, outside: Outside) -> Self {
        Self {
            wire,
            native_id,
            outside,
            turn: None,
            tells: false,
            waiting: VecDeque::new(),
        }
    }

    fn take_in(&mut self, line: &Value) {
        let Some(turn) = &mut self.turn else { return };
        match turn.takes_up(line) {
            TakenUp::NotTold => {}
            TakenUp::Told => self.tells = true,
            TakenUp::TooLate => interrupt(&self.wire),
        }
        for heard in turn.hear(line, (self.outside.now)()) {
            let step = self.step(heard);
            self.waiting.extend(step);
        }
    }

    fn step(&mut self, heard: Heard) -> Option<Step> {
        match heard {
            Heard::Event(event) => Some(Step::Event(event)),
            Heard::Asked(asked) => {
                let (request, answering) = asked.into_parts();
                let sender = self.wire.sender()?;
                let reply = move |answer| sender.send(&answering.line(&answer));
                Some(Step::Ask(request, Box::new(reply)))
            }
            Heard::NotOffered { id, subtype } => {
                self.wire.send(&ask::not_offered(&id, &subtype));
                None
            }
            Heard::Named(name) if name == self.native_id.as_str() => None,
            Heard::Named(name) => {
                self.native_id = NativeId::parse(&name).ok()?;
                Some(Step::Named(self.native_id.clone()))
            }
            Heard::Over(end) => {
                self.turn = None;
                Some(Step::Done(end))
            }
        }
    }
}

fn interrupt(wire: &Wire) {
    wire.send(&json!({
        "type": "control_request",
        "request_id": "segue-interrupt",
        "request": {"subtype": "interrupt"},
    }));
}

/// Returns the line that sends a prompt.
fn prompt_line(prompt: &str, id: &str) -> Value {
    let mut content = vec![json!({"type": "text", "text": prompt})];
    // Claude Code looks for a slash command in the last block only, and does not send a blank block to the model. The
    // blank block therefore delivers the prompt unchanged and stops it from running as a command.
    if prompt.trim_start().starts_with('/') {
        content.push(json!({"type": "text", "text": " "}));
    }
    json!({
        "type": "user",
        "uuid": id,
        "message": {"role": "user", "content": content},
    })
}

#[async_trait]
impl Conversation for ClaudeConversation {
    fn native_id(&self) -> Option<&NativeId> {
        Some(&self.native_id)
    }

    fn process(&self) -> Option<ProcessMark> {
        self.wire.process().mark()
    }

    async fn send(&mut self, prompt: &str) -> Result<(), AgentError> {
        if !self.wire.is_alive() {
            return Err(self.wire.gone("the prompt").await);
        }
        let id = uuid::v4(self.outside.random);
        self.waiting.clear();
        self.turn = Some(Turn::new(id.to_string(), self.tells));
        self.wire.send(&prompt_line(prompt, id.as_str()));
        Ok(())
    }

    async fn next(&mut self) -> Step {
        loop {
            if let Some(step) = self.waiting.pop_front() {
                return step;
            }
            match self.wire.next().await {
                Some(Line::Json(line)) => self.take_in(&line),
                Some(Line::Noise(text)) => return Step::Event(AgentEvent::Garbage(text)),
                None => return Step::Done(Err(self.wire.gone("the prompt").await)),
            }
        }
    }

    fn cancel(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.cancel();
            interrupt(&self.wire);
        }
    }

    fn is_alive(&mut self) -> bool {
        self.wire.is_alive()
    }

    async fn close(mut self: Box<Self>) -> Vec<String> {
        self.wire.close_input();
        // The process saves its remaining data and exits on its own.
        let ends = async { while self.wire.next().await.is_some() {} };
        let _ = tokio::time::timeout(FAREWELL, ends).await;
        self.wire.stop().await;
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_never_the_last_block_if_it_looks_like_a_command() {
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
