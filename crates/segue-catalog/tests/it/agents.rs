//! The agents by name, so that one test can go through all of them.

use std::fs;
use std::path::{Path, PathBuf};

use segue_catalog::{Claude, Found, Reader};

/// An agent's reader, and where it would look for a session.
pub(crate) struct Agent {
    pub(crate) name: &'static str,
    pub(crate) reader: fn(&Path) -> Box<dyn Reader>,
    /// Where in the agent's home a session with an id of ours would be.
    pub(crate) place: &'static str,
    /// A short session in that place, in the agent's own words.
    pub(crate) sample: &'static str,
}

/// The id of the samples.
pub(crate) const ID: &str = "0b5e4c3a-1111-4222-8333-444455556666";

pub(crate) const AGENTS: &[Agent] = &[Agent {
    name: "claude",
    reader: |home| Box::new(Claude::new(home)),
    place: "projects/-w/0b5e4c3a-1111-4222-8333-444455556666.jsonl",
    sample: include_str!("samples/claude.jsonl"),
}];

impl Agent {
    /// Puts a session of these bytes in its place.
    pub(crate) fn put(&self, home: &Path, bytes: &[u8]) -> PathBuf {
        let path = home.join(self.place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The one session in a home.
    pub(crate) fn only(&self, home: &Path) -> Found {
        let mut there = (self.reader)(home).find();
        assert_eq!(there.found.len(), 1, "{}: {:?}", self.name, there.found);
        there.found.remove(0)
    }
}
