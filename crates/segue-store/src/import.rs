//! Sessions that are imported from another program.

use jiff::Timestamp;
use segue_core::checkpoint::{Checkpoint, CheckpointReason, ItemAuthor};
use segue_core::id::{SessionId, TurnId};
use segue_core::json::Json;
use segue_core::session::{Decision, Tag};

use crate::{AdoptedTurn, NewCheckpoint};

/// Origin of an imported session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOrigin {
    /// Name of the session in the other program. It stays valid as a reference to the session.
    pub name: String,
    /// Format in which the session was imported.
    pub format: String,
    /// Data of the other program that segue has no field for. It is stored so that an export can write it back.
    pub extra_fields: Json,
    /// Time of the import.
    pub at: Timestamp,
}

/// A session of another program that becomes a session of segue. It has no native session.
#[derive(Debug, Clone)]
pub struct ImportedSession {
    /// Origin of the session.
    pub origin: SessionOrigin,
    /// Turns, oldest first. Each has ended and was never sent.
    pub turns: Vec<AdoptedTurn>,
    /// Checkpoint of the session in the other program, if it has one.
    pub checkpoint: Option<ImportedCheckpoint>,
    /// Tags that the user attached.
    pub tags: Vec<Tag>,
    /// Time of the last activity in the session.
    pub updated_at: Timestamp,
    /// Log entry about the import.
    pub decision: Decision,
    /// Sessions of the same name next to which this session may be created, because they are different sessions.
    pub distinct_from: Vec<SessionId>,
}

impl ImportedSession {
    /// Returns the first of the sessions that were imported under the same name and are not known to be different.
    #[must_use]
    pub fn find_conflict(&self, same_name: &[SessionId]) -> Option<SessionId> {
        let mut conflicts = same_name
            .iter()
            .filter(|id| !self.distinct_from.contains(id));
        conflicts.next().cloned()
    }
}

/// Checkpoint of an imported session, which becomes its first version.
#[derive(Debug, Clone)]
pub struct ImportedCheckpoint {
    /// Number of the turn that the checkpoint is attached to.
    pub turn: u32,
    /// Number of the last turn that the checkpoint covers. 0 if none of the covered turns were imported.
    pub covers: u32,
    /// Content of the checkpoint.
    pub checkpoint: Checkpoint,
    /// Tokens that the checkpoint needs in a brief.
    pub tokens: u64,
    /// Tokens that the checkpoint replaces.
    pub replaced: u64,
    /// Time at which the checkpoint was made.
    pub at: Timestamp,
}

impl ImportedCheckpoint {
    /// Returns the version to store. `turns` are the imported turns, oldest first. `None` if they do not contain the
    /// turn of the checkpoint.
    #[must_use]
    pub fn to_new(&self, turns: &[TurnId]) -> Option<NewCheckpoint> {
        let index = usize::try_from(self.turn).ok()?.checked_sub(1)?;
        Some(NewCheckpoint {
            turn: *turns.get(index)?,
            covers: self.covers,
            checkpoint: self.checkpoint.clone(),
            tokens: self.tokens,
            replaced: self.replaced,
            author: ItemAuthor::Summariser,
            reason: CheckpointReason::Imported,
            last_read_turn: 0,
            at: self.at,
        })
    }
}
