//! Errors of copying, removing and restoring sessions.

use std::io;
use std::path::{Path, PathBuf};

use crate::ReadError;

/// An error of copying, removing or restoring a session.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// A file can't be read or written.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// Action that failed, as a verb.
        doing: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The session can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The session changed during the copy, because another process was writing to it.
    #[error("{} is being written to", .0.display())]
    Changing(PathBuf),
    /// The path is a link, or leads out of the agent's home through one.
    #[error("{} is a link, and links are not followed", .0.display())]
    Outside(PathBuf),
    /// A different file exists at the path of a file to restore.
    #[error("{} is there already, and differs", .0.display())]
    Differs(PathBuf),
    /// The copy is damaged.
    #[error("{} is damaged: {why}", path.display())]
    Broken {
        /// Path of the damaged file.
        path: PathBuf,
        /// Description of the damage.
        why: String,
    },
    /// The session has no artifacts that segue can copy, or the archive has no copy of it.
    #[error("nothing is there of {0}")]
    Nothing(String),
}

impl KeepError {
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            doing,
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn broken(path: &Path, why: impl Into<String>) -> Self {
        Self::Broken {
            path: path.to_owned(),
            why: why.into(),
        }
    }
}
