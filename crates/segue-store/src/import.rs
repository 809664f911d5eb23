//! Sessions that another program kept.

use jiff::Timestamp;
use segue_core::{Checkpoint, Decision, Json, SessionId, Tag};

use crate::AdoptedTurn;

/// Where a session came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// What it was called there: another name of the session from now on.
    pub name: String,
    /// In which format it was.
    pub format: String,
    /// What was said of it there that has no place here, to be written again.
    pub kept: Json,
    /// When it came.
    pub at: Timestamp,
}

/// A session of another program that becomes one of ours. No native session carries it.
#[derive(Debug, Clone)]
pub struct Imported {
    /// Where it comes from.
    pub origin: Origin,
    /// What was said in it, oldest first; each of them has ended, and was sent to nobody.
    pub turns: Vec<AdoptedTurn>,
    /// What it came to there.
    pub checkpoint: Option<ImportedCheckpoint>,
    /// The words a person put on it.
    pub tags: Vec<Tag>,
    /// When something last happened in it.
    pub updated_at: Timestamp,
    /// That it came, for its log.
    pub noted: Decision,
    /// Those of the same name that it comes beside, since they are others.
    pub beside: Vec<SessionId>,
}

/// The checkpoint that an imported session comes with; its first version.
#[derive(Debug, Clone)]
pub struct ImportedCheckpoint {
    /// The number of the turn it hangs on.
    pub turn: u32,
    /// The number of the last turn that it sums up; 0 if all of those are gone.
    pub covers: u32,
    /// What it says.
    pub checkpoint: Checkpoint,
    /// How many tokens it takes to tell it.
    pub tokens: u64,
    /// How many tokens it stands for.
    pub replaced: u64,
    /// When it was made.
    pub at: Timestamp,
}
