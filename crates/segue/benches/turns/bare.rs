//! A bare client of the rehearsal agent.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{SEGUE, home};

/// The least that a client of the agent can do: a line out, lines in until the answer.
pub(crate) struct Bare {
    agent: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    session: String,
    asked: u64,
    _directory: TempDir,
}

impl Bare {
    pub(crate) fn start() -> Self {
        let directory = home();
        let mut agent = Command::new(SEGUE)
            .arg("rehearsal-agent")
            .arg(directory.path().join("rehearsal"))
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut bare = Self {
            input: agent.stdin.take(),
            output: BufReader::new(agent.stdout.take().unwrap()),
            agent,
            session: String::new(),
            asked: 0,
            _directory: directory,
        };
        bare.ask("initialize", &json!({ "protocolVersion": 1 }));
        let made = bare.ask("session/new", &json!({ "cwd": "/", "mcpServers": [] }));
        made["sessionId"]
            .as_str()
            .unwrap()
            .clone_into(&mut bare.session);
        bare
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params });
        let line = format!("{request}\n");
        self.input
            .as_mut()
            .unwrap()
            .write_all(line.as_bytes())
            .unwrap();
        let mut line = Vec::new();
        loop {
            line.clear();
            assert_ne!(self.output.read_until(b'\n', &mut line).unwrap(), 0);
            let mut message: Value = serde_json::from_slice(&line).unwrap();
            if message["id"] == self.asked {
                return message["result"].take();
            }
        }
    }

    /// Has one turn, and returns the milliseconds it took.
    pub(crate) fn turn(&mut self, prompt: &str) -> f64 {
        let start = Instant::now();
        let params =
            json!({ "sessionId": self.session, "prompt": [{ "type": "text", "text": prompt }] });
        let result = self.ask("session/prompt", &params);
        let took = start.elapsed();
        assert_eq!(result["stopReason"], "end_turn");
        took.as_secs_f64() * 1e3
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // The end of its input is the end of the agent.
        self.input = None;
        self.agent.wait().unwrap();
    }
}
