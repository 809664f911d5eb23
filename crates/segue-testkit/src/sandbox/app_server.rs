//! Client of `codex app-server` for tests.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::LIMIT;
use super::acp::unknown;
use super::json_lines::{Envelope, RpcError, Spoken, Wire};

/// A running `codex app-server` and its client. Dropping this value kills the server's process group.
pub struct AppServer {
    wire: Wire,
    project: PathBuf,
    /// Notifications that arrived while the client waited for a response: method and parameters, in order.
    told: Vec<(String, Value)>,
}

/// Result of a turn.
#[derive(Debug)]
pub struct Turned {
    /// `turn` member of `turn/completed`.
    pub turn: Value,
    /// All notifications during the turn: method and parameters, in order.
    pub told: Vec<(String, Value)>,
}

impl Turned {
    /// Returns the status: `completed`, `interrupted` or `failed`.
    pub fn status(&self) -> &str {
        self.turn["status"].as_str().unwrap_or_default()
    }

    /// Returns the id of the turn.
    pub fn id(&self) -> &str {
        self.turn["id"].as_str().unwrap_or_default()
    }

    /// Returns the messages of the agent.
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

    /// Sends `thread/start` and returns the id of the thread.
    pub fn start_thread(&mut self) -> String {
        let params = json!({"cwd": self.project});
        thread_id(&self.call("thread/start", &params).unwrap())
    }

    /// Sends `thread/resume`.
    pub fn resume(&mut self, thread: &str) -> Result<Value, RpcError> {
        self.call("thread/resume", &json!({"threadId": thread}))
    }

    /// Sends `thread/fork` and returns the id of the new thread.
    pub fn fork(&mut self, thread: &str) -> Result<String, RpcError> {
        let result = self.call("thread/fork", &json!({"threadId": thread}))?;
        Ok(thread_id(&result))
    }

    /// Sends `turn/start` and waits for the end of the turn.
    pub fn turn(&mut self, thread: &str, text: &str) -> Turned {
        self.turn_then_interrupt(thread, text, |_, _| false)
    }

    /// Sends `turn/start`, interrupts the turn at the first notification that `when` accepts, and waits for its end.
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

    /// Sends `thread/compact/start` and waits for the end of the turn that it creates.
    pub fn compact(&mut self, thread: &str) -> Turned {
        self.told.clear();
        let params = json!({"threadId": thread});
        self.call("thread/compact/start", &params).unwrap();
        self.finish(thread, None, |_, _| false)
    }

    /// Sends `thread/revert`, which drops a turn and all later ones.
    pub fn revert(&mut self, thread: &str, before_turn: &str) -> Result<Value, RpcError> {
        let params = json!({"threadId": thread, "beforeTurnId": before_turn});
        self.call("thread/revert", &params)
    }

    /// Sends a request and waits for the response.
    pub fn call(&mut self, method: &str, params: &Value) -> Result<Value, RpcError> {
        let id = self.wire.ask(method, params);
        let told = &mut self.told;
        self.wire.wait(id, LIMIT, |wire, spoken| match spoken {
            Spoken::Told { method, params } => told.push((method, params)),
            Spoken::Asked { id, method, .. } => wire.answer(&id, Err(unknown(&method))),
        })
    }

    /// Returns the standard error output so far.
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
