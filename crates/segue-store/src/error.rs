//! Errors of a store.

use segue_core::id::SessionId;

use crate::{FeedCursor, LeaseHolder};

/// An unexpected cause.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Reason why a store operation did not happen. It does not name the place of the store, such as a file, because only
/// the program that opened the store knows how its user refers to it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The session does not exist.
    #[error("session {0} not found")]
    NoSession(SessionId),
    /// The session has no turn with this id, or the turn cannot be changed any more.
    #[error("session {0} has no such running turn")]
    NoTurn(SessionId),
    /// The last turn has not ended yet.
    #[error("session {0} has a running turn")]
    TurnRunning(SessionId),
    /// The session has no leg with this id, or the leg is not in the required state.
    #[error("leg not found in session {0}")]
    NoLeg(SessionId),
    /// The id of the new session is already in use.
    #[error("session {0} already exists")]
    SessionExists(SessionId),
    /// A session with the same purpose or the same origin already exists, so the new session was not created.
    #[error("session {0} was created concurrently for the same purpose")]
    PurposeTaken(SessionId),
    /// The native session is already in use by the session with this id.
    #[error("session {0} already uses this native session")]
    NativeAttached(SessionId),
    /// The session is in use by another process, or open in it.
    #[error("session {session} is {} process {} on {}", .holder.usage_phrase(), .holder.owner.pid, .holder.owner.host)]
    Leased {
        /// Id of the session.
        session: SessionId,
        /// Owner of the lease.
        holder: Box<LeaseHolder>,
    },
    /// The lease is no longer valid, because another process has taken over the session or the lease was released.
    #[error("session {0} was taken over by another process")]
    LeaseLost(SessionId),
    /// The session has no revert that can be undone.
    #[error("session {0} has no revert to undo")]
    NoRevertToUndo(SessionId),
    /// The cursor belongs to the feed of another store, or of an earlier copy of this one.
    #[error("cursor {0} does not belong to this store")]
    UnknownCursor(FeedCursor),
    /// A later version of segue wrote the store.
    #[error("the store has format {found}; this segue supports up to {supported}")]
    NewerFormat {
        /// Format version of the store.
        found: i64,
        /// Newest format version that this build supports.
        supported: i64,
    },
    /// The file is not a store, or it is damaged.
    #[error("the store is damaged or not a segue store")]
    Corrupt {
        /// Cause.
        #[source]
        source: BoxError,
    },
    /// The disk is full.
    #[error("cannot write to the store: the disk is full")]
    DiskFull {
        /// Error of the operating system.
        #[source]
        source: BoxError,
    },
    /// The store is not writable.
    #[error("cannot write to the store: it is read-only")]
    ReadOnly {
        /// Error of the operating system.
        #[source]
        source: BoxError,
    },
    /// Other processes blocked the store for too long.
    #[error("the store was locked by other processes for too long")]
    Busy,
    /// Any other error.
    #[error("cannot {operation} the store")]
    Backend {
        /// Operation that failed.
        operation: &'static str,
        /// Cause.
        #[source]
        source: BoxError,
    },
}
