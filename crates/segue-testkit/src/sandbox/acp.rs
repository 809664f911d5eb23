//! Minimal ACP client for tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::LIMIT;
use super::json_lines::{Envelope, RpcError, Spoken, Wire};

/// Answer to an agent's permission requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// First option of the kind `allow_once`.
    Allow,
    /// First option of the kind `reject_once`.
    Reject,
}

/// A running ACP agent and its client. Dropping this value kills the agent's process group.
pub struct AcpDriver {
    wire: Wire,
    project: PathBuf,
    initialized: Value,
    permission: Permission,
    limit: Duration,
    updates: Vec<Value>,
    permissions: Vec<Value>,
}

/// Result of a prompt.
#[derive(Debug)]
pub struct Prompted {
    /// Response to `session/prompt`.
    pub outcome: Result<Value, RpcError>,
    /// Every `session/update` during the turn (its `update` member), in order.
    pub updates: Vec<Value>,
    /// Parameters of the permission requests during the turn, in order.
    pub permissions: Vec<Value>,
}

impl Prompted {
    /// Returns the reason for the end of the turn. `None` if the turn failed.
    pub fn stop_reason(&self) -> Option<&str> {
        self.outcome.as_ref().ok()?["stopReason"].as_str()
    }

    /// Returns the text of all messages of the agent.
    pub fn text(&self) -> String {
        self.chunks("agent_message_chunk")
    }

    /// Returns the text of all thoughts of the agent.
    pub fn thoughts(&self) -> String {
        self.chunks("agent_thought_chunk")
    }

    /// Returns the updates of one kind.
    pub fn updates_of(&self, kind: &str) -> Vec<&Value> {
        let updates = self.updates.iter();
        updates
            .filter(|update| update["sessionUpdate"] == kind)
            .collect()
    }

    fn chunks(&self, kind: &str) -> String {
        let updates = self.updates_of(kind).into_iter();
        updates
            .filter_map(|update| update["content"]["text"].as_str())
            .collect()
    }
}

impl AcpDriver {
    pub(crate) fn start(command: Command, project: PathBuf) -> Self {
        let mut driver = Self {
            wire: Wire::start(command, Envelope::JsonRpc),
            project,
            initialized: Value::Null,
            permission: Permission::Allow,
            limit: LIMIT,
            updates: Vec::new(),
            permissions: Vec::new(),
        };
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
            "clientInfo": {"name": "segue-testkit", "version": "0"},
        });
        driver.initialized = driver.call("initialize", &params).unwrap();
        driver
    }

    /// Returns the response to `initialize`.
    pub fn initialized(&self) -> &Value {
        &self.initialized
    }

    /// Sets the answer to later permission requests. The default is [`Permission::Allow`].
    pub fn answer_permissions(&mut self, permission: Permission) {
        self.permission = permission;
    }

    /// Sets the time limit of each later call.
    pub fn limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Creates a session in the project and returns its id.
    pub fn new_session(&mut self) -> String {
        let params = json!({"cwd": self.project, "mcpServers": []});
        let result = self.call("session/new", &params).unwrap();
        result["sessionId"].as_str().unwrap().to_owned()
    }

    /// Sends a prompt and waits for the end of the turn.
    pub fn prompt(&mut self, session: &str, text: &str) -> Prompted {
        self.prompt_then_cancel(session, text, |_| false)
    }

    /// Sends a prompt, cancels the turn at the first update that `when` accepts, and waits for the end of the turn.
    pub fn prompt_then_cancel(
        &mut self,
        session: &str,
        text: &str,
        mut when: impl FnMut(&Value) -> bool,
    ) -> Prompted {
        self.updates.clear();
        self.permissions.clear();
        let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        let id = self.wire.ask("session/prompt", &params);
        let mut cancelled = false;
        let outcome = self.wait(id, |wire, update| {
            if !cancelled && when(update) {
                cancelled = true;
                wire.tell("session/cancel", &json!({"sessionId": session}));
            }
        });
        Prompted {
            outcome,
            updates: std::mem::take(&mut self.updates),
            permissions: std::mem::take(&mut self.permissions),
        }
    }

    /// Sends `session/load` and returns the replayed updates.
    pub fn load(&mut self, session: &str) -> Result<Vec<Value>, RpcError> {
        self.updates.clear();
        self.about("session/load", session)?;
        Ok(std::mem::take(&mut self.updates))
    }

    /// Sends `session/resume`, which continues a session without a replay.
    pub fn resume(&mut self, session: &str) -> Result<Value, RpcError> {
        self.about("session/resume", session)
    }

    /// Sends `session/fork` and returns the id of the new session.
    pub fn fork(&mut self, session: &str) -> Result<String, RpcError> {
        let result = self.about("session/fork", session)?;
        Ok(result["sessionId"].as_str().unwrap().to_owned())
    }

    /// Sends `session/list` for the project and returns the sessions.
    pub fn list(&mut self) -> Result<Vec<Value>, RpcError> {
        let mut result = self.call("session/list", &json!({"cwd": self.project}))?;
        let sessions = result["sessions"].as_array_mut();
        Ok(sessions.map(std::mem::take).unwrap_or_default())
    }

    fn about(&mut self, method: &str, session: &str) -> Result<Value, RpcError> {
        let params = json!({"sessionId": session, "cwd": self.project, "mcpServers": []});
        self.call(method, &params)
    }

    /// Sends a request and waits for the response.
    pub fn call(&mut self, method: &str, params: &Value) -> Result<Value, RpcError> {
        let id = self.wire.ask(method, params);
        self.wait(id, |_, _| {})
    }

    /// Sends a notification.
    pub fn tell(&mut self, method: &str, params: &Value) {
        self.wire.tell(method, params);
    }

    /// Returns the standard error output so far.
    pub fn errors(&self) -> String {
        self.wire.errors()
    }

    /// Returns the id of the agent's process, which is also the id of its process group.
    pub fn id(&self) -> u32 {
        self.wire.id()
    }

    /// Closes the agent's standard input. Returns `true` if the agent ended within the limit.
    #[must_use]
    pub fn close(self, limit: Duration) -> bool {
        self.wire.close(limit)
    }

    /// Returns the directory in which sessions are created.
    pub fn project(&self) -> &Path {
        &self.project
    }

    fn wait(
        &mut self,
        id: u64,
        mut on_update: impl FnMut(&mut Wire, &Value),
    ) -> Result<Value, RpcError> {
        let (updates, permissions) = (&mut self.updates, &mut self.permissions);
        let permission = self.permission;
        self.wire.wait(id, self.limit, |wire, spoken| match spoken {
            Spoken::Told { method, mut params } if method == "session/update" => {
                let update = params["update"].take();
                on_update(wire, &update);
                updates.push(update);
            }
            Spoken::Told { .. } => {}
            Spoken::Asked { id, method, params } if method == "session/request_permission" => {
                wire.answer(&id, Ok(decided(permission, &params)));
                permissions.push(params);
            }
            Spoken::Asked { id, method, .. } => wire.answer(&id, Err(unknown(&method))),
        })
    }
}

fn decided(permission: Permission, params: &Value) -> Value {
    let kind = match permission {
        Permission::Allow => "allow_once",
        Permission::Reject => "reject_once",
    };
    let options = params["options"].as_array().into_iter().flatten();
    let mut fitting = options.filter(|option| option["kind"] == kind);
    match fitting.next() {
        Some(option) => json!({"outcome": {"outcome": "selected", "optionId": option["optionId"]}}),
        None => json!({"outcome": {"outcome": "cancelled"}}),
    }
}

/// Creates the error for a method that the client does not support.
pub(crate) fn unknown(method: &str) -> RpcError {
    RpcError {
        code: -32601,
        message: format!("Method not found: {method}"),
        data: Value::Null,
    }
}
