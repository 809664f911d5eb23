//! A minimal client of the rehearsal agent.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;

use segue_bench::{create_temp_dir, segue_program};

/// A client that only writes one request line and reads lines until the response.
pub(crate) struct RehearsalClient {
    agent: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    session: String,
    last_request_id: u64,
    _directory: TempDir,
}

impl RehearsalClient {
    pub(crate) fn start() -> Self {
        let directory = create_temp_dir();
        let mut agent = Command::new(segue_program())
            .arg("rehearsal-agent")
            .arg(directory.path().join("rehearsal"))
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut client = Self {
            input: agent.stdin.take(),
            output: BufReader::new(agent.stdout.take().unwrap()),
            agent,
            session: String::new(),
            last_request_id: 0,
            _directory: directory,
        };
        client.send_request("initialize", &json!({ "protocolVersion": 1 }));
        let response = client.send_request("session/new", &json!({ "cwd": "/", "mcpServers": [] }));
        response["sessionId"]
            .as_str()
            .unwrap()
            .clone_into(&mut client.session);
        client
    }

    fn send_request(&mut self, method: &str, params: &Value) -> Value {
        self.last_request_id += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.last_request_id, "method": method, "params": params });
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
            if message["id"] == self.last_request_id {
                return message["result"].take();
            }
        }
    }

    /// Runs one turn and returns the elapsed milliseconds.
    pub(crate) fn measure_turn(&mut self, prompt: &str) -> f64 {
        let start = Instant::now();
        let params =
            json!({ "sessionId": self.session, "prompt": [{ "type": "text", "text": prompt }] });
        let result = self.send_request("session/prompt", &params);
        let elapsed = start.elapsed();
        assert_eq!(result["stopReason"], "end_turn");
        elapsed.as_secs_f64() * 1e3
    }
}

impl Drop for RehearsalClient {
    fn drop(&mut self) {
        // The agent ends at the end of its input.
        self.input = None;
        self.agent.wait().unwrap();
    }
}
