//! Compaction: turns become a checkpoint, and the leg whose native session contains them in full ends.

use segue_core::checkpoint::{CheckpointReason, CheckpointVersion, CompactionPlan, ItemAuthor};
use segue_core::id::{LegId, SessionId, TurnId};
use segue_core::session::{Decision, LegEnd, Session};
use segue_store::{Lease, NewCheckpoint, StoreError};

use super::Compactor;
use crate::CompactionError;
use crate::reconcile::ReconcileMode;

/// Result of a compaction that the user requested.
#[derive(Debug, Clone)]
pub struct CompactionOutcome {
    /// Version that was created; `None` if no turn follows the last version.
    pub created: Option<(CheckpointVersion, CompactionPlan)>,
    /// Automatic decisions that segue made during the call.
    pub decisions: Vec<Decision>,
}

/// Circumstances of a compaction.
pub(crate) struct CompactionCommit {
    /// Turn up to which the session is compacted.
    pub(crate) head: TurnId,
    pub(crate) reason: CheckpointReason,
    /// Leg that ends, because its native session contains the compacted turns in full.
    pub(crate) ended_leg: Option<LegId>,
}

impl Compactor {
    /// Compacts a session that is not in use. Its next prompt starts a native session with the checkpoint in the brief.
    pub async fn compact(&self, session: &Session) -> Result<CompactionOutcome, CompactionError> {
        // Turns made in the agent's own program are applied first, because segue does not read this native session
        // later.
        let mode = ReconcileMode::Prompt { strict: false };
        let reconciled = self
            .reconciler
            .acquire_lease_and_reconcile(&session.id, mode);
        let (guard, decisions) = reconciled.await?;
        let created = self.compact_idle_session(&guard.lease, &session.id).await;
        if created.as_ref().is_ok_and(Option::is_some) {
            // An agent that stays running still has the compacted turns in full, so it is ended.
            self.context.agent_pool.end_agent(&session.id).await;
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
        id: &SessionId,
    ) -> Result<Option<(CheckpointVersion, CompactionPlan)>, CompactionError> {
        let session = self.context.require_session(id).await?;
        let Some(head) = session.head else {
            return Ok(None);
        };
        let planning = self
            .briefs
            .plan_compaction(&session, head, &session.provider);
        let Some(plan) = planning.await? else {
            return Ok(None);
        };
        let legs = self.context.store.legs(id).await?;
        let open_leg = legs.last().filter(|leg| leg.ended.is_none());
        let circumstances = CompactionCommit {
            head,
            reason: CheckpointReason::Requested,
            ended_leg: open_leg.map(|leg| leg.id),
        };
        let (version, _) = self.commit(lease, &plan, circumstances).await?;
        Ok(Some((version, plan)))
    }

    /// Commits a planned compaction, and logs the decision. Returns the new version and the decision.
    pub(crate) async fn commit(
        &self,
        lease: &Lease,
        plan: &CompactionPlan,
        commit: CompactionCommit,
    ) -> Result<(CheckpointVersion, Decision), StoreError> {
        let at = self.context.now();
        let new = NewCheckpoint {
            turn: commit.head,
            covers: plan.covers,
            checkpoint: plan.checkpoint.clone(),
            tokens: plan.tokens,
            replaced: plan.replaced,
            author: ItemAuthor::Extraction,
            reason: commit.reason,
            last_read_turn: 0,
            at,
        };
        let ended_leg = commit.ended_leg.map(|leg| (leg, LegEnd::Compacted));
        let store = &self.context.store;
        let version = store.add_checkpoint(lease, new, ended_leg).await?;
        let decision = Decision::SessionCompacted(plan.to_summary(version.n));
        store.log_decision(lease, &decision, at).await?;
        Ok((version, decision))
    }
}
