//! Formats that are measured.

use std::path::Path;

use segue_catalog::{ClaudeReader, CodexReader, SessionLocation, GeminiReader, OpencodeReader, Reader};
use segue_testkit::corpus::{CorpusFormat, CorpusSession, CorpusTexts, claude, codex, gemini};
use tempfile::TempDir;

use crate::{directory, opencode, transcripts};

/// Format of one agent's sessions, with the data that the benchmark needs.
pub(crate) struct Format {
    pub(crate) name: &'static str,
    /// Shape of the data, which determines the baseline.
    pub(crate) shape: Shape,
    /// Constructor of a reader for such a home.
    pub(crate) reader: fn(&Path) -> Box<dyn Reader>,
    /// Function that writes session number N of a home, with at least a given number of bytes, and returns the number
    /// of its turns.
    pub(crate) write: fn(&Path, u64, u64, &CorpusTexts) -> u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A file per session, with a JSON object per line.
    Lines,
    /// A file per session, which is a JSON object.
    Document,
    /// A database for all sessions, with a JSON object per row.
    Rows,
}

pub(crate) const FORMATS: &[Format] = &[
    Format {
        name: "claude",
        shape: Shape::Lines,
        reader: |home| Box::new(ClaudeReader::new(home)),
        write: |home, number, bytes, texts| claude::write_session(home, &new(number, bytes), texts).turns,
    },
    Format {
        name: "codex",
        shape: Shape::Lines,
        reader: |home| Box::new(CodexReader::new(home)),
        write: |home, number, bytes, texts| codex::write_session(home, &new(number, bytes), texts).turns,
    },
    Format {
        name: "codex-legacy",
        shape: Shape::Lines,
        reader: |home| Box::new(CodexReader::new(home)),
        write: |home, number, bytes, texts| codex::write_session(home, &old(number, bytes), texts).turns,
    },
    Format {
        name: "gemini",
        shape: Shape::Lines,
        reader: |home| Box::new(GeminiReader::new(home)),
        write: |home, number, bytes, texts| gemini::write_session(home, &new(number, bytes), texts).turns,
    },
    Format {
        name: "gemini-json",
        shape: Shape::Document,
        reader: |home| Box::new(GeminiReader::new(home)),
        write: |home, number, bytes, texts| gemini::write_session(home, &old(number, bytes), texts).turns,
    },
    Format {
        name: "opencode",
        shape: Shape::Rows,
        reader: |home| Box::new(OpencodeReader::new(home)),
        write: opencode::write,
    },
];

/// Creates a session as the newest version writes it.
fn new(number: u64, bytes: u64) -> CorpusSession {
    CorpusSession::with_min_bytes(number, bytes)
}

/// Creates a session as a version of the year before wrote it.
fn old(number: u64, bytes: u64) -> CorpusSession {
    CorpusSession {
        format: CorpusFormat::Legacy,
        ..new(number, bytes)
    }
}

impl Format {
    /// Creates a home with one session of at least this many bytes.
    pub(crate) fn large(&self, bytes: u64) -> TempDir {
        let home = directory();
        let turns = (self.write)(home.path(), 1, bytes, &CorpusTexts::default());
        let (reader, found) = self.only(home.path());
        // A reader that misses turns would be fast for the wrong reason.
        assert_eq!(
            transcripts::turns(reader.as_ref(), &found),
            turns,
            "{}",
            self.name
        );
        home
    }

    /// Returns the only session of a home.
    pub(crate) fn only(&self, home: &Path) -> (Box<dyn Reader>, SessionLocation) {
        let reader = (self.reader)(home);
        let mut there = reader.scan_sessions();
        assert!(there.unreadable.is_empty(), "{:?}", there.unreadable);
        assert_eq!(there.locations.len(), 1, "{}", self.name);
        (reader, there.locations.remove(0))
    }
}
