//! A connection to `app-server` with an open thread.

use std::collections::VecDeque;

use async_trait::async_trait;
use jiff::Timestamp;
use segue_core::agent::ProcessMark;
use segue_core::id::NativeId;
use segue_core::session::AgentEvent;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::ask::{self, Question};
use super::talk::{Heard, Talk};
use super::turn::{Told, Turn};
use crate::classify::Refusal;
use crate::codex::failure;
use crate::wire::Line;
use crate::{AgentError, Conversation, Step};

const PROMPT: &str = "the prompt";

/// An open thread and its current turn.
pub(super) struct Thread {
    talk: Talk,
    id: NativeId,
    turn: Turn,
    /// Parameters that start every turn.
    each_turn: Value,
    now: fn() -> Timestamp,
    /// Number of the request that started the turn, until its response arrives.
    beginning: Option<u64>,
    /// Whether to stop the turn as soon as its id is known.
    stopping: bool,
    /// Events that `next` has not returned yet.
    waiting: VecDeque<Step>,
    /// Answers that are to be sent. A reply callback cannot send them itself, because it has no access to the
    /// connection.
    answers: mpsc::UnboundedReceiver<Value>,
    answerer: mpsc::UnboundedSender<Value>,
}

impl Thread {
    pub(super) fn new(
        mut talk: Talk,
        id: NativeId,
        mut turn: Turn,
        each_turn: Value,
        now: fn() -> Timestamp,
    ) -> Self {
        for (method, params) in talk.early() {
            turn.told(&method, &params);
        }
        let (answerer, answers) = mpsc::unbounded_channel();
        Self {
            talk,
            id,
            turn,
            each_turn,
            now,
            beginning: None,
            stopping: false,
            waiting: VecDeque::new(),
            answers,
            answerer,
        }
    }

    fn heard(&mut self, message: Value) {
        match Heard::parse(message) {
            Some(Heard::Tells(method, params)) => {
                for told in self.turn.told(&method, &params) {
                    let step = match told {
                        Told::Event(event) => Step::Event(event),
                        Told::Over(Ok(end)) => Step::Done(Ok(end)),
                        Told::Over(Err(refusal)) => self.failed(refusal),
                    };
                    self.waiting.push_back(step);
                }
            }
            Some(Heard::Asks(id, method, params)) => self.asked(id, &method, &params),
            Some(Heard::Answer(number, outcome)) if self.beginning == Some(number) => {
                self.beginning = None;
                match outcome {
                    Ok(begun) => {
                        if let Some(id) = begun["turn"]["id"].as_str() {
                            self.turn.named(id);
                        }
                    }
                    Err(refusal) => {
                        let step = self.failed(refusal);
                        self.waiting.push_back(step);
                    }
                }
            }
            Some(Heard::Answer(..)) | None => {}
        }
        if self.stopping && self.turn.id().is_some() {
            self.stop();
        }
    }

    fn failed(&self, refusal: Refusal) -> Step {
        let refusal = failure::with_limits(refusal, self.turn.limits(), (self.now)());
        Step::Done(Err(AgentError::refused(PROMPT, refusal)))
    }

    fn asked(&mut self, id: Value, method: &str, params: &Value) {
        let question = ask::question(method, params, |wanted| self.turn.open(wanted));
        match question {
            Question::May(request, form) => {
                let answerer = self.answerer.clone();
                let reply = Box::new(move |answer| {
                    let result = ask::answer(&form, &answer);
                    // A closed connection needs no answer.
                    let _ = answerer.send(json!({"id": id, "result": result}));
                });
                self.waiting.push_back(Step::Ask(request, reply));
            }
            Question::Nobody(result) => self.talk.wire.send(&json!({"id": id, "result": result})),
            Question::Unknown => self.talk.cannot(&id, method),
        }
    }

    /// Requests, once, that Codex stop the turn.
    fn stop(&mut self) {
        self.stopping = false;
        if let Some(turn) = self.turn.id() {
            let params = json!({"threadId": self.id.as_str(), "turnId": turn});
            self.talk.ask("turn/interrupt", &params);
        }
    }

    fn send_answers(&mut self) {
        while let Ok(answer) = self.answers.try_recv() {
            self.talk.wire.send(&answer);
        }
    }
}

#[async_trait]
impl Conversation for Thread {
    fn native_id(&self) -> Option<&NativeId> {
        Some(&self.id)
    }

    fn process(&self) -> Option<ProcessMark> {
        self.talk.wire.process().mark()
    }

    async fn send(&mut self, prompt: &str) -> Result<(), AgentError> {
        self.turn.begin();
        self.waiting.clear();
        self.stopping = false;
        let mut params = self.each_turn.clone();
        params["threadId"] = self.id.as_str().into();
        params["input"] = json!([{"type": "text", "text": prompt}]);
        self.beginning = Some(self.talk.ask("turn/start", &params));
        Ok(())
    }

    async fn next(&mut self) -> Step {
        loop {
            self.send_answers();
            if let Some(step) = self.waiting.pop_front() {
                return step;
            }
            let line = tokio::select! {
                biased;
                answer = self.answers.recv() => {
                    if let Some(answer) = answer {
                        self.talk.wire.send(&answer);
                    }
                    continue;
                }
                line = self.talk.wire.next() => line,
            };
            match line {
                Some(Line::Json(message)) => self.heard(message),
                Some(Line::Noise(text)) => return Step::Event(AgentEvent::Garbage(text)),
                None => return Step::Done(Err(self.talk.wire.gone(PROMPT).await)),
            }
        }
    }

    fn cancel(&mut self) {
        self.send_answers();
        self.stopping = true;
        if self.turn.id().is_some() {
            self.stop();
        }
    }

    fn is_alive(&mut self) -> bool {
        self.talk.wire.is_alive()
    }

    async fn close(self: Box<Self>) -> Vec<String> {
        self.talk.wire.stop().await;
        Vec::new()
    }
}
