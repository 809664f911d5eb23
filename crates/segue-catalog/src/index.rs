//! All native sessions of this machine in one file that answers at once: a row a session, and the words of every turn.
//!
//! The index can be deleted at any time: it is built anew from what the agents keep. [`Index::refresh`] catches up
//! with them; [`Index::list`] and [`Index::search`] only look. Nothing else in segue needs it: a session is resumed
//! without it.

mod fold;
mod own;
mod query;
mod read;
mod refresh;
mod rows;
mod schema;
mod search;
mod snippet;
mod texts;
mod write;

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

pub use own::{OwnMark, OwnSession, OwnTurn};
pub use query::{Order, Query, QueryError, Words};
pub(crate) use read::texts_after;
pub use refresh::{Progress, Refreshed, Work};
pub use rows::{Failure, Row, State, Which};
pub use search::{Ask, Hit, HitTurn, Hits, Of};
pub use snippet::{Snippet, snippet};
pub use texts::Texts;

/// What segue's own sessions are filed under.
const OWN: &str = "segue";

/// The index of the catalog.
#[derive(Debug)]
pub struct Index {
    path: PathBuf,
    /// The connection that was used last, and which file it is to.
    kept: Mutex<Option<(u64, Connection)>>,
}

/// The index can't be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// There is none yet.
    #[error("there is no index yet")]
    Missing,
    /// It is of a newer segue.
    #[error("the index is of a newer segue")]
    Newer,
    /// Its file can't be used.
    #[error("cannot use the index {}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// SQLite says so.
    #[error("cannot use the index of sessions")]
    Sqlite(#[from] rusqlite::Error),
}

/// What helps where the index can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// To build it anew.
    Rebuild,
    /// The right to write where it is.
    Permission,
    /// Room on its disk.
    Space,
    /// That nothing else stands in its place.
    Place,
    /// To try again.
    Time,
}

impl IndexError {
    fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// What went wrong, with its cause.
    #[must_use]
    pub fn in_full(&self) -> String {
        crate::in_full(self)
    }

    /// What helps.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Missing | Self::Newer => Remedy::Rebuild,
            Self::Io { source, .. } => match source.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                    Remedy::Space
                }
                ErrorKind::IsADirectory | ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
                    Remedy::Place
                }
                _ => Remedy::Permission,
            },
            Self::Sqlite(error) => match error.sqlite_error_code() {
                Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Remedy::Permission,
                Some(ErrorCode::CannotOpen) => Remedy::Place,
                // A limit on the size of files is told as a failed write.
                Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => Remedy::Space,
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Remedy::Time,
                _ => Remedy::Rebuild,
            },
        }
    }

    /// Whether the file is not what we wrote.
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
    /// The index in segue's home. Nothing is made or read yet.
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self {
            path: home.join("catalog.db"),
            kept: Mutex::default(),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes it takes.
    #[must_use]
    pub fn size(&self) -> u64 {
        let files = [self.path.clone(), self.beside("db-wal")];
        let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |data| data.len());
        files.iter().map(size).sum()
    }

    /// Empties it; the next refresh builds it anew. Whether it could: somebody else may be writing it.
    pub fn start_over(&self, patience: Duration) -> Result<bool, IndexError> {
        let Some(_lock) = self.lock(patience)? else {
            return Ok(false);
        };
        self.clear()?;
        Ok(true)
    }

    /// Empties it; the lock must be held.
    fn clear(&self) -> Result<(), IndexError> {
        self.keep(None);
        schema::empty(&self.path)
    }

    fn beside(&self, extension: &str) -> PathBuf {
        self.path.with_extension(extension)
    }

    fn reading<T>(
        &self,
        look: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, IndexError> {
        // Somebody may have put another file in its place.
        let file = std::fs::metadata(&self.path).map_err(|_| IndexError::Missing)?;
        let kept = self.keep(None).filter(|(inode, _)| *inode == file.ino());
        let db = match kept {
            Some((_, db)) => db,
            None => schema::open_to_read(&self.path)?,
        };
        // All that is looked at is of one moment: it may be emptied and filled under our hands.
        let looked = db.unchecked_transaction().and_then(|moment| {
            let seen = look(&moment)?;
            moment.commit()?;
            Ok(seen)
        });
        let seen = looked.map_err(|error| match schema::is_made(&db) {
            Ok(false) => IndexError::Missing,
            _ => error.into(),
        })?;
        self.keep(Some((file.ino(), db)));
        Ok(seen)
    }

    /// Keeps a connection for the next time, and gives the one before.
    fn keep(&self, kept: Option<(u64, Connection)>) -> Option<(u64, Connection)> {
        let mut place = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut place, kept)
    }
}
