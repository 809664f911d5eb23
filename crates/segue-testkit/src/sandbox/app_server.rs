//! A client of `codex app-server`, for tests.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::LIMIT;
use super::acp::unknown;
use super::wire::{Envelope, RpcError, Spoken, Wire};

/// A `codex app-server` that runs. It ends, with its whole process group, when this is dropped.
pub struct AppServer {
    wire: Wire,
    project: PathBuf,
    /// What it told while it was being asked something.
    told: Vec<(String, Value)>,
}

/// What came of a turn.
#[derive(Debug)]
pub struct Turned {
    /// The `turn` of `turn/completed`.
    pub turn: Value,
    /// Everything that was told meanwhile: method and parameters, in order.
    pub told: Vec<(String, Value)>,
}

impl Turned {
    /// `completed`, `interrupted` or `failed`.
    pub fn status(&self) -> &str {
        self.turn["status"].as_str().unwrap_or_default()
    }

    /// The id of the turn.
    pub fn id(&self) -> &str {
        self.turn["id"].as_str().unwrap_or_default()
    }

    /// What the agent said, message by message.
    pub fn messages(&self) -> Vec<&str> {
        let items = self
            .told
            .iter()
            .filter(|(method, _)| method == "item/completed");
        items
            .filter(|(_, params)| params["item"]["type"] == "agentMessage")
            .filter_map(|(_, params)| params["item"]["text"].as_str())
            .collect()
    }
}

impl AppServer {
    pub(crate) fn start(command: Command, project: PathBuf) -> Self {
        let mut server = Self {
            wire: Wire::start(command, Envelope::Bare),
            project,
            told: Vec::new(),
        };
        let client = json!({
            "clientInfo": {"name": "segue-testkit", "version": "0"},
            "capabilities": {"experimentalApi": true},
        });
        server.call("initialize", &client).unwrap();
        server.wire.tell("initialized", &json!({}));
        server
    }

    /// `thread/start`; returns the id of the thread.
    pub fn start_thread(&mut self) -> String {
        let params = json!({"cwd": self.project});
        thread_id(&self.call("thread/start", &params).unwrap())
    }

    /// `thread/resume`.
    pub fn resume(&mut self, thread: &str) -> Result<Value, RpcError> {
        self.call("thread/resume", &json!({"threadId": thread}))
    }

    /// `thread/fork`; returns the id of the new thread.
    pub fn fork(&mut self, thread: &str) -> Result<String, RpcError> {
        let result = self.call("thread/fork", &json!({"threadId": thread}))?;
        Ok(thread_id(&result))
    }

    /// `turn/start`, to the end of the turn.
    pub fn turn(&mut self, thread: &str, text: &str) -> Turned {
        self.turn_then_interrupt(thread, text, |_, _| false)
    }

    /// `turn/start`; interrupts at the first notification that `when` takes, and waits for the end of the turn.
    pub fn turn_then_interrupt(
        &mut self,
        thread: &str,
        text: &str,
        when: impl FnMut(&str, &Value) -> bool,
    ) -> Turned {
        let input = json!([{"type": "text", "text": text}]);
        let params = json!({"threadId": thread, "input": input});
        self.told.clear();
        let started = self.call("turn/start", &params).unwrap();
        self.finish(thread, started["turn"]["id"].as_str(), when)
    }

    /// `thread/compact/start`, to the end of the turn it makes.
    pub fn compact(&mut self, thread: &str) -> Turned {
        self.told.clear();
        let params = json!({"threadId": thread});
        self.call("thread/compact/start", &params).unwrap();
        self.finish(thread, None, |_, _| false)
    }

    /// `thread/revert`: drops a turn and all after it.
    pub fn revert(&mut self, thread: &str, before_turn: &str) -> Result<Value, RpcError> {
        let params = json!({"threadId": thread, "beforeTurnId": before_turn});
        self.call("thread/revert", &params)
    }

    /// Any request.
    pub fn call(&mut self, method: &str, params: &Value) -> Result<Value, RpcError> {
        let id = self.wire.ask(method, params);
        let told = &mut self.told;
        self.wire.wait(id, LIMIT, |wire, spoken| match spoken {
            Spoken::Told { method, params } => told.push((method, params)),
            Spoken::Asked { id, method, .. } => wire.answer(&id, Err(unknown(&method))),
        })
    }

    /// What it wrote to standard error so far.
    pub fn errors(&self) -> String {
        self.wire.errors()
    }

    fn finish(
        &mut self,
        thread: &str,
        turn: Option<&str>,
        mut when: impl FnMut(&str, &Value) -> bool,
    ) -> Turned {
        let mut told = std::mem::take(&mut self.told);
        let done = |(method, params): &(String, Value)| {
            (method == "turn/completed").then(|| params["turn"].clone())
        };
        if let Some(turn) = told.iter().find_map(done) {
            return Turned { turn, told };
        }
        let mut interrupted = false;
        let turn = self.wire.listen(LIMIT, |wire, spoken| match spoken {
            Spoken::Told { method, params } => {
                if !interrupted && when(&method, &params) {
                    interrupted = true;
                    wire.ask(
                        "turn/interrupt",
                        &json!({"threadId": thread, "turnId": turn}),
                    );
                }
                let entry = (method, params);
                let end = done(&entry);
                told.push(entry);
                end
            }
            Spoken::Asked { id, method, .. } => {
                wire.answer(&id, Err(unknown(&method)));
                None
            }
        });
        Turned { turn, told }
    }
}

fn thread_id(result: &Value) -> String {
    result["thread"]["id"].as_str().unwrap().to_owned()
}
