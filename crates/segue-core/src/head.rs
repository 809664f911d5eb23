//! Where a session's head has been, and which sessions began from it.

use jiff::Timestamp;

use crate::names::names;
use crate::{SessionId, Title};

/// Why a head moved to another turn than the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadMoveKind {
    /// It went back.
    Revert,
    /// A revert was taken back.
    Undo,
}

names!(HeadMoveKind {
    Revert => "revert",
    Undo => "undo",
});

/// A move of a session's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadMove {
    /// Its number within the session, from 1.
    pub n: u32,
    /// Why it moved.
    pub kind: HeadMoveKind,
    /// The number of the turn it was at.
    pub from: u32,
    /// The number of the turn it went to.
    pub to: u32,
    /// Whether it was taken back since.
    pub undone: bool,
    /// When it moved.
    pub at: Timestamp,
}

/// A session that was forked off from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkedOff {
    /// The new session.
    pub id: SessionId,
    /// What it is called.
    pub title: Title,
    /// The number of the last turn that is shared.
    pub turn: u32,
    /// When it was made.
    pub at: Timestamp,
}

/// What became of a session beside its turns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The sessions that were forked off from it and are still there, oldest first.
    pub forks: Vec<ForkedOff>,
    /// The moves of its head, oldest first.
    pub moves: Vec<HeadMove>,
}
