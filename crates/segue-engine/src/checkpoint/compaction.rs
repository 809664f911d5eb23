//! Compaction: turns become a checkpoint, and the leg whose native session contains them in full ends.

use segue_core::checkpoint::{CheckpointReason, CheckpointVersion, CompactionPlan, ItemAuthor};
use segue_core::id::{LegId, TurnId};
use segue_core::session::{Decision, Session, SessionSnapshot};
use segue_store::{CompactionCommit, Lease, NewCheckpoint, StoreError};

use super::Compactor;
use crate::CompactionError;
use crate::reconcile::{ReconcileMode, ReconciledSession};

/// Result of a compaction that the user requested.
#[derive(Debug, Clone)]
pub struct CompactionOutcome {
    /// Version that was created; `None` if no turn follows the last version.
    pub created: Option<(CheckpointVersion, CompactionPlan)>,
    /// Automatic decisions that segue made during the call.
    pub decisions: Vec<Decision>,
}

impl Compactor {
    /// Compacts a session that is not in use. Its next prompt starts a native session with the checkpoint in the brief.
    pub async fn compact(&self, session: &Session) -> Result<CompactionOutcome, CompactionError> {
        // Turns made in the agent's own program are applied first, because segue does not read this native session
        // later.
        let mode = ReconcileMode::Prompt { strict: false };
        let id = &session.id;
        let ReconciledSession {
            guard,
            snapshot,
            decisions,
        } = self
            .reconciler
            .acquire_lease_and_reconcile(id, mode)
            .await?;
        let created = self.compact_idle_session(&guard.lease, &snapshot).await;
        if created.as_ref().is_ok_and(Option::is_some) {
            // An agent that stays running still has the compacted turns in full, so it is ended.
            self.context.agent_pool.end_agent(id).await;
        }
        guard.release().await;
        Ok(CompactionOutcome {
            created: created?,
            decisions,
        })
    }

    async fn compact_idle_session(
        &self,
        lease: &Lease,
        snapshot: &SessionSnapshot,
    ) -> Result<Option<(CheckpointVersion, CompactionPlan)>, CompactionError> {
        let (briefs, session) = (&self.briefs, &snapshot.session);
        let Some(head) = session.head else {
            return Ok(None);
        };
        let planning = briefs.plan_compaction(session, head, &session.provider);
        let Some(plan) = planning.await? else {
            return Ok(None);
        };
        let ended_leg = snapshot.open_leg().map(|leg| leg.id);
        let reason = CheckpointReason::Requested;
        let version = self.commit(lease, &plan, (head, reason), ended_leg).await?;
        Ok(Some((version, plan)))
    }

    /// Commits a planned compaction up to `head`, which ends the leg whose native session contains the compacted turns
    /// in full.
    pub(crate) async fn commit(
        &self,
        lease: &Lease,
        plan: &CompactionPlan,
        (head, reason): (TurnId, CheckpointReason),
        ended_leg: Option<LegId>,
    ) -> Result<CheckpointVersion, StoreError> {
        let new = NewCheckpoint {
            turn: head,
            covers: plan.covers,
            checkpoint: plan.checkpoint.clone(),
            tokens: plan.tokens,
            replaced: plan.replaced,
            author: ItemAuthor::Extraction,
            reason,
            last_read_turn: 0,
            at: self.context.now(),
        };
        let compaction = CompactionCommit {
            summary: plan.to_summary(0),
            ended_leg,
        };
        let store = &self.context.store;
        store.commit_compaction(lease, new, compaction).await
    }
}
