//! Sessions that are imported from another program.

use jiff::Timestamp;
use segue_core::checkpoint::Checkpoint;
use segue_core::id::SessionId;
use segue_core::json::Json;
use segue_core::session::{Decision, Tag};

use crate::AdoptedTurn;

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
