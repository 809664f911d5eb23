//! The formats that are measured.

use std::path::Path;

use segue_catalog::{Claude, Codex, Found, Gemini, Opencode, Reader};
use tempfile::TempDir;

use crate::texts::Texts;
use crate::{claude, codex, directory, gemini, opencode, transcripts};

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
        write: claude::write,
    },
    Format {
        name: "codex",
        shape: Shape::Lines,
        reader: |home| Box::new(Codex::new(home)),
        write: codex::write_paginated,
    },
    Format {
        name: "codex-legacy",
        shape: Shape::Lines,
        reader: |home| Box::new(Codex::new(home)),
        write: codex::write_legacy,
    },
    Format {
        name: "gemini",
        shape: Shape::Lines,
        reader: |home| Box::new(Gemini::new(home)),
        write: gemini::write_log,
    },
    Format {
        name: "gemini-json",
        shape: Shape::Document,
        reader: |home| Box::new(Gemini::new(home)),
        write: gemini::write_document,
    },
    Format {
        name: "opencode",
        shape: Shape::Rows,
        reader: |home| Box::new(Opencode::new(home)),
        write: opencode::write,
    },
];

impl Format {
    /// A home with one session of at least this many bytes.
    pub(crate) fn large(&self, bytes: u64) -> TempDir {
        let home = directory();
        let turns = (self.write)(home.path(), 1, bytes, &Texts::new());
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
