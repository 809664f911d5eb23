//! Native sessions as they are found on disk, before their content is read.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::{ReadError, modification_time};

/// A native session on disk, described by names and sizes only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLocation {
    /// File of the session, or the directory or database that contains it.
    pub path: PathBuf,
    /// Id of the session, or its beginning, as the name of the file gives it.
    pub id_hint: IdHint,
    /// Size of the file in bytes; 0 if the session is only a part of it, or a copy in the archive.
    pub size: u64,
    /// Time of the last write to the session.
    pub modified: Timestamp,
    /// Whether the agent archived the session, or the session is a copy in segue's archive.
    pub archived: bool,
}

impl SessionLocation {
    /// Returns the id of the session if its file contains many sessions, and an empty text otherwise.
    #[must_use]
    pub fn id_in_file(&self) -> &str {
        match &self.id_hint {
            IdHint::Complete(id)
                if self
                    .path
                    .extension()
                    .is_some_and(|extension| extension == "db") =>
            {
                id
            }
            IdHint::Complete(_) | IdHint::Prefix(_) => "",
        }
    }
}

/// Part of a session's id that is available before its file is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdHint {
    /// The complete id.
    Complete(String),
    /// The beginning of the id.
    Prefix(String),
}

impl IdHint {
    /// Returns `true` if a session with this hint can have an id that begins with `text`.
    #[must_use]
    pub fn can_match(&self, text: &str) -> bool {
        match self {
            Self::Complete(id) => id.starts_with(text),
            Self::Prefix(prefix) => prefix.starts_with(text) || text.starts_with(prefix.as_str()),
        }
    }
}

/// Sessions of one agent, and the locations that could not be read.
#[derive(Debug, Default)]
pub struct SessionScan {
    /// Sessions that were found.
    pub locations: Vec<SessionLocation>,
    /// Read errors, so that a caller does not mistake a session that could not be read for a deleted one.
    pub unreadable: Vec<ReadError>,
}

impl SessionScan {
    /// Returns the entries of a directory, unsorted. Returns none for a missing directory, and adds other failures to
    /// `unreadable`.
    pub(crate) fn read_entries(&mut self, directory: &Path) -> Vec<std::fs::DirEntry> {
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

    /// Adds an entry if it is a file. A directory or a pipe with a matching name is not a session.
    pub(crate) fn add_file(&mut self, entry: &std::fs::DirEntry, id: IdHint, archived: bool) {
        let path = entry.path();
        let data = match entry.metadata() {
            // Links are followed, because users move their agents' homes to other directories.
            Ok(data) if data.is_symlink() => std::fs::metadata(&path),
            // The metadata of the entry is faster than a lookup of its full path, and sufficient if the entry is not a
            // link.
            other => other,
        };
        match data {
            Ok(data) if data.is_file() => {
                self.locations.push(SessionLocation {
                    path,
                    id_hint: id,
                    size: data.len(),
                    modified: modification_time(&data),
                    archived,
                });
            }
            // A file that was deleted since the directory was read is not an error.
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => self.unreadable.push(ReadError::io(&path, error)),
        }
    }
}
