//! Formats that are measured.

use segue_bench::create_temp_dir;
use std::path::Path;

use segue_bench::corpus::{CorpusFormat, CorpusSession, CorpusTexts, claude, codex, gemini};
use segue_catalog::{
    ClaudeReader, CodexReader, GeminiReader, OpencodeReader, Reader, SessionLocation,
};
use tempfile::TempDir;

use crate::{opencode, transcripts};

/// Format of one agent's sessions, with the data that the benchmark needs.
pub(crate) struct BenchFormat {
    pub(crate) name: &'static str,
    /// Shape of the data, which determines the baseline.
    pub(crate) layout: SessionLayout,
    /// Constructor of a reader for such a home.
    pub(crate) new_reader: fn(&Path) -> Box<dyn Reader>,
    /// Function that writes session number N of a home, with at least a given number of bytes, and returns the number
    /// of its turns.
    pub(crate) write_session: fn(&Path, u64, u64, &CorpusTexts) -> u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionLayout {
    /// A file per session, with a JSON object per line.
    Lines,
    /// A file per session, which is a JSON object.
    Document,
    /// A database for all sessions, with a JSON object per row.
    Rows,
}

pub(crate) const BENCH_FORMATS: &[BenchFormat] = &[
    BenchFormat {
        name: "claude",
        layout: SessionLayout::Lines,
        new_reader: |home| Box::new(ClaudeReader::new(home)),
        write_session: |home, number, bytes, texts| {
            claude::write_session(home, &current_session(number, bytes), texts).turns
        },
    },
    BenchFormat {
        name: "codex",
        layout: SessionLayout::Lines,
        new_reader: |home| Box::new(CodexReader::new(home)),
        write_session: |home, number, bytes, texts| {
            codex::write_session(home, &current_session(number, bytes), texts).turns
        },
    },
    BenchFormat {
        name: "codex-legacy",
        layout: SessionLayout::Lines,
        new_reader: |home| Box::new(CodexReader::new(home)),
        write_session: |home, number, bytes, texts| {
            codex::write_session(home, &legacy_session(number, bytes), texts).turns
        },
    },
    BenchFormat {
        name: "gemini",
        layout: SessionLayout::Lines,
        new_reader: |home| Box::new(GeminiReader::new(home)),
        write_session: |home, number, bytes, texts| {
            gemini::write_session(home, &current_session(number, bytes), texts).turns
        },
    },
    BenchFormat {
        name: "gemini-json",
        layout: SessionLayout::Document,
        new_reader: |home| Box::new(GeminiReader::new(home)),
        write_session: |home, number, bytes, texts| {
            gemini::write_session(home, &legacy_session(number, bytes), texts).turns
        },
    },
    BenchFormat {
        name: "opencode",
        layout: SessionLayout::Rows,
        new_reader: |home| Box::new(OpencodeReader::new(home)),
        write_session: opencode::write_session,
    },
];

/// Creates a session as the newest version writes it.
fn current_session(number: u64, bytes: u64) -> CorpusSession {
    CorpusSession::with_min_bytes(number, bytes)
}

/// Creates a session as a version of the year before wrote it.
fn legacy_session(number: u64, bytes: u64) -> CorpusSession {
    CorpusSession {
        format: CorpusFormat::Legacy,
        ..current_session(number, bytes)
    }
}

impl BenchFormat {
    /// Creates a home with one session of at least this many bytes.
    pub(crate) fn create_large_home(&self, bytes: u64) -> TempDir {
        let home = create_temp_dir();
        let turns = (self.write_session)(home.path(), 1, bytes, &CorpusTexts::default());
        let (reader, location) = self.find_only_session(home.path());
        // A reader that misses turns would be fast for the wrong reason.
        assert_eq!(
            transcripts::count_turns(reader.as_ref(), &location),
            turns,
            "{}",
            self.name
        );
        home
    }

    /// Returns the only session of a home.
    pub(crate) fn find_only_session(&self, home: &Path) -> (Box<dyn Reader>, SessionLocation) {
        let reader = (self.new_reader)(home);
        let mut scan = reader.scan_sessions();
        assert!(scan.unreadable.is_empty(), "{:?}", scan.unreadable);
        assert_eq!(scan.locations.len(), 1, "{}", self.name);
        (reader, scan.locations.remove(0))
    }
}
