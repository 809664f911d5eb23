//! Checkpoints, project contexts and the log of decisions.

use async_trait::async_trait;
use jiff::Timestamp;
use segue_core::brief::CachedContext;
use segue_core::checkpoint::{Checkpoint, CheckpointVersion};
use segue_core::id::{SessionId, TurnId};
use segue_core::session::Decision;

use crate::{CompactionCommit, Lease, NewCheckpoint, Result};

/// Checkpoints, of which all versions are retained.
#[async_trait]
pub trait CheckpointStore: Send + Sync {
    /// Stores another version of a checkpoint.
    async fn add_checkpoint(&self, lease: &Lease, new: NewCheckpoint) -> Result<CheckpointVersion>;
    /// Stores the version that a compaction makes, ends its leg, and logs the decision with the number of the version,
    /// in one operation.
    async fn commit_compaction(
        &self,
        lease: &Lease,
        new: NewCheckpoint,
        compaction: CompactionCommit,
    ) -> Result<CheckpointVersion>;
    /// Returns the version that is active at a turn of a session: the newest version of the nearest turn that has one,
    /// from `turn` back through its ancestors. A version that another session made on a shared turn counts if it
    /// existed when this session was forked from that session. `None` if no version is active.
    async fn checkpoint_at(
        &self,
        id: &SessionId,
        turn: TurnId,
    ) -> Result<Option<(CheckpointVersion, Checkpoint)>>;
    /// Returns all versions of a session, oldest first, including those that it shares with the session from which it
    /// was forked.
    async fn checkpoints(&self, id: &SessionId) -> Result<Vec<CheckpointVersion>>;
    /// Returns version `n` of a session with its content. `None` if it does not exist.
    async fn checkpoint(
        &self,
        id: &SessionId,
        n: u32,
    ) -> Result<Option<(CheckpointVersion, Checkpoint)>>;
}

/// Project contexts, one per session.
#[async_trait]
pub trait ContextStore: Send + Sync {
    /// Stores the project context of an agent in a role, and replaces the stored context of the session. The time of
    /// last activity stays unchanged.
    async fn save_context(&self, id: &SessionId, context: CachedContext) -> Result<()>;
    /// Returns the stored project context. `None` if none is stored or if it cannot be decoded, because the caller can
    /// rebuild it.
    async fn saved_context(&self, id: &SessionId) -> Result<Option<CachedContext>>;
}

/// The log of automatic decisions.
#[async_trait]
pub trait DecisionLog: Send + Sync {
    /// Records an automatic decision.
    async fn log_decision(&self, lease: &Lease, decision: &Decision, at: Timestamp) -> Result<()>;
    /// Returns the newest decisions of a session, oldest first.
    async fn decisions(&self, id: &SessionId, limit: u32) -> Result<Vec<(Timestamp, Decision)>>;
}
