//! Native sessions as they are found, before anything of them is read.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::ReadError;

/// A native session on disk, of which so far only names and sizes are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The file it is in, or the directory or database that holds it.
    pub path: PathBuf,
    /// What the name tells of its id: all of it, or how it begins.
    pub id: IdHint,
    /// How large the file is.
    pub size: u64,
    /// When the file was last written.
    pub modified: Timestamp,
    /// Whether the agent has put it away.
    pub archived: bool,
}

impl Found {
    /// Which of the sessions at its path it is, where one file holds many; else nothing.
    #[must_use]
    pub fn part(&self) -> &str {
        match &self.id {
            IdHint::Whole(id) if self.path.extension().is_some_and(|kind| kind == "db") => id,
            IdHint::Whole(_) | IdHint::Begins(_) => "",
        }
    }
}

/// What is known of an id before a file is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdHint {
    /// This is it.
    Whole(String),
    /// It begins like this.
    Begins(String),
}

impl IdHint {
    /// Whether a session with this hint can have an id that begins with `text`.
    #[must_use]
    pub fn fits(&self, text: &str) -> bool {
        match self {
            Self::Whole(id) => id.starts_with(text),
            Self::Begins(start) => start.starts_with(text) || text.starts_with(start.as_str()),
        }
    }
}

/// All the sessions of one agent, and the places that could not be looked at.
#[derive(Debug, Default)]
pub struct Whereabouts {
    /// What is there.
    pub found: Vec<Found>,
    /// What could not be read, so that a missing session is not taken for a deleted one.
    pub unreadable: Vec<ReadError>,
}

impl Whereabouts {
    /// What is in a directory, in no order. One that is not there is empty.
    pub(crate) fn entries(&mut self, directory: &Path) -> Vec<std::fs::DirEntry> {
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                self.unreadable.push(ReadError::io(directory, error));
                return Vec::new();
            }
        };
        entries.filter_map(Result::ok).collect()
    }

    /// Adds a file, if it is one: a directory or a pipe of the right name is no session.
    pub(crate) fn add_file(&mut self, entry: &std::fs::DirEntry, id: IdHint, archived: bool) {
        let path = entry.path();
        let data = match entry.metadata() {
            // A link is followed: people keep their agents' homes elsewhere.
            Ok(data) if data.is_symlink() => std::fs::metadata(&path),
            // What is no link is known to the directory already, which is quicker than its whole path.
            other => other,
        };
        match data {
            Ok(data) if data.is_file() => {
                let modified = data.modified().ok().and_then(|at| at.try_into().ok());
                self.found.push(Found {
                    path,
                    id,
                    size: data.len(),
                    modified: modified.unwrap_or(Timestamp::UNIX_EPOCH),
                    archived,
                });
            }
            // Gone in the meantime is not a failure.
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => self.unreadable.push(ReadError::io(&path, error)),
        }
    }
}
