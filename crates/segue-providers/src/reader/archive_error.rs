//! Errors of copying, removing and restoring sessions.

use std::io;
use std::path::{Path, PathBuf};

use crate::ReadError;

/// An error of copying, removing or restoring a session.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file can't be read or written.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// Action that failed, as a verb.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The session can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The session changed during the copy, because another process was writing to it.
    #[error("{} was changed by another process", .0.display())]
    Changing(PathBuf),
    /// The path is a link, or leads out of the agent's home through one.
    #[error("{} is a link or is outside the agent's home", .0.display())]
    OutsideHome(PathBuf),
    /// A different file exists at the path of a file to restore.
    #[error("{} already exists with different content", .0.display())]
    FileConflict(PathBuf),
    /// The copy is damaged.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// Path of the damaged file.
        path: PathBuf,
        /// Description of the damage.
        reason: String,
    },
    /// The session has no artifacts that segue can copy, or the archive has no copy of it.
    #[error("files of session {0} not found")]
    NotFound(String),
}

impl ArchiveError {
    /// Creates the error of a file operation.
    #[must_use]
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// Creates the error for a damaged copy.
    pub fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}
