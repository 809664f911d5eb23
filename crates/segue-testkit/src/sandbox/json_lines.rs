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
pub(crate) enum Envelope {
    JsonRpc,
    Bare,
}

/// A message of the program that is not a response.
#[derive(Debug, Clone)]
pub(crate) enum Spoken {
    /// Request, which needs a response.
    Asked {
        id: Value,
        method: String,
        params: Value,
    },
    /// Notification.
    Told { method: String, params: Value },
}

/// A connection to a running program. Dropping it kills the program's process group.
pub(crate) struct Wire {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    errors: Arc<Mutex<String>>,
    envelope: Envelope,
    next: u64,
}

impl Wire {
    /// Starts a command, which must lead a process group.
    pub(crate) fn start(mut command: Command, envelope: Envelope) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || read(stdout, &sender));
        let errors = Arc::new(Mutex::new(String::new()));
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let shared = Arc::clone(&errors);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                *shared.lock().unwrap() += &(line + "\n");
            }
        });
        Self {
            stdin: child.stdin.take(),
            child,
            lines,
            errors,
            envelope,
            next: 0,
        }
    }

    /// Returns the standard error output so far.
    pub(crate) fn errors(&self) -> String {
        self.errors.lock().unwrap().clone()
    }

    /// Sends a request and returns its id.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(json!({"id": id, "method": method, "params": params}));
        id
    }

    /// Sends a notification.
    pub(crate) fn tell(&mut self, method: &str, params: &Value) {
        self.send(json!({"method": method, "params": params}));
    }

    /// Sends the response to a request of the program.
    pub(crate) fn answer(&mut self, id: &Value, answer: Result<Value, RpcError>) {
        self.send(match answer {
            Ok(result) => json!({"id": id, "result": result}),
            Err(error) => {
                json!({"id": id, "error": {"code": error.code, "message": error.message}})
            }
        });
    }

    fn send(&mut self, mut message: Value) {
        if self.envelope == Envelope::JsonRpc {
            message["jsonrpc"] = json!("2.0");
        }
        let stdin = self.stdin.as_mut().expect("standard input was closed");
        let sent = writeln!(stdin, "{message}").and_then(|()| stdin.flush());
        if let Err(error) = sent {
            panic!("cannot send {message}: {error}\n{}", self.errors());
        }
    }

    /// Waits for the response to request `id`. Calls `heard` with this connection for each earlier request or
    /// notification.
    pub(crate) fn wait(
        &mut self,
        id: u64,
        limit: Duration,
        mut heard: impl FnMut(&mut Self, Spoken),
    ) -> Result<Value, RpcError> {
        let end = Instant::now() + limit;
        loop {
            let message = self.receive(end);
            if message.get("method").is_some() {
                heard(self, spoken(message));
            } else if message["id"] == id {
                return answered(message);
            }
        }
    }

    /// Waits for a request or notification for which `wanted` returns a value, and returns that value.
    pub(crate) fn listen<T>(
        &mut self,
        limit: Duration,
        mut wanted: impl FnMut(&mut Self, Spoken) -> Option<T>,
    ) -> T {
        let end = Instant::now() + limit;
        loop {
            let message = self.receive(end);
            if message.get("method").is_some()
                && let Some(found) = wanted(self, spoken(message))
            {
                return found;
            }
        }
    }

    fn receive(&self, end: Instant) -> Value {
        let left = end.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => panic!("no answer in time\n{}", self.errors()),
            Err(RecvTimeoutError::Disconnected) => panic!("it went away\n{}", self.errors()),
        }
    }

    /// Closes the program's standard input. Returns `true` if the program ended within the limit.
    pub(crate) fn close(mut self, limit: Duration) -> bool {
        drop(self.stdin.take());
        super::ends_within(&mut self.child, limit)
    }

    /// Returns the id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

fn read(from: impl BufRead, to: &Sender<Value>) {
    for line in from.lines().map_while(Result::ok) {
        // Some programs print other text on standard output; lines that are not JSON are ignored.
        if let Ok(message) = serde_json::from_str::<Value>(&line)
            && to.send(message).is_err()
        {
            return;
        }
    }
}

fn spoken(mut message: Value) -> Spoken {
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    let params = message["params"].take();
    match message.get("id") {
        Some(id) => Spoken::Asked {
            id: id.clone(),
            method,
            params,
        },
        None => Spoken::Told { method, params },
    }
}

fn answered(mut message: Value) -> Result<Value, RpcError> {
    match message.get_mut("error").map(Value::take) {
        None | Some(Value::Null) => Ok(message["result"].take()),
        Some(mut error) => Err(RpcError {
            code: error["code"].as_i64().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            data: error["data"].take(),
        }),
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        kill_group(&self.child);
        // The process was killed, so it ends. `drop` cannot report an error.
        let _ = self.child.wait();
    }
}
