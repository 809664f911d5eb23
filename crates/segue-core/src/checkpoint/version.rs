//! A version of a session's checkpoint.

use jiff::Timestamp;

use super::ItemAuthor;
use crate::enum_names::named_enum;
use crate::id::TurnId;

named_enum! {
    /// Reason why a version was made.
    pub enum CheckpointReason {
        /// The context came near the budget.
        Budget => "budget",
        /// The user requested it.
        Requested => "asked",
        /// The brief for a new native session exceeded its budget.
        BriefTooLarge => "told",
        /// A summariser refined the checkpoint.
        Summarised => "summed",
        /// The user pinned or unpinned an item.
        Pinned => "pinned",
        /// The user edited the checkpoint.
        Edited => "edited",
        /// The user restored an earlier version.
        Restored => "restored",
        /// The version was imported with its session.
        Imported => "imported",
    }
}

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
