//! Automatic compaction at the end of a turn whose native session is close to the budget.

use segue_core::checkpoint::CheckpointReason;
use segue_core::session::Decision;

use super::TurnRun;
use super::attempt::AttemptState;
use crate::leg::open_leg::guard_decisions;
use crate::{PlanError, TurnError};

impl TurnRun<'_> {
    /// Determines whether compaction is due. `None` if this depends on the record, which has to be closed first.
    pub(super) async fn check_compaction_due(
        &self,
        attempt: &AttemptState,
    ) -> Result<Option<bool>, TurnError> {
        let session = &self.snapshot.session;
        let policy = &self.runner.context.settings.policy;
        let applies = policy.compaction.should_compact(session);
        let Some(attempt_leg) = attempt.leg.as_ref().filter(|_| applies) else {
            return Ok(Some(false));
        };
        let estimates = attempt_leg.leg.estimated_tokens;
        let estimates = estimates.zip(self.estimate_added_tokens(attempt));
        let Some((before, added)) = estimates else {
            return Ok(None);
        };
        let size = before.saturating_add(added);
        Ok(Some(self.is_size_due(attempt, size).await?))
    }

    /// Returns `true` if a native session of this size is due for compaction.
    async fn is_size_due(&self, attempt: &AttemptState, size: u64) -> Result<bool, PlanError> {
        let (briefs, session) = (self.runner.briefs(), &self.snapshot.session);
        let budget = briefs.provider_budget(&attempt.agent.provider).await?;
        briefs
            .should_compact(session, self.turn, (size, budget))
            .await
    }

    /// Compacts the session if that is due. The turn has ended by now, so a failure does not affect it.
    pub(super) async fn compact_if_due(
        &mut self,
        attempt: &AttemptState,
        due: Option<bool>,
    ) -> Result<(), TurnError> {
        if due == Some(false) {
            return Ok(());
        }
        let decision = match self.compact_session(attempt, due).await {
            Ok(None) => return Ok(()),
            Ok(Some(decision)) => decision,
            Err(error) => Decision::CompactionFailed {
                error: error.to_string(),
            },
        };
        Ok(self.report_decision(decision).await?)
    }

    async fn compact_session(
        &mut self,
        attempt: &AttemptState,
        due: Option<bool>,
    ) -> Result<Option<Decision>, TurnError> {
        let (runner, head) = (self.runner, self.turn);
        let (session, provider) = (&self.snapshot.session, &attempt.agent.provider);
        let briefs = runner.briefs();
        if due.is_none() {
            let size = briefs.estimate_native_tokens(session, head).await?;
            if !self.is_size_due(attempt, size).await? {
                return Ok(None);
            }
        }
        let Some(plan) = briefs.plan_compaction(session, head, provider).await? else {
            return Ok(None);
        };
        let ended_leg = attempt.leg.as_ref().map(|leg| leg.leg.id);
        let (lease, up_to) = (&self.guard.lease, (head, CheckpointReason::Budget));
        let committing = runner.compactor.commit(lease, &plan, up_to, ended_leg);
        let summary = plan.to_summary(committing.await?.n);
        let actions = runner.context.agent_pool.end_agent(&session.id).await;
        self.record_decisions(guard_decisions(actions)).await?;
        Ok(Some(Decision::SessionCompacted(summary)))
    }
}
