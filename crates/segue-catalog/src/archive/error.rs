//! Why a session can't be copied, removed or put back.

use std::io;
use std::path::{Path, PathBuf};

use crate::ReadError;

/// A session can't be copied, removed or put back.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// A file can't be read or written.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was to be done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The session can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The session is written to all the while.
    #[error("{} is being written to", .0.display())]
    Changing(PathBuf),
    /// It is a link, or behind one that leads out of the agent's home.
    #[error("{} is a link, and links are not followed", .0.display())]
    Outside(PathBuf),
    /// Other files are where these belong.
    #[error("{} is there already, and differs", .0.display())]
    Differs(PathBuf),
    /// The copy is damaged.
    #[error("{} is damaged: {why}", path.display())]
    Broken {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is nothing to copy.
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
