//! One version of a checkpoint among those of a session.

use jiff::Timestamp;

use super::Author;
use crate::TurnId;
use crate::names::names;

/// Why a version was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// What was said came near the budget.
    Budget,
    /// The person asked for it.
    Asked,
    /// A new native session had to be told more than there was room for.
    Told,
    /// A summariser had something to add.
    Summed,
    /// The person pinned an item, or no longer.
    Pinned,
    /// The person wrote it.
    Edited,
    /// The person went back to an earlier version.
    Restored,
    /// It came with an imported session.
    Imported,
}

names!(Occasion {
    Budget => "budget",
    Asked => "asked",
    Told => "told",
    Summed => "summed",
    Pinned => "pinned",
    Edited => "edited",
    Restored => "restored",
    Imported => "imported",
});

/// A version of a checkpoint, but for its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Its number within the session, from 1.
    pub n: u32,
    /// The turn it hangs on.
    pub turn: TurnId,
    /// The number of the last turn that it sums up.
    pub covers: u32,
    /// How many tokens it takes to tell it.
    pub tokens: u64,
    /// How many tokens it stands for: those of the version before and of all that was said since.
    pub replaced: u64,
    /// Who made it.
    pub by: Author,
    /// On which occasion.
    pub why: Occasion,
    /// When.
    pub at: Timestamp,
    /// The number of the last turn that a summariser had read who made it; 0 if somebody else did.
    pub read: u32,
    /// The highest number that one of its items has.
    pub last_item: u32,
}

impl Version {
    /// How many tokens fewer it takes than what it stands for.
    #[must_use]
    pub fn saved(&self) -> u64 {
        self.replaced.saturating_sub(self.tokens)
    }
}
