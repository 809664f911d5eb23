//! JSON-lines connection to a program, on the client's side: requests to the program, and the program's own requests
//! and notifications.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::kill_group;

/// An error response of the program.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// Error code.
    pub code: i64,
    /// Error message.
    pub message: String,
    /// Additional data.
    pub data: Value,
}

/// Message format: with or without `"jsonrpc": "2.0"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RpcEnvelope {
    JsonRpc,
    Unversioned,
}

/// A message of the program that is not a response.
#[derive(Debug, Clone)]
pub(crate) enum ProgramMessage {
    /// Request, which needs a response.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    /// Notification.
    Notification { method: String, params: Value },
}

/// A connection to a running program. Dropping it kills the program's process group.
pub(crate) struct JsonLineConnection {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    stderr: Arc<Mutex<String>>,
    envelope: RpcEnvelope,
    last_id: u64,
}

impl JsonLineConnection {
    /// Starts a command, which must lead a process group.
    pub(crate) fn start(mut command: Command, envelope: RpcEnvelope) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, messages) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || read_messages(stdout, &sender));
        let stderr_text = Arc::new(Mutex::new(String::new()));
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let shared = Arc::clone(&stderr_text);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                *shared.lock().unwrap() += &(line + "\n");
            }
        });
        Self {
            stdin: child.stdin.take(),
            child,
            messages,
            stderr: stderr_text,
            envelope,
            last_id: 0,
        }
    }

    /// Returns the standard error output so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Sends a request and returns its id.
    pub(crate) fn send_request(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(json!({"id": id, "method": method, "params": params}));
        id
    }

    /// Sends a notification.
    pub(crate) fn send_notification(&mut self, method: &str, params: &Value) {
        self.send(json!({"method": method, "params": params}));
    }

    /// Sends the response to a request of the program.
    pub(crate) fn send_response(&mut self, id: &Value, response: Result<Value, RpcError>) {
        self.send(match response {
            Ok(result) => json!({"id": id, "result": result}),
            Err(error) => {
                json!({"id": id, "error": {"code": error.code, "message": error.message}})
            }
        });
    }

    fn send(&mut self, mut message: Value) {
        if self.envelope == RpcEnvelope::JsonRpc {
            message["jsonrpc"] = json!("2.0");
        }
        let stdin = self.stdin.as_mut().expect("standard input was closed");
        let write_result = writeln!(stdin, "{message}").and_then(|()| stdin.flush());
        if let Err(error) = write_result {
            panic!("cannot send {message}: {error}\n{}", self.stderr());
        }
    }

    /// Waits for the response to request `request_id`. Calls `handle_message` with this connection for each earlier
    /// request or notification.
    pub(crate) fn wait_for_response(
        &mut self,
        request_id: u64,
        timeout: Duration,
        mut handle_message: impl FnMut(&mut Self, ProgramMessage),
    ) -> Result<Value, RpcError> {
        let deadline = Instant::now() + timeout;
        loop {
            let message = self.receive(deadline);
            if message.get("method").is_some() {
                handle_message(self, parse_program_message(message));
            } else if message["id"] == request_id {
                return parse_response(message);
            }
        }
    }

    /// Waits for a request or notification for which `handle_message` returns a value, and returns that value.
    pub(crate) fn wait_for_message<T>(
        &mut self,
        timeout: Duration,
        mut handle_message: impl FnMut(&mut Self, ProgramMessage) -> Option<T>,
    ) -> T {
        let deadline = Instant::now() + timeout;
        loop {
            let message = self.receive(deadline);
            if message.get("method").is_some()
                && let Some(value) = handle_message(self, parse_program_message(message))
            {
                return value;
            }
        }
    }

    fn receive(&self, deadline: Instant) -> Value {
        let remaining = deadline.saturating_duration_since(Instant::now());
        match self.messages.recv_timeout(remaining) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => {
                panic!("no message before the timeout\n{}", self.stderr())
            }
            Err(RecvTimeoutError::Disconnected) => {
                panic!("the program closed its output\n{}", self.stderr())
            }
        }
    }

    /// Closes the program's standard input. Returns `true` if the program ended within the limit.
    pub(crate) fn close(mut self, limit: Duration) -> bool {
        drop(self.stdin.take());
        super::wait_for_exit(&mut self.child, limit)
    }

    /// Returns the id of the process.
    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }
}

fn read_messages(output: impl BufRead, sender: &Sender<Value>) {
    for line in output.lines().map_while(Result::ok) {
        // Some programs print other text on standard output; lines that are not JSON are ignored.
        if let Ok(message) = serde_json::from_str::<Value>(&line)
            && sender.send(message).is_err()
        {
            return;
        }
    }
}

fn parse_program_message(mut message: Value) -> ProgramMessage {
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    let params = message["params"].take();
    match message.get("id") {
        Some(id) => ProgramMessage::Request {
            id: id.clone(),
            method,
            params,
        },
        None => ProgramMessage::Notification { method, params },
    }
}

fn parse_response(mut message: Value) -> Result<Value, RpcError> {
    match message.get_mut("error").map(Value::take) {
        None | Some(Value::Null) => Ok(message["result"].take()),
        Some(mut error) => Err(RpcError {
            code: error["code"].as_i64().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            data: error["data"].take(),
        }),
    }
}

impl Drop for JsonLineConnection {
    fn drop(&mut self) {
        kill_group(&self.child);
        // The process was killed, so it ends. `drop` cannot report an error.
        let _ = self.child.wait();
    }
}
