//! A conversation in JSON lines with a program, as client: requests, what the program asks back, what it tells.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::kill_group;

/// An error that the program answered with.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// Its number.
    pub code: i64,
    /// Its text.
    pub message: String,
    /// Whatever else it says.
    pub data: Value,
}

/// Whether messages carry `"jsonrpc": "2.0"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Envelope {
    JsonRpc,
    Bare,
}

/// What a program says that is no answer to us.
#[derive(Debug, Clone)]
pub(crate) enum Spoken {
    /// It wants an answer to this.
    Asked {
        id: Value,
        method: String,
        params: Value,
    },
    /// It tells.
    Told { method: String, params: Value },
}

/// A program with which lines of JSON are exchanged. Ends with its whole process group.
pub(crate) struct Wire {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    errors: Arc<Mutex<String>>,
    envelope: Envelope,
    next: u64,
}

impl Wire {
    /// Starts a command, which must head a process group.
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

    /// What it wrote to standard error so far.
    pub(crate) fn errors(&self) -> String {
        self.errors.lock().unwrap().clone()
    }

    /// Sends a request; returns its number.
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

    /// Answers a request of the program's.
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

    /// Waits for the answer to request `id`. Whatever comes before it goes to `heard`, with this wire to speak on.
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

    /// Waits until something is said that `wanted` takes.
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

    /// Closes its standard input and waits; says whether it ended by itself within the time.
    pub(crate) fn close(mut self, limit: Duration) -> bool {
        drop(self.stdin.take());
        super::ends_within(&mut self.child, limit)
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

fn read(from: impl BufRead, to: &Sender<Value>) {
    for line in from.lines().map_while(Result::ok) {
        // What is no JSON is noise that some print on standard output.
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
        // Killed, so it does end; there is nobody to tell if it does not.
        let _ = self.child.wait();
    }
}
