//! Requests to `app-server`, and the messages that it sends.

use std::time::Duration;

use serde_json::{Value, json};

use crate::AgentError;
use crate::error_class::{self, AgentRefusal};
use crate::wire::json_lines::{JsonLineProcess, OutputLine};

/// A client that sends requests to a program and receives its messages.
pub(super) struct RpcClient {
    pub(super) wire: JsonLineProcess,
    last_request_id: u64,
    /// Notifications that arrived while a request waited for its response.
    early_notifications: Vec<(String, Value)>,
}

/// A message from the program.
pub(super) enum RpcMessage {
    Response(u64, Result<Value, AgentRefusal>),
    Request(Value, String, Value),
    Notification(String, Value),
}

impl RpcMessage {
    pub(super) fn parse(mut message: Value) -> Option<Self> {
        let id = message.get("id").cloned();
        let Some(method) = message["method"].as_str().map(str::to_owned) else {
            let outcome = match message.get("error") {
                Some(error) => Err(error_class::classify_error(
                    error["code"]
                        .as_i64()
                        .and_then(|code| i32::try_from(code).ok()),
                    error["message"].as_str().unwrap_or_default(),
                )),
                None => Ok(message["result"].take()),
            };
            return Some(Self::Response(id?.as_u64()?, outcome));
        };
        let params = message["params"].take();
        Some(match id {
            Some(id) => Self::Request(id, method, params),
            None => Self::Notification(method, params),
        })
    }
}

impl RpcClient {
    pub(super) fn new(wire: JsonLineProcess) -> Self {
        Self {
            wire,
            last_request_id: 0,
            early_notifications: Vec::new(),
        }
    }

    /// Takes the notifications that arrived while requests waited for their responses.
    pub(super) fn take_early_notifications(&mut self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.early_notifications)
    }

    /// Sends a request and returns its number.
    pub(super) fn send_request(&mut self, method: &str, params: &Value) -> u64 {
        self.last_request_id += 1;
        self.wire
            .send(&json!({"id": self.last_request_id, "method": method, "params": params}));
        self.last_request_id
    }

    /// Rejects a request of the program that segue does not support.
    pub(super) fn reject_request(&self, id: &Value, method: &str) {
        let error = json!({"code": -32601, "message": format!("segue does not support {method}")});
        self.wire.send(&json!({"id": id, "error": error}));
    }

    /// Sends a request and waits for the response. An error that the program returned is [`AgentError::Refused`].
    pub(super) async fn call(
        &mut self,
        operation: &'static str,
        params: &Value,
        timeout: Duration,
    ) -> Result<Value, AgentError> {
        let request_id = self.send_request(operation, params);
        let response = async {
            loop {
                let OutputLine::Json(message) =
                    self.wire.next_line_within(timeout, operation).await?
                else {
                    continue;
                };
                match RpcMessage::parse(message) {
                    Some(RpcMessage::Response(id, outcome)) if id == request_id => {
                        return outcome
                            .map_err(|refusal| AgentError::from_refusal(operation, refusal));
                    }
                    Some(RpcMessage::Request(id, method, _)) => self.reject_request(&id, &method),
                    Some(RpcMessage::Notification(method, params)) => {
                        self.early_notifications.push((method, params));
                    }
                    Some(RpcMessage::Response(..)) | None => {}
                }
            }
        };
        match tokio::time::timeout(timeout, response).await {
            Ok(outcome) => outcome,
            Err(_) => Err(AgentError::TimedOut {
                operation,
                after: timeout,
                stderr: self.wire.process().stderr(),
            }),
        }
    }
}
