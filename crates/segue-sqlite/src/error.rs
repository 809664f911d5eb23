//! Conversion of SQLite errors to [`StoreError`], which a caller can act on.

use std::sync::Arc;

use rusqlite::ErrorCode;
use segue_store::StoreError;

/// Error of an operation on a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpError {
    /// An error of the store itself, such as a missing session.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An error that SQLite reported.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

impl OpError {
    /// Returns `true` if the file needs a repair that a read-only connection cannot make.
    pub(crate) fn needs_writer(&self) -> bool {
        match self {
            Self::Store(_) => false,
            Self::Sqlite(error) => error.sqlite_error_code() == Some(ErrorCode::ReadOnly),
        }
    }

    pub(crate) fn into_store_error(self, operation: &'static str) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Sqlite(error) => classify_sqlite_error(&Arc::new(error), operation),
        }
    }
}

/// Converts an SQLite error to the [`StoreError`] of its kind. The error is shared, because one failed commit may fail
/// several callers.
pub(crate) fn classify_sqlite_error(
    error: &Arc<rusqlite::Error>,
    operation: &'static str,
) -> StoreError {
    let source = Box::new(Arc::clone(error));
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy,
        Some(ErrorCode::DiskFull) => StoreError::DiskFull { source },
        // A file-size limit or a quota appears as a failed write. Like a full disk, it means that no space is
        // available.
        Some(ErrorCode::SystemIoFailure) if is_write_failure(error) => {
            StoreError::DiskFull { source }
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly { source },
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StoreError::Corrupt { source }
        }
        Some(_) => StoreError::Backend { operation, source },
        // Without a code, the error is one of conversion: a row contains a value of the wrong type or form.
        None => StoreError::Corrupt { source },
    }
}

fn is_write_failure(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(rusqlite::ffi::SQLITE_IOERR_WRITE)
        || code == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
        || code == Some(rusqlite::ffi::SQLITE_IOERR_TRUNCATE)
}
