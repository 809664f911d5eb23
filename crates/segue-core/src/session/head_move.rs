//! Head moves of a session, and the sessions that were forked from it.

use jiff::Timestamp;

use crate::enum_names::named_enum;
use crate::id::SessionId;
use crate::session::Title;

named_enum! {
    /// Reason why a head moved to a turn that is not the next.
    pub enum HeadMoveKind {
        /// The head moved back to an earlier turn.
        Revert => "revert",
        /// A revert was undone.
        Undo => "undo",
    }
}

/// A move of a session's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadMove {
    /// Number within the session, from 1.
    pub number: u32,
    /// Reason for the move.
    pub kind: HeadMoveKind,
    /// Number of the turn from which the head moved.
    pub from: u32,
    /// Number of the turn to which the head moved.
    pub to: u32,
    /// Whether the move was undone later.
    pub undone: bool,
    /// Time of the move.
    pub at: Timestamp,
}

/// A session that was forked from another session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkSummary {
    /// Id of the fork.
    pub id: SessionId,
    /// Title of the fork.
    pub title: Title,
    /// Number of the last shared turn.
    pub turn: u32,
    /// Time at which the fork was created.
    pub at: Timestamp,
}

/// Forks and head moves of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lineage {
    /// Sessions that were forked from this session and still exist, oldest first.
    pub forks: Vec<ForkSummary>,
    /// Head moves, oldest first.
    pub moves: Vec<HeadMove>,
}
