//! Sessions of two agents as those would write them, turn by turn, with words that tell where each was said.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use segue_testkit::World;
use serde_json::{Value, json};

/// Who writes a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agent {
    Claude,
    Codex,
}

/// A session in the home of its agent.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) agent: Agent,
    pub(crate) number: usize,
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    cwd: String,
    /// How many turns it has.
    pub(crate) turns: usize,
}

/// Some sessions, every other one of them Codex's.
pub(crate) struct Home {
    pub(crate) sessions: Vec<Kept>,
}

impl Home {
    /// Writes so many sessions, with one to four turns each.
    pub(crate) fn write(world: &World, sessions: usize) -> Self {
        let sessions = (0..sessions).map(|number| {
            let agent = if number % 2 == 0 {
                Agent::Claude
            } else {
                Agent::Codex
            };
            let mut kept = Kept::new(world, agent, number, &world.project());
            (0..=number % 4).for_each(|_| kept.add());
            kept
        });
        Self {
            sessions: sessions.collect(),
        }
    }

    /// How many turns there are in all.
    pub(crate) fn turns(&self) -> usize {
        self.sessions.iter().map(|kept| kept.turns).sum()
    }
}

fn begin() -> Timestamp {
    "2026-01-02T03:04:00Z".parse().unwrap()
}

fn line(text: &mut String, record: &Value) {
    writeln!(text, "{record}").unwrap();
}

impl Kept {
    /// A session that is not written yet.
    pub(crate) fn new(world: &World, agent: Agent, number: usize, cwd: &Path) -> Self {
        let id = format!("0b5e4c3a-1111-4222-8333-{number:012}");
        let path = match agent {
            Agent::Claude => format!(".claude/projects/-p{}/{id}.jsonl", number % 7),
            Agent::Codex => format!(
                ".codex/sessions/2026/01/{:02}/rollout-2026-01-02T03-04-00-{id}.jsonl",
                number % 28 + 1
            ),
        };
        Self {
            agent,
            number,
            id,
            path: world.path().join(path),
            cwd: cwd.display().to_string(),
            turns: 0,
        }
    }

    /// Adds a turn to its file.
    pub(crate) fn add(&mut self) {
        let text = self.next();
        fs::create_dir_all(self.path.parent().unwrap()).unwrap();
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path);
        file.unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// The lines of the next turn, with what stands before the first one.
    pub(crate) fn next(&mut self) -> String {
        self.turns += 1;
        self.lines(self.turns)
    }

    /// All that is in the file.
    pub(crate) fn whole(&self) -> String {
        (1..=self.turns).map(|turn| self.lines(turn)).collect()
    }

    fn lines(&self, turn: usize) -> String {
        match self.agent {
            Agent::Claude => self.claude(turn),
            Agent::Codex => self.codex(turn),
        }
    }

    fn time(&self, turn: usize, step: i64) -> String {
        let seconds = i64::try_from(self.number * 600 + turn * 10).unwrap() + step;
        let at = begin() + SignedDuration::from_secs(seconds);
        at.strftime("%Y-%m-%dT%H:%M:%S.000Z").to_string()
    }

    /// What is said in a turn: asked, output of a tool, answered.
    fn said(&self, turn: usize) -> [String; 3] {
        let n = self.number;
        [
            format!("asked w{n}x{turn} about everything"),
            format!("output{n} of a tool\nin lines o{n}x{turn}"),
            format!("answered a{n}x{turn}: it was grün, naïve and 函数"),
        ]
    }

    fn claude(&self, turn: usize) -> String {
        let [prompt, output, answer] = self.said(turn);
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
            line(
                &mut text,
                &json!({"parentUuid": uuid(step - 1), "isSidechain": false, "cwd": self.cwd, "sessionId": self.id,
                    "version": "2.1.325", "gitBranch": "main", "type": kind, "message": message, "uuid": uuid(step),
                    "timestamp": self.time(turn, step)}),
            );
        }
        text
    }

    fn codex(&self, turn: usize) -> String {
        let [prompt, output, answer] = self.said(turn);
        let mut text = String::new();
        let mut step = 0;
        let mut record = |kind: &str, payload: Value| {
            let at = self.time(turn, step);
            line(
                &mut text,
                &json!({"timestamp": at, "type": kind, "payload": payload}),
            );
            step += 1;
        };
        if turn == 1 {
            record(
                "session_meta",
                json!({"id": self.id, "timestamp": self.time(1, 0), "cwd": self.cwd, "originator": "codex_exec",
                    "cli_version": "0.166.0", "source": "exec", "model_provider": "stub", "git": {"branch": "main"}}),
            );
        }
        let said = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
        let call = format!("c{turn}");
        record(
            "event_msg",
            json!({"type": "task_started", "turn_id": turn.to_string()}),
        );
        record("response_item", said("user", "input_text", &prompt));
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
        record("response_item", said("assistant", "output_text", &answer));
        record(
            "event_msg",
            json!({"type": "task_complete", "turn_id": turn.to_string(), "last_agent_message": answer}),
        );
        text
    }
}
