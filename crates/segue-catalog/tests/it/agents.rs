//! Agents by name, so that one test can cover all of them.

use std::fs;
use std::path::{Path, PathBuf};

use segue_catalog::{ClaudeReader, CodexReader, SessionLocation, GeminiReader, Reader};

/// An agent's reader, a format that it reads, and the path at which it finds a session.
pub(crate) struct Agent {
    pub(crate) name: &'static str,
    pub(crate) reader: fn(&Path) -> Box<dyn Reader>,
    /// Path of a session with the id `ID` in the agent's home.
    pub(crate) place: &'static str,
    /// A short session in the agent's own format.
    pub(crate) sample: &'static str,
    /// Whether a session is a file of lines.
    pub(crate) lines: bool,
}

/// Id of the samples.
pub(crate) const ID: &str = "0b5e4c3a-1111-4222-8333-444455556666";

fn gemini(home: &Path) -> Box<dyn Reader> {
    Box::new(GeminiReader::new(home).with_known_directories(["/w".to_owned()]))
}

pub(crate) const AGENTS: &[Agent] = &[
    Agent {
        name: "claude",
        reader: |home| Box::new(ClaudeReader::new(home)),
        place: "projects/-w/0b5e4c3a-1111-4222-8333-444455556666.jsonl",
        sample: include_str!("samples/claude.jsonl"),
        lines: true,
    },
    Agent {
        name: "codex",
        reader: |home| Box::new(CodexReader::new(home)),
        place: "sessions/2026/01/02/rollout-2026-01-02T03-04-00-0b5e4c3a-1111-4222-8333-444455556666.jsonl",
        sample: include_str!("samples/codex.jsonl"),
        lines: true,
    },
    Agent {
        name: "codex-legacy",
        reader: |home| Box::new(CodexReader::new(home)),
        place: "archived_sessions/rollout-2026-01-02T03-04-00-0b5e4c3a-1111-4222-8333-444455556666.jsonl",
        sample: include_str!("samples/codex-legacy.jsonl"),
        lines: true,
    },
    Agent {
        name: "gemini",
        reader: gemini,
        place: "tmp/w/chats/session-2026-01-02T03-04-0b5e4c3a.jsonl",
        sample: include_str!("samples/gemini.jsonl"),
        lines: true,
    },
    Agent {
        name: "gemini-document",
        reader: gemini,
        place: "tmp/d1bb8ca354673cd575d31d952490058c9943aef39d5a9553fb4a21ab7a59a19d/chats/session-2026-01-02T03-04-0b5e4c3a.json",
        sample: include_str!("samples/gemini.json"),
        lines: false,
    },
];

/// Returns the agents whose sessions are files of lines.
pub(crate) fn of_lines() -> impl Iterator<Item = &'static Agent> {
    AGENTS.iter().filter(|agent| agent.lines)
}

impl Agent {
    /// Writes a session of these bytes at its path.
    pub(crate) fn put(&self, home: &Path, bytes: &[u8]) -> PathBuf {
        let path = home.join(self.place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Returns the only session in a home.
    pub(crate) fn only(&self, home: &Path) -> SessionLocation {
        let mut there = (self.reader)(home).scan_sessions();
        assert_eq!(there.locations.len(), 1, "{}: {:?}", self.name, there.locations);
        there.locations.remove(0)
    }
}
