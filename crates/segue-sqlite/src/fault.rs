//! From what SQLite says to what a caller can act on.

use std::path::Path;
use std::sync::Arc;

use rusqlite::ErrorCode;
use segue_store::StoreError;

/// Why a piece of work on a connection failed, before it is known which file it was about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// An answer of the store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// SQLite failed.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

impl Fault {
    /// Whether the file needs a repair that a connection which only reads may not make.
    pub(crate) fn needs_a_writer(&self) -> bool {
        match self {
            Self::Store(_) => false,
            Self::Sqlite(error) => error.sqlite_error_code() == Some(ErrorCode::ReadOnly),
        }
    }

    pub(crate) fn into_store_error(self, doing: &'static str, path: &Path) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Sqlite(error) => classify(&Arc::new(error), doing, path),
        }
    }
}

/// Names what happened; one SQLite error may have failed several callers, so it is shared.
pub(crate) fn classify(
    error: &Arc<rusqlite::Error>,
    doing: &'static str,
    path: &Path,
) -> StoreError {
    let path = path.to_owned();
    let source = Box::new(Arc::clone(error));
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path },
        Some(ErrorCode::DiskFull) => StoreError::Full { path, source },
        // A file-size limit or a quota shows as a failed write; there is no room either way.
        Some(ErrorCode::SystemIoFailure) if is_write_failure(error) => {
            StoreError::Full { path, source }
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            StoreError::ReadOnly { path, source }
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StoreError::Corrupt { path, source }
        }
        Some(_) => StoreError::Backend {
            doing,
            path,
            source,
        },
        // No code: a row could not be read as what it should be.
        None => StoreError::Corrupt { path, source },
    }
}

fn is_write_failure(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(rusqlite::ffi::SQLITE_IOERR_WRITE)
        || code == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
        || code == Some(rusqlite::ffi::SQLITE_IOERR_TRUNCATE)
}
