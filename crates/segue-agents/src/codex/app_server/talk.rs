//! Requests to `app-server`, and the messages that it sends.

use std::time::Duration;

use serde_json::{Value, json};

use crate::AgentError;
use crate::classify::{self, Refusal};
use crate::wire::{Line, Wire};

/// A client that sends requests to a program and receives its messages.
pub(super) struct Talk {
    pub(super) wire: Wire,
    last: u64,
    /// Notifications that arrived while a request waited for its response.
    early: Vec<(String, Value)>,
}

/// A message from the program.
pub(super) enum Heard {
    Answer(u64, Result<Value, Refusal>),
    Asks(Value, String, Value),
    Tells(String, Value),
}

impl Heard {
    pub(super) fn parse(mut message: Value) -> Option<Self> {
        let id = message.get("id").cloned();
        let Some(method) = message["method"].as_str().map(str::to_owned) else {
            let outcome = match message.get("error") {
                Some(error) => Err(classify::answer(
                    error["code"]
                        .as_i64()
                        .and_then(|code| i32::try_from(code).ok()),
                    error["message"].as_str().unwrap_or_default(),
                )),
                None => Ok(message["result"].take()),
            };
            return Some(Self::Answer(id?.as_u64()?, outcome));
        };
        let params = message["params"].take();
        Some(match id {
            Some(id) => Self::Asks(id, method, params),
            None => Self::Tells(method, params),
        })
    }
}

impl Talk {
    pub(super) fn new(wire: Wire) -> Self {
        Self {
            wire,
            last: 0,
            early: Vec::new(),
        }
    }

    /// Takes the notifications that arrived while requests waited for their responses.
    pub(super) fn early(&mut self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.early)
    }

    /// Sends a request and returns its number.
    pub(super) fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        self.wire
            .send(&json!({"id": self.last, "method": method, "params": params}));
        self.last
    }

    /// Rejects a request of the program that segue does not support.
    pub(super) fn cannot(&self, id: &Value, method: &str) {
        let error = json!({"code": -32601, "message": format!("segue does not know {method}")});
        self.wire.send(&json!({"id": id, "error": error}));
    }

    /// Sends a request and waits for the response. `Ok(Err)` contains the error that the program returned.
    pub(super) async fn call(
        &mut self,
        doing: &'static str,
        params: &Value,
        timeout: Duration,
    ) -> Result<Result<Value, Refusal>, AgentError> {
        let number = self.ask(doing, params);
        let answer = async {
            loop {
                let Line::Json(message) = self.wire.next_in(timeout, doing).await? else {
                    continue;
                };
                match Heard::parse(message) {
                    Some(Heard::Answer(id, outcome)) if id == number => return Ok(outcome),
                    Some(Heard::Asks(id, method, _)) => self.cannot(&id, &method),
                    Some(Heard::Tells(method, params)) => self.early.push((method, params)),
                    Some(Heard::Answer(..)) | None => {}
                }
            }
        };
        match tokio::time::timeout(timeout, answer).await {
            Ok(outcome) => outcome,
            Err(_) => Err(AgentError::TimedOut {
                doing,
                after: timeout,
                stderr: self.wire.process().stderr(),
            }),
        }
    }
}
