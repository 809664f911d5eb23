//! Minimal ACP client for tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::DEFAULT_CLI_TIMEOUT;
use super::json_lines::{JsonLineConnection, ProgramMessage, RpcEnvelope, RpcError};

/// Answer to an agent's permission requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcpPermissionAnswer {
    /// First option of the kind `allow_once`.
    Allow,
    /// First option of the kind `reject_once`.
    Reject,
}

/// A running ACP agent and its client. Dropping this value kills the agent's process group.
pub struct AcpDriver {
    connection: JsonLineConnection,
    project: PathBuf,
    initialize_response: Value,
    permission_answer: AcpPermissionAnswer,
    timeout: Duration,
    updates: Vec<Value>,
    permission_requests: Vec<Value>,
}

/// Result of a prompt.
#[derive(Debug)]
pub struct AcpPromptOutcome {
    /// Response to `session/prompt`.
    pub response: Result<Value, RpcError>,
    /// Every `session/update` during the turn (its `update` member), in order.
    pub updates: Vec<Value>,
    /// Parameters of the permission requests during the turn, in order.
    pub permission_requests: Vec<Value>,
}

impl AcpPromptOutcome {
    /// Returns the reason for the end of the turn. `None` if the turn failed.
    pub fn stop_reason(&self) -> Option<&str> {
        self.response.as_ref().ok()?["stopReason"].as_str()
    }

    /// Returns the text of all messages of the agent.
    pub fn text(&self) -> String {
        self.join_chunks("agent_message_chunk")
    }

    /// Returns the text of all thoughts of the agent.
    pub fn thoughts(&self) -> String {
        self.join_chunks("agent_thought_chunk")
    }

    /// Returns the updates of one kind.
    pub fn updates_of_kind(&self, kind: &str) -> Vec<&Value> {
        let updates = self.updates.iter();
        updates
            .filter(|update| update["sessionUpdate"] == kind)
            .collect()
    }

    fn join_chunks(&self, kind: &str) -> String {
        let updates = self.updates_of_kind(kind).into_iter();
        updates
            .filter_map(|update| update["content"]["text"].as_str())
            .collect()
    }
}

impl AcpDriver {
    pub(crate) fn start(command: Command, project: PathBuf) -> Self {
        let mut driver = Self {
            connection: JsonLineConnection::start(command, RpcEnvelope::JsonRpc),
            project,
            initialize_response: Value::Null,
            permission_answer: AcpPermissionAnswer::Allow,
            timeout: DEFAULT_CLI_TIMEOUT,
            updates: Vec::new(),
            permission_requests: Vec::new(),
        };
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
            "clientInfo": {"name": "segue-testkit", "version": "0"},
        });
        driver.initialize_response = driver.call("initialize", &params).unwrap();
        driver
    }

    /// Returns the response to `initialize`.
    pub fn initialize_response(&self) -> &Value {
        &self.initialize_response
    }

    /// Sets the answer to later permission requests. The default is [`AcpPermissionAnswer::Allow`].
    pub fn answer_permissions(&mut self, answer: AcpPermissionAnswer) {
        self.permission_answer = answer;
    }

    /// Sets the time limit of each later call.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Creates a session in the project and returns its id.
    pub fn new_session(&mut self) -> String {
        let params = json!({"cwd": self.project, "mcpServers": []});
        let result = self.call("session/new", &params).unwrap();
        result["sessionId"].as_str().unwrap().to_owned()
    }

    /// Sends a prompt and waits for the end of the turn.
    pub fn prompt(&mut self, session: &str, text: &str) -> AcpPromptOutcome {
        self.prompt_and_cancel(session, text, |_| false)
    }

    /// Sends a prompt, cancels the turn at the first update that `should_cancel` accepts, and waits for the end of the
    /// turn.
    pub fn prompt_and_cancel(
        &mut self,
        session: &str,
        text: &str,
        mut should_cancel: impl FnMut(&Value) -> bool,
    ) -> AcpPromptOutcome {
        self.updates.clear();
        self.permission_requests.clear();
        let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        let id = self.connection.send_request("session/prompt", &params);
        let mut is_cancelled = false;
        let response = self.wait_for_response(id, |connection, update| {
            if !is_cancelled && should_cancel(update) {
                is_cancelled = true;
                connection.send_notification("session/cancel", &json!({"sessionId": session}));
            }
        });
        AcpPromptOutcome {
            response,
            updates: std::mem::take(&mut self.updates),
            permission_requests: std::mem::take(&mut self.permission_requests),
        }
    }

    /// Sends `session/load` and returns the replayed updates.
    pub fn load_session(&mut self, session: &str) -> Result<Vec<Value>, RpcError> {
        self.updates.clear();
        self.call_with_session("session/load", session)?;
        Ok(std::mem::take(&mut self.updates))
    }

    /// Sends `session/resume`, which continues a session without a replay.
    pub fn resume_session(&mut self, session: &str) -> Result<Value, RpcError> {
        self.call_with_session("session/resume", session)
    }

    /// Sends `session/fork` and returns the id of the new session.
    pub fn fork_session(&mut self, session: &str) -> Result<String, RpcError> {
        let result = self.call_with_session("session/fork", session)?;
        Ok(result["sessionId"].as_str().unwrap().to_owned())
    }

    /// Sends `session/list` for the project and returns the sessions.
    pub fn list_sessions(&mut self) -> Result<Vec<Value>, RpcError> {
        let mut result = self.call("session/list", &json!({"cwd": self.project}))?;
        let sessions = result["sessions"].as_array_mut();
        Ok(sessions.map(std::mem::take).unwrap_or_default())
    }

    fn call_with_session(&mut self, method: &str, session: &str) -> Result<Value, RpcError> {
        let params = json!({"sessionId": session, "cwd": self.project, "mcpServers": []});
        self.call(method, &params)
    }

    /// Sends a request and waits for the response.
    pub fn call(&mut self, method: &str, params: &Value) -> Result<Value, RpcError> {
        let id = self.connection.send_request(method, params);
        self.wait_for_response(id, |_, _| {})
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: &Value) {
        self.connection.send_notification(method, params);
    }

    /// Returns the standard error output so far.
    pub fn stderr(&self) -> String {
        self.connection.stderr()
    }

    /// Returns the id of the agent's process, which is also the id of its process group.
    pub fn process_id(&self) -> u32 {
        self.connection.process_id()
    }

    /// Closes the agent's standard input. Returns `true` if the agent ended within the limit.
    #[must_use]
    pub fn close(self, limit: Duration) -> bool {
        self.connection.close(limit)
    }

    /// Returns the directory in which sessions are created.
    pub fn project(&self) -> &Path {
        &self.project
    }

    fn wait_for_response(
        &mut self,
        id: u64,
        mut handle_update: impl FnMut(&mut JsonLineConnection, &Value),
    ) -> Result<Value, RpcError> {
        let (updates, permission_requests) = (&mut self.updates, &mut self.permission_requests);
        let answer = self.permission_answer;
        self.connection
            .wait_for_response(id, self.timeout, |connection, message| match message {
                ProgramMessage::Notification { method, mut params }
                    if method == "session/update" =>
                {
                    let update = params["update"].take();
                    handle_update(connection, &update);
                    updates.push(update);
                }
                ProgramMessage::Notification { .. } => {}
                ProgramMessage::Request { id, method, params }
                    if method == "session/request_permission" =>
                {
                    connection.send_response(&id, Ok(permission_response(answer, &params)));
                    permission_requests.push(params);
                }
                ProgramMessage::Request { id, method, .. } => {
                    connection.send_response(&id, Err(method_not_found(&method)));
                }
            })
    }
}

fn permission_response(answer: AcpPermissionAnswer, params: &Value) -> Value {
    let kind = match answer {
        AcpPermissionAnswer::Allow => "allow_once",
        AcpPermissionAnswer::Reject => "reject_once",
    };
    let options = params["options"].as_array().into_iter().flatten();
    let mut matching = options.filter(|option| option["kind"] == kind);
    match matching.next() {
        Some(option) => json!({"outcome": {"outcome": "selected", "optionId": option["optionId"]}}),
        None => json!({"outcome": {"outcome": "cancelled"}}),
    }
}

/// Creates the error for a method that the client does not support.
pub(crate) fn method_not_found(method: &str) -> RpcError {
    RpcError {
        code: -32601,
        message: format!("Method not found: {method}"),
        data: Value::Null,
    }
}
