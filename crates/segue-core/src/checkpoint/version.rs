//! A version of a session's checkpoint.

use jiff::Timestamp;

use super::ItemAuthor;
use crate::enum_names::names;
use crate::id::TurnId;

/// Reason why a version was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointReason {
    /// The context came near the budget.
    Budget,
    /// The user requested it.
    Requested,
    /// The brief for a new native session exceeded its budget.
    BriefTooLarge,
    /// A summariser refined the checkpoint.
    Summarised,
    /// The user pinned or unpinned an item.
    Pinned,
    /// The user edited the checkpoint.
    Edited,
    /// The user restored an earlier version.
    Restored,
    /// The version was imported with its session.
    Imported,
}

names!(CheckpointReason {
    Budget => "budget",
    Requested => "asked",
    BriefTooLarge => "told",
    Summarised => "summed",
    Pinned => "pinned",
    Edited => "edited",
    Restored => "restored",
    Imported => "imported",
});

/// Metadata of a version of a checkpoint, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointVersion {
    /// Number of the version within the session, from 1.
    pub n: u32,
    /// Turn that the version is attached to.
    pub turn: TurnId,
    /// Number of the last turn that the version summarises.
    pub covers: u32,
    /// Size of the rendered version, in tokens.
    pub tokens: u64,
    /// Tokens that the version replaces: those of the previous version and of all messages since then.
    pub replaced: u64,
    /// Author of the version.
    pub author: ItemAuthor,
    /// Reason why the version was made.
    pub reason: CheckpointReason,
    /// Time at which the version was made.
    pub at: Timestamp,
    /// Number of the last turn that the summariser had read, if a summariser made this version; otherwise 0.
    pub last_read_turn: u32,
    /// Highest id among the items of the version.
    pub last_item_id: u32,
}

impl CheckpointVersion {
    /// Returns the number of tokens that the version saves over the text that it replaces.
    #[must_use]
    pub fn saved_tokens(&self) -> u64 {
        self.replaced.saturating_sub(self.tokens)
    }
}
