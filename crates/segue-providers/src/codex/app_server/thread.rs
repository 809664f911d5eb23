//! A connection to `app-server` with an open thread.

use std::collections::VecDeque;

use async_trait::async_trait;
use jiff::Timestamp;
use segue_core::agent::ProcessIdentity;
use segue_core::id::NativeId;
use segue_core::session::{AgentEvent, GuardAction};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::approval::{self, CodexRequest};
use super::rpc::{RpcClient, RpcMessage};
use super::turn_state::{AppServerUpdate, CodexTurn};
use crate::codex::failure;
use crate::error_class::AgentRefusal;
use crate::wire::json_lines::OutputLine;
use crate::{AgentConnection, AgentError, ConnectionEvent};

const PROMPT_OPERATION: &str = "the prompt";

/// An open thread and its current turn.
pub(super) struct AppServerConnection {
    client: RpcClient,
    thread_id: NativeId,
    turn: CodexTurn,
    /// Parameters that start every turn.
    turn_params: Value,
    now: fn() -> Timestamp,
    /// Number of the request that started the turn, until its response arrives.
    start_request_id: Option<u64>,
    /// Whether to stop the turn as soon as its id is known.
    cancel_requested: bool,
    /// Events that `next_event` has not returned yet.
    pending_events: VecDeque<ConnectionEvent>,
    /// Answers that are to be sent. A reply callback cannot send them itself, because it has no access to the
    /// connection.
    answer_receiver: mpsc::UnboundedReceiver<Value>,
    answer_sender: mpsc::UnboundedSender<Value>,
}

impl AppServerConnection {
    pub(super) fn new(
        mut client: RpcClient,
        thread_id: NativeId,
        mut turn: CodexTurn,
        turn_params: Value,
        now: fn() -> Timestamp,
    ) -> Self {
        for (method, params) in client.take_early_notifications() {
            turn.convert_notification(&method, &params);
        }
        let (answer_sender, answer_receiver) = mpsc::unbounded_channel();
        Self {
            client,
            thread_id,
            turn,
            turn_params,
            now,
            start_request_id: None,
            cancel_requested: false,
            pending_events: VecDeque::new(),
            answer_receiver,
            answer_sender,
        }
    }

    fn handle_message(&mut self, message: Value) {
        match RpcMessage::parse(message) {
            Some(RpcMessage::Notification(method, params)) => {
                for update in self.turn.convert_notification(&method, &params) {
                    let connection_event = match update {
                        AppServerUpdate::Event(event) => ConnectionEvent::Event(event),
                        AppServerUpdate::TurnEnded(Ok(end)) => ConnectionEvent::TurnEnded(Ok(end)),
                        AppServerUpdate::TurnEnded(Err(refusal)) => self.failure_event(refusal),
                    };
                    self.pending_events.push_back(connection_event);
                }
            }
            Some(RpcMessage::Request(id, method, params)) => {
                self.handle_request(id, &method, &params);
            }
            Some(RpcMessage::Response(request_id, outcome))
                if self.start_request_id == Some(request_id) =>
            {
                self.start_request_id = None;
                match outcome {
                    Ok(response) => {
                        if let Some(id) = response["turn"]["id"].as_str() {
                            self.turn.set_turn_id(id);
                        }
                    }
                    Err(refusal) => {
                        let connection_event = self.failure_event(refusal);
                        self.pending_events.push_back(connection_event);
                    }
                }
            }
            Some(RpcMessage::Response(..)) | None => {}
        }
        if self.cancel_requested && self.turn.turn_id().is_some() {
            self.interrupt_turn();
        }
    }

    fn failure_event(&self, refusal: AgentRefusal) -> ConnectionEvent {
        let refusal = failure::with_retry_delay(refusal, self.turn.rate_limits(), (self.now)());
        ConnectionEvent::TurnEnded(Err(AgentError::from_refusal(PROMPT_OPERATION, refusal)))
    }

    fn handle_request(&mut self, id: Value, method: &str, params: &Value) {
        let codex_request = approval::classify_request(method, params, |predicate| {
            self.turn.find_open_call(predicate)
        });
        match codex_request {
            CodexRequest::Permission(request, format) => {
                let answer_sender = self.answer_sender.clone();
                let reply = Box::new(move |answer| {
                    let result = approval::encode_answer(&format, &answer);
                    // A closed connection needs no answer.
                    let _ = answer_sender.send(json!({"id": id, "result": result}));
                });
                self.pending_events
                    .push_back(ConnectionEvent::PermissionRequested(request, reply));
            }
            CodexRequest::Declined(result) => {
                self.client.wire.send(&json!({"id": id, "result": result}));
            }
            CodexRequest::Unknown => self.client.reject_request(&id, method),
        }
    }

    /// Requests, once, that Codex stop the turn.
    fn interrupt_turn(&mut self) {
        self.cancel_requested = false;
        if let Some(turn_id) = self.turn.turn_id() {
            let params = json!({"threadId": self.thread_id.as_str(), "turnId": turn_id});
            self.client.send_request("turn/interrupt", &params);
        }
    }

    fn send_answers(&mut self) {
        while let Ok(answer) = self.answer_receiver.try_recv() {
            self.client.wire.send(&answer);
        }
    }
}

#[async_trait]
impl AgentConnection for AppServerConnection {
    fn native_id(&self) -> Option<&NativeId> {
        Some(&self.thread_id)
    }

    fn process_identity(&self) -> Option<ProcessIdentity> {
        self.client.wire.process().identity()
    }

    async fn send_prompt(&mut self, prompt: &str) -> Result<(), AgentError> {
        self.turn.begin();
        self.pending_events.clear();
        self.cancel_requested = false;
        let mut params = self.turn_params.clone();
        params["threadId"] = self.thread_id.as_str().into();
        params["input"] = json!([{"type": "text", "text": prompt}]);
        self.start_request_id = Some(self.client.send_request("turn/start", &params));
        Ok(())
    }

    async fn next_event(&mut self) -> ConnectionEvent {
        loop {
            self.send_answers();
            if let Some(event) = self.pending_events.pop_front() {
                return event;
            }
            let line = tokio::select! {
                biased;
                answer = self.answer_receiver.recv() => {
                    if let Some(answer) = answer {
                        self.client.wire.send(&answer);
                    }
                    continue;
                }
                line = self.client.wire.next_line() => line,
            };
            match line {
                Some(OutputLine::Json(message)) => self.handle_message(message),
                Some(OutputLine::Noise(text)) => {
                    return ConnectionEvent::Event(AgentEvent::Garbage(text));
                }
                None => {
                    return ConnectionEvent::TurnEnded(Err(self
                        .client
                        .wire
                        .exit_error(PROMPT_OPERATION)
                        .await));
                }
            }
        }
    }

    fn cancel(&mut self) {
        self.send_answers();
        self.cancel_requested = true;
        if self.turn.turn_id().is_some() {
            self.interrupt_turn();
        }
    }

    fn is_alive(&mut self) -> bool {
        self.client.wire.is_alive()
    }

    async fn close(self: Box<Self>) -> Vec<GuardAction> {
        self.client.wire.stop().await;
        Vec::new()
    }
}
