//! Client of `codex app-server` for tests.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::DEFAULT_CLI_TIMEOUT;
use super::acp::method_not_found;
use super::json_lines::{JsonLineConnection, ProgramMessage, RpcEnvelope, RpcError};

/// A running `codex app-server` and its client. Dropping this value kills the server's process group.
pub struct AppServerDriver {
    connection: JsonLineConnection,
    project: PathBuf,
    /// Notifications that arrived while the client waited for a response: method and parameters, in order.
    notifications: Vec<(String, Value)>,
}

/// Result of a turn.
#[derive(Debug)]
pub struct AppServerTurn {
    /// `turn` member of `turn/completed`.
    pub turn: Value,
    /// All notifications during the turn: method and parameters, in order.
    pub notifications: Vec<(String, Value)>,
}

impl AppServerTurn {
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
            .notifications
            .iter()
            .filter(|(method, _)| method == "item/completed");
        items
            .filter(|(_, params)| params["item"]["type"] == "agentMessage")
            .filter_map(|(_, params)| params["item"]["text"].as_str())
            .collect()
    }
}

impl AppServerDriver {
    pub(crate) fn start(command: Command, project: PathBuf) -> Self {
        let mut server = Self {
            connection: JsonLineConnection::start(command, RpcEnvelope::Unversioned),
            project,
            notifications: Vec::new(),
        };
        let params = json!({
            "clientInfo": {"name": "segue-testkit", "version": "0"},
            "capabilities": {"experimentalApi": true},
        });
        server.call("initialize", &params).unwrap();
        server
            .connection
            .send_notification("initialized", &json!({}));
        server
    }

    /// Sends `thread/start` and returns the id of the thread.
    pub fn start_thread(&mut self) -> String {
        let params = json!({"cwd": self.project});
        thread_id(&self.call("thread/start", &params).unwrap())
    }

    /// Sends `thread/resume`.
    pub fn resume_thread(&mut self, thread: &str) -> Result<Value, RpcError> {
        self.call("thread/resume", &json!({"threadId": thread}))
    }

    /// Sends `thread/fork` and returns the id of the new thread.
    pub fn fork_thread(&mut self, thread: &str) -> Result<String, RpcError> {
        let result = self.call("thread/fork", &json!({"threadId": thread}))?;
        Ok(thread_id(&result))
    }

    /// Sends `turn/start` and waits for the end of the turn.
    pub fn run_turn(&mut self, thread: &str, text: &str) -> AppServerTurn {
        self.run_and_interrupt_turn(thread, text, |_, _| false)
    }

    /// Sends `turn/start`, interrupts the turn at the first notification that `should_interrupt` accepts, and waits for
    /// the end of the turn.
    pub fn run_and_interrupt_turn(
        &mut self,
        thread: &str,
        text: &str,
        should_interrupt: impl FnMut(&str, &Value) -> bool,
    ) -> AppServerTurn {
        let input = json!([{"type": "text", "text": text}]);
        let params = json!({"threadId": thread, "input": input});
        self.notifications.clear();
        let started = self.call("turn/start", &params).unwrap();
        self.wait_for_turn_end(thread, started["turn"]["id"].as_str(), should_interrupt)
    }

    /// Sends `thread/compact/start` and waits for the end of the turn that it creates.
    pub fn compact_thread(&mut self, thread: &str) -> AppServerTurn {
        self.notifications.clear();
        let params = json!({"threadId": thread});
        self.call("thread/compact/start", &params).unwrap();
        self.wait_for_turn_end(thread, None, |_, _| false)
    }

    /// Sends `thread/revert`, which drops a turn and all later ones.
    pub fn revert_thread(&mut self, thread: &str, before_turn: &str) -> Result<Value, RpcError> {
        let params = json!({"threadId": thread, "beforeTurnId": before_turn});
        self.call("thread/revert", &params)
    }

    /// Sends a request and waits for the response.
    pub fn call(&mut self, method: &str, params: &Value) -> Result<Value, RpcError> {
        let id = self.connection.send_request(method, params);
        let notifications = &mut self.notifications;
        self.connection
            .wait_for_response(
                id,
                DEFAULT_CLI_TIMEOUT,
                |connection, message| match message {
                    ProgramMessage::Notification { method, params } => {
                        notifications.push((method, params));
                    }
                    ProgramMessage::Request { id, method, .. } => {
                        connection.send_response(&id, Err(method_not_found(&method)));
                    }
                },
            )
    }

    /// Returns the standard error output so far.
    pub fn stderr(&self) -> String {
        self.connection.stderr()
    }

    fn wait_for_turn_end(
        &mut self,
        thread: &str,
        turn_id: Option<&str>,
        mut should_interrupt: impl FnMut(&str, &Value) -> bool,
    ) -> AppServerTurn {
        let mut notifications = std::mem::take(&mut self.notifications);
        let completed_turn = |(method, params): &(String, Value)| {
            (method == "turn/completed").then(|| params["turn"].clone())
        };
        if let Some(turn) = notifications.iter().find_map(completed_turn) {
            return AppServerTurn {
                turn,
                notifications,
            };
        }
        let mut is_interrupted = false;
        let turn = self
            .connection
            .wait_for_message(DEFAULT_CLI_TIMEOUT, |connection, message| match message {
                ProgramMessage::Notification { method, params } => {
                    if !is_interrupted && should_interrupt(&method, &params) {
                        is_interrupted = true;
                        connection.send_request(
                            "turn/interrupt",
                            &json!({"threadId": thread, "turnId": turn_id}),
                        );
                    }
                    let notification = (method, params);
                    let ended_turn = completed_turn(&notification);
                    notifications.push(notification);
                    ended_turn
                }
                ProgramMessage::Request { id, method, .. } => {
                    connection.send_response(&id, Err(method_not_found(&method)));
                    None
                }
            });
        AppServerTurn {
            turn,
            notifications,
        }
    }
}

fn thread_id(result: &Value) -> String {
    result["thread"]["id"].as_str().unwrap().to_owned()
}
