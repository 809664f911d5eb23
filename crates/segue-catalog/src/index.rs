//! Index of all native sessions on this machine, in one file that answers queries fast: a row per session, and the
//! words of every turn.
//!
//! The index can be deleted at any time, because segue rebuilds it from the agents' files. [`Index::refresh`] updates
//! it; [`Index::list_sessions`] and [`Index::search`] only read it. No other part of segue needs it: a session is
//! resumed without it.

mod own_sessions;
mod query;
mod refresh;
mod schema;
mod search;
mod session_rows;
mod snippet;
mod source_reader;
mod text_folding;
mod turn_text;
mod writer;

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

pub use own_sessions::{OwnSession, OwnSessionChanges, OwnSessionStamp, OwnTurn};
pub use query::{HitOrder, QueryError, QueryWords, SearchQuery};
pub use refresh::{Progress, RefreshOutcome, RefreshStats};
pub use search::{HitSource, IndexHit, IndexHitTurn, IndexHits, IndexQuery};
pub use session_rows::{IndexFilter, IndexedSession, NativeStatus, UnreadableSource};
pub use snippet::{Snippet, build_snippet};
pub(crate) use source_reader::read_turn_text;
pub use turn_text::SearchableText;

/// Provider name of segue's own sessions in the index.
const OWN_PROVIDER_NAME: &str = "segue";

/// The index of the catalog.
#[derive(Debug)]
pub struct Index {
    path: PathBuf,
    /// Last used connection, with the inode of its file.
    cached_connection: Mutex<Option<(u64, Connection)>>,
}

/// An error of the index.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The index does not exist yet.
    #[error("the session index does not exist yet")]
    Missing,
    /// A newer version of segue wrote the index.
    #[error("a newer version of segue wrote the session index")]
    Newer,
    /// The file of the index can't be used.
    #[error("cannot use the session index {}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// SQLite reported an error.
    #[error("cannot use the session index")]
    Sqlite(#[from] rusqlite::Error),
}

/// Remedy for an index that can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Rebuild the index.
    Rebuild,
    /// Permit writing at its path.
    Permission,
    /// Free space on its disk.
    Space,
    /// Remove other files or directories from its path.
    Path,
    /// Retry later.
    Time,
}

impl IndexError {
    fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// Returns the message with its cause.
    #[must_use]
    pub fn format_error_chain(&self) -> String {
        crate::format_error_chain(self)
    }

    /// Returns the remedy for this error.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Missing | Self::Newer => Remedy::Rebuild,
            Self::Io { source, .. } => match source.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                    Remedy::Space
                }
                ErrorKind::IsADirectory | ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
                    Remedy::Path
                }
                _ => Remedy::Permission,
            },
            Self::Sqlite(error) => match error.sqlite_error_code() {
                Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Remedy::Permission,
                Some(ErrorCode::CannotOpen) => Remedy::Path,
                // SQLite reports a limit on the size of files as a failed write.
                Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => Remedy::Space,
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Remedy::Time,
                _ => Remedy::Rebuild,
            },
        }
    }

    /// Returns `true` if the file is damaged or was not written by segue.
    fn is_damage(&self) -> bool {
        let Self::Sqlite(error) = self else {
            return false;
        };
        match error.sqlite_error_code() {
            Some(code) => matches!(
                code,
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown
            ),
            None => matches!(error, rusqlite::Error::InvalidColumnType(..)),
        }
    }
}

impl Index {
    /// Returns the index in segue's home. Does not create or read its file.
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self {
            path: home.join("catalog.db"),
            cached_connection: Mutex::default(),
        }
    }

    /// Returns the path of its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its size in bytes, including the write-ahead log.
    #[must_use]
    pub fn size(&self) -> u64 {
        let files = [self.path.clone(), self.sibling_path("db-wal")];
        let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |data| data.len());
        files.iter().map(size).sum()
    }

    /// Empties the index, so that the next refresh rebuilds it. Returns `false` if another process is still writing to
    /// it after `timeout`.
    pub fn reset(&self, timeout: Duration) -> Result<bool, IndexError> {
        let Some(_lock) = self.acquire_lock(timeout)? else {
            return Ok(false);
        };
        self.clear()?;
        Ok(true)
    }

    /// Empties the index. The caller must have acquired the lock.
    fn clear(&self) -> Result<(), IndexError> {
        self.replace_connection(None);
        schema::clear_file(&self.path)
    }

    fn sibling_path(&self, extension: &str) -> PathBuf {
        self.path.with_extension(extension)
    }

    fn read_with<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, IndexError> {
        // The file may be another one, because another process may have replaced it.
        let file = std::fs::metadata(&self.path).map_err(|_| IndexError::Missing)?;
        let cached = self
            .replace_connection(None)
            .filter(|(inode, _)| *inode == file.ino());
        let db = match cached {
            Some((_, db)) => db,
            None => schema::open_for_reading(&self.path)?,
        };
        // A transaction reads one state, because another process may empty and fill the index concurrently.
        let result = db.unchecked_transaction().and_then(|transaction| {
            let value = query(&transaction)?;
            transaction.commit()?;
            Ok(value)
        });
        let value = result.map_err(|error| match schema::is_current_version(&db) {
            Ok(false) => IndexError::Missing,
            _ => error.into(),
        })?;
        self.replace_connection(Some((file.ino(), db)));
        Ok(value)
    }

    /// Stores a connection for the next read, and returns the previous one.
    fn replace_connection(
        &self,
        connection: Option<(u64, Connection)>,
    ) -> Option<(u64, Connection)> {
        let mut slot = self
            .cached_connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut slot, connection)
    }
}
