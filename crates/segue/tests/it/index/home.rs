//! Session files of two agents, written turn by turn, with words that identify the session and the turn.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use segue_testkit::TestHome;
use serde_json::{Value, json};

/// The agent whose format a session file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionFileAgent {
    Claude,
    Codex,
}

/// A session file in the home of its agent.
#[derive(Debug, Clone)]
pub(crate) struct NativeSessionFile {
    pub(crate) agent: SessionFileAgent,
    pub(crate) number: usize,
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    cwd: String,
    /// Number of turns in the file.
    pub(crate) turns: usize,
}

/// Session files, alternating between Claude Code and Codex.
pub(crate) struct NativeSessionSet {
    pub(crate) sessions: Vec<NativeSessionFile>,
}

impl NativeSessionSet {
    /// Writes `sessions` session files with one to four turns each.
    pub(crate) fn write(home: &TestHome, sessions: usize) -> Self {
        let sessions = (0..sessions).map(|number| {
            let agent = if number % 2 == 0 {
                SessionFileAgent::Claude
            } else {
                SessionFileAgent::Codex
            };
            let mut session_file = NativeSessionFile::new(home, agent, number, &home.project());
            (0..=number % 4).for_each(|_| session_file.append_turn());
            session_file
        });
        Self {
            sessions: sessions.collect(),
        }
    }

    /// Returns the total number of turns.
    pub(crate) fn count_turns(&self) -> usize {
        self.sessions
            .iter()
            .map(|session_file| session_file.turns)
            .sum()
    }
}

fn first_timestamp() -> Timestamp {
    "2026-01-02T03:04:00Z".parse().unwrap()
}

fn push_line(text: &mut String, record: &Value) {
    writeln!(text, "{record}").unwrap();
}

impl NativeSessionFile {
    /// Returns a session file that is not written yet.
    pub(crate) fn new(home: &TestHome, agent: SessionFileAgent, number: usize, cwd: &Path) -> Self {
        let id = format!("0b5e4c3a-1111-4222-8333-{number:012}");
        let path = match agent {
            SessionFileAgent::Claude => format!(".claude/projects/-p{}/{id}.jsonl", number % 7),
            SessionFileAgent::Codex => format!(
                ".codex/sessions/2026/01/{:02}/rollout-2026-01-02T03-04-00-{id}.jsonl",
                number % 28 + 1
            ),
        };
        Self {
            agent,
            number,
            id,
            path: home.path().join(path),
            cwd: cwd.display().to_string(),
            turns: 0,
        }
    }

    /// Appends a turn to the file.
    pub(crate) fn append_turn(&mut self) {
        let text = self.next_turn_lines();
        fs::create_dir_all(self.path.parent().unwrap()).unwrap();
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path);
        file.unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Returns the lines of the next turn; those of the first turn include the header.
    pub(crate) fn next_turn_lines(&mut self) -> String {
        self.turns += 1;
        self.turn_lines(self.turns)
    }

    /// Returns the complete text of the file.
    pub(crate) fn full_text(&self) -> String {
        (1..=self.turns).map(|turn| self.turn_lines(turn)).collect()
    }

    fn turn_lines(&self, turn: usize) -> String {
        match self.agent {
            SessionFileAgent::Claude => self.render_claude_turn(turn),
            SessionFileAgent::Codex => self.render_codex_turn(turn),
        }
    }

    fn format_time(&self, turn: usize, step: i64) -> String {
        let seconds = i64::try_from(self.number * 600 + turn * 10).unwrap() + step;
        let at = first_timestamp() + SignedDuration::from_secs(seconds);
        at.strftime("%Y-%m-%dT%H:%M:%S.000Z").to_string()
    }

    /// Returns the texts of a turn: prompt, tool output, answer.
    fn turn_texts(&self, turn: usize) -> [String; 3] {
        let n = self.number;
        [
            format!("asked w{n}x{turn} about everything"),
            format!("output{n} of a tool\nin lines o{n}x{turn}"),
            format!("answered a{n}x{turn}: it was grün, naïve and 函数"),
        ]
    }

    fn render_claude_turn(&self, turn: usize) -> String {
        let [prompt, output, answer] = self.turn_texts(turn);
        let (n, call) = (self.number, format!("t{turn}"));
        let uuid = |step: i64| match (turn, step) {
            (1, -1) => Value::Null,
            (_, -1) => json!(format!("u{n}-{}-3", turn - 1)),
            _ => json!(format!("u{n}-{turn}-{step}")),
        };
        let usage = json!({"input_tokens": 5, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100,
            "output_tokens": 3});
        let assistant = |content: Value| {
            json!({"id": format!("m{turn}-{content}"), "type": "message",
            "role": "assistant", "model": "claude-opus", "content": [content], "usage": usage})
        };
        let messages = [
            ("user", json!({"role": "user", "content": prompt})),
            (
                "assistant",
                assistant(
                    json!({"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": "notes"}}),
                ),
            ),
            (
                "user",
                json!({"role": "user", "content": [{"tool_use_id": call, "type": "tool_result", "content": output}]}),
            ),
            (
                "assistant",
                assistant(json!({"type": "text", "text": answer})),
            ),
        ];
        let mut text = String::new();
        for (step, (kind, message)) in (0..).zip(messages) {
            push_line(
                &mut text,
                &json!({"parentUuid": uuid(step - 1), "isSidechain": false, "cwd": self.cwd, "sessionId": self.id,
                    "version": "2.1.325", "gitBranch": "main", "type": kind, "message": message, "uuid": uuid(step),
                    "timestamp": self.format_time(turn, step)}),
            );
        }
        text
    }

    fn render_codex_turn(&self, turn: usize) -> String {
        let [prompt, output, answer] = self.turn_texts(turn);
        let mut text = String::new();
        let mut step = 0;
        let mut record = |kind: &str, payload: Value| {
            let at = self.format_time(turn, step);
            push_line(
                &mut text,
                &json!({"timestamp": at, "type": kind, "payload": payload}),
            );
            step += 1;
        };
        if turn == 1 {
            record(
                "session_meta",
                json!({"id": self.id, "timestamp": self.format_time(1, 0), "cwd": self.cwd, "originator": "codex_exec",
                    "cli_version": "0.166.0", "source": "exec", "model_provider": "stub", "git": {"branch": "main"}}),
            );
        }
        let message = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
        let call = format!("c{turn}");
        record(
            "event_msg",
            json!({"type": "task_started", "turn_id": turn.to_string()}),
        );
        record("response_item", message("user", "input_text", &prompt));
        record(
            "event_msg",
            json!({"type": "user_message", "message": prompt}),
        );
        record(
            "response_item",
            json!({"type": "function_call", "name": "exec_command", "arguments": "{\"cmd\": \"cat notes\"}",
                "call_id": call}),
        );
        record(
            "response_item",
            json!({"type": "function_call_output", "call_id": call, "output": output}),
        );
        record(
            "response_item",
            message("assistant", "output_text", &answer),
        );
        record(
            "event_msg",
            json!({"type": "task_complete", "turn_id": turn.to_string(), "last_agent_message": answer}),
        );
        text
    }
}
