//! The formats that are measured.

use std::path::Path;

use segue_catalog::{Claude, Codex, Found, Gemini, Opencode, Reader};
use segue_testkit::corpus::{Age, Session, Texts, claude, codex, gemini};
use tempfile::TempDir;

use crate::{directory, opencode, transcripts};

/// How one agent keeps its sessions, as far as the benchmark has to know.
pub(crate) struct Format {
    pub(crate) name: &'static str,
    /// What the bytes are, for the yardsticks.
    pub(crate) shape: Shape,
    /// The reader of such a home.
    pub(crate) reader: fn(&Path) -> Box<dyn Reader>,
    /// Writes the so-manieth session of a home, of at least so many bytes; returns how many turns it has.
    pub(crate) write: fn(&Path, u64, u64, &Texts) -> u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A file a session, a JSON object a line.
    Lines,
    /// A file a session, which is one JSON object.
    Document,
    /// A database of all sessions, a JSON object a row.
    Rows,
}

pub(crate) const FORMATS: &[Format] = &[
    Format {
        name: "claude",
        shape: Shape::Lines,
        reader: |home| Box::new(Claude::new(home)),
        write: |home, number, bytes, texts| claude::write(home, &new(number, bytes), texts).turns,
    },
    Format {
        name: "codex",
        shape: Shape::Lines,
        reader: |home| Box::new(Codex::new(home)),
        write: |home, number, bytes, texts| codex::write(home, &new(number, bytes), texts).turns,
    },
    Format {
        name: "codex-legacy",
        shape: Shape::Lines,
        reader: |home| Box::new(Codex::new(home)),
        write: |home, number, bytes, texts| codex::write(home, &old(number, bytes), texts).turns,
    },
    Format {
        name: "gemini",
        shape: Shape::Lines,
        reader: |home| Box::new(Gemini::new(home)),
        write: |home, number, bytes, texts| gemini::write(home, &new(number, bytes), texts).turns,
    },
    Format {
        name: "gemini-json",
        shape: Shape::Document,
        reader: |home| Box::new(Gemini::new(home)),
        write: |home, number, bytes, texts| gemini::write(home, &old(number, bytes), texts).turns,
    },
    Format {
        name: "opencode",
        shape: Shape::Rows,
        reader: |home| Box::new(Opencode::new(home)),
        write: opencode::write,
    },
];

/// What the newest version writes.
fn new(number: u64, bytes: u64) -> Session {
    Session::of_bytes(number, bytes)
}

/// What was written a year before.
fn old(number: u64, bytes: u64) -> Session {
    Session {
        age: Age::Old,
        ..new(number, bytes)
    }
}

impl Format {
    /// A home with one session of at least this many bytes.
    pub(crate) fn large(&self, bytes: u64) -> TempDir {
        let home = directory();
        let turns = (self.write)(home.path(), 1, bytes, &Texts::default());
        let (reader, found) = self.only(home.path());
        // A reader that misses something would be quick for the wrong reason.
        assert_eq!(
            transcripts::turns(reader.as_ref(), &found),
            turns,
            "{}",
            self.name
        );
        home
    }

    /// The only session of a home.
    pub(crate) fn only(&self, home: &Path) -> (Box<dyn Reader>, Found) {
        let reader = (self.reader)(home);
        let mut there = reader.find();
        assert!(there.unreadable.is_empty(), "{:?}", there.unreadable);
        assert_eq!(there.found.len(), 1, "{}", self.name);
        (reader, there.found.remove(0))
    }
}
