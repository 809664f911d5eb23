//! Head moves of a session, and the sessions that were forked from it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::enum_names::named_enum;
use crate::id::SessionId;

named_enum! {
    /// Reason why a head moved to a turn that is not the next.
    pub enum HeadMoveKind {
        /// The head moved back to an earlier turn.
        Revert => "revert",
        /// A revert was undone.
        Undo => "undo",
    }
}

/// A revert or an undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "ListedMove")
)]
pub struct HeadMove {
    /// Number of the move in the session, from 1.
    #[serde(rename = "n")]
    pub number: u32,
    /// Kind of the move.
    pub kind: HeadMoveKind,
    /// Number of the last turn before the move.
    pub from: u32,
    /// Number of the last turn after the move.
    pub to: u32,
    /// Whether the move was undone later.
    pub undone: bool,
    /// Time of the move.
    pub at: Timestamp,
}

/// A fork of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "ListedFork")
)]
pub struct ForkSummary {
    /// ID of the fork.
    pub id: SessionId,
    /// Title of the fork.
    pub title: String,
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
