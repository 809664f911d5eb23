//! What can go wrong in a store.

use std::path::PathBuf;

use segue_core::SessionId;

use crate::Holder;

/// An unexpected cause.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a store operation did not happen.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such session.
    #[error("there is no session {0}")]
    NoSession(SessionId),
    /// The session has no such turn, or it can't be changed any more.
    #[error("session {0} has no such turn under way")]
    NoTurn(SessionId),
    /// The last turn has not ended yet.
    #[error("session {0} has a turn under way")]
    TurnUnderWay(SessionId),
    /// The session has no such leg.
    #[error("session {0} has no such leg")]
    NoLeg(SessionId),
    /// The id is taken.
    #[error("there is already a session {0}")]
    Exists(SessionId),
    /// Another session is what this one was to be.
    #[error("session {0} was made for the same meanwhile")]
    Fits(SessionId),
    /// The native session is carried by this session already.
    #[error("session {0} carries this native session already")]
    Carried(SessionId),
    /// Another process is at work in the session, or keeps it open.
    #[error("session {session} is {} process {} on {}", .by.has_it(), .by.owner.pid, .by.owner.host)]
    Held {
        /// The session.
        session: SessionId,
        /// Who has it.
        by: Box<Holder>,
    },
    /// Another process took the session over meanwhile.
    #[error("session {0} was taken over by another process")]
    LeaseLost(SessionId),
    /// No revert is left to be undone.
    #[error("session {0} has no revert to undo")]
    NothingToUndo(SessionId),
    /// The store was written by a later version of segue.
    #[error("the store {path} has format {found}, and this segue knows only up to {known}")]
    Newer {
        /// Where it is.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format known here.
        known: i64,
    },
    /// The file is not a store, or is damaged.
    #[error("the store {path} is damaged or is not a store")]
    Corrupt {
        /// Where it is.
        path: PathBuf,
        /// What was found.
        #[source]
        source: BoxError,
    },
    /// No room is left.
    #[error("cannot write to the store {path}: the disk is full")]
    Full {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: BoxError,
    },
    /// The store may not be written.
    #[error("cannot write to the store {path}: it is read-only")]
    ReadOnly {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: BoxError,
    },
    /// Other processes kept the store busy for too long.
    #[error("the store {path} was kept busy by other processes for too long")]
    Busy {
        /// Where it is.
        path: PathBuf,
    },
    /// Anything else.
    #[error("cannot {doing} the store {path}")]
    Backend {
        /// What was being done.
        doing: &'static str,
        /// Where it is.
        path: PathBuf,
        /// What happened.
        #[source]
        source: BoxError,
    },
}
