//! Agents by name, so that one test can cover all of them.

use std::fs;
use std::path::{Path, PathBuf};

use segue_providers::{ClaudeReader, CodexReader, GeminiReader, Reader, SessionLocation};
use serde_json::json;

/// An agent's reader, a format that it reads, and the path at which it finds a session.
pub(crate) struct SampleAgent {
    pub(crate) name: &'static str,
    pub(crate) new_reader: fn(&Path) -> Box<dyn Reader>,
    /// Path of a session with the id `ID` in the agent's home.
    pub(crate) session_path: &'static str,
    /// A short session in the agent's own format.
    pub(crate) sample: &'static str,
    /// Whether a session is a file of lines.
    pub(crate) is_line_based: bool,
}

/// Id of the samples.
pub(crate) const SAMPLE_ID: &str = "0b5e4c3a-1111-4222-8333-444455556666";

fn gemini_reader(home: &Path) -> Box<dyn Reader> {
    Box::new(GeminiReader::new(home).with_known_directories(["/w".to_owned()]))
}

pub(crate) const SAMPLE_AGENTS: &[SampleAgent] = &[
    SampleAgent {
        name: "claude",
        new_reader: |home| Box::new(ClaudeReader::new(home)),
        session_path: "projects/-w/0b5e4c3a-1111-4222-8333-444455556666.jsonl",
        sample: include_str!("samples/claude.jsonl"),
        is_line_based: true,
    },
    SampleAgent {
        name: "codex",
        new_reader: |home| Box::new(CodexReader::new(home)),
        session_path: "sessions/2026/01/02/rollout-2026-01-02T03-04-00-0b5e4c3a-1111-4222-8333-444455556666.jsonl",
        sample: include_str!("samples/codex.jsonl"),
        is_line_based: true,
    },
    SampleAgent {
        name: "codex-legacy",
        new_reader: |home| Box::new(CodexReader::new(home)),
        session_path: "archived_sessions/rollout-2026-01-02T03-04-00-0b5e4c3a-1111-4222-8333-444455556666.jsonl",
        sample: include_str!("samples/codex-legacy.jsonl"),
        is_line_based: true,
    },
    SampleAgent {
        name: "gemini",
        new_reader: gemini_reader,
        session_path: "tmp/w/chats/session-2026-01-02T03-04-0b5e4c3a.jsonl",
        sample: include_str!("samples/gemini.jsonl"),
        is_line_based: true,
    },
    SampleAgent {
        name: "gemini-document",
        new_reader: gemini_reader,
        session_path: "tmp/d1bb8ca354673cd575d31d952490058c9943aef39d5a9553fb4a21ab7a59a19d/chats/session-2026-01-02T03-04-0b5e4c3a.json",
        sample: include_str!("samples/gemini.json"),
        is_line_based: false,
    },
];

/// Returns the agents whose sessions are files of lines.
pub(crate) fn line_based_agents() -> impl Iterator<Item = &'static SampleAgent> {
    SAMPLE_AGENTS.iter().filter(|agent| agent.is_line_based)
}

impl SampleAgent {
    /// Writes a session of these bytes at its path.
    pub(crate) fn write_session(&self, home: &Path, bytes: &[u8]) -> PathBuf {
        let path = home.join(self.session_path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Returns the only session in a home.
    pub(crate) fn find_only_session(&self, home: &Path) -> SessionLocation {
        let mut scan = (self.new_reader)(home).scan_sessions();
        assert_eq!(
            scan.locations.len(),
            1,
            "{}: {:?}",
            self.name,
            scan.locations
        );
        scan.locations.remove(0)
    }
}

/// Returns a sample that begins with this prompt, and contains nothing before it that would be enough for a head.
pub(crate) fn sample_with_first_prompt(agent: &SampleAgent, prompt: &str) -> String {
    let escape = |text: &str| json!(text).to_string().trim_matches('"').to_owned();
    let earlier_markers = [
        "never mind",
        "$rewindTo",
        "\"a0\",\"is",
        "\"uuid\":\"a0\"",
        "\"uuid\":\"a2\"",
    ];
    let lines = agent.sample.lines();
    let retained = lines.filter(|line| {
        !agent.is_line_based || !earlier_markers.iter().any(|marker| line.contains(marker))
    });
    let retained_lines: Vec<&str> = retained.collect();
    let prompt = escape(prompt);
    let session = retained_lines
        .join("\n")
        .replace("What is in \\\"notes\\\"?", &prompt)
        + "\n";
    match agent.name {
        // Claude Code writes the queued prompt before the working directory.
        "claude" => {
            let queued = r#"{"type":"queue-operation","operation":"enqueue","content":""#;
            format!("{queued}{prompt}\"}}\n{session}")
        }
        _ => session,
    }
}
