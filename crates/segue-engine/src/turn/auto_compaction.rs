//! Automatic compaction at the end of a turn whose native session is close to the budget.

use segue_core::checkpoint::CheckpointReason;
use segue_core::session::{Decision, DecisionKind};

use super::TurnRun;
use crate::TurnError;
use crate::checkpoint::compaction::format_compaction_decision;

impl TurnRun<'_> {
    /// Determines whether compaction is due. `None` if this depends on the record, which has to be closed first.
    pub(super) async fn check_compaction_due(&self) -> Result<Option<bool>, TurnError> {
        let applies = self.runner.context.settings.policy.compaction.should_compact(&self.session);
        let Some(leg) = self.leg_before_turn.as_ref().filter(|_| applies) else {
            return Ok(Some(false));
        };
        let estimates = leg.estimated_tokens.zip(self.estimate_added_tokens());
        let Some((before, added)) = estimates else {
            return Ok(None);
        };
        let budget = self.runner.compactor.briefs.provider_budget(&self.report.provider).await?;
        let tokens_and_budget = (before.saturating_add(added), budget);
        let due = self.runner.compactor.briefs
            .should_compact(&self.session, self.turn, tokens_and_budget);
        Ok(Some(due.await?))
    }

    /// Compacts the session if that is due. The turn has ended by now, so a failure does not affect it.
    pub(super) async fn compact_if_due(&mut self, due: Option<bool>) -> Result<(), TurnError> {
        if due == Some(false) {
            return Ok(());
        }
        let decision = match self.compact_session(due).await {
            Ok(None) => return Ok(()),
            Ok(Some(decision)) => decision,
            Err(error) => {
                let text = format!(
                    "could not compact the session: {error}; segue retries after the next turn"
                );
                Decision::new(DecisionKind::Compacted, text)
            }
        };
        self.report_decision(decision).await?;
        Ok(())
    }

    async fn compact_session(
        &mut self,
        due: Option<bool>,
    ) -> Result<Option<Decision>, TurnError> {
        let (engine, provider) = (self.runner, &self.report.provider);
        if due.is_none() {
            let budget = engine.compactor.briefs.provider_budget(provider).await?;
            let native_tokens = engine.compactor.briefs
                .estimate_native_tokens(&self.session, self.turn)
                .await?;
            let due = engine.compactor.briefs.should_compact(&self.session, self.turn, (native_tokens, budget));
            if !due.await? {
                return Ok(None);
            }
        }
        let reason_and_leg = (CheckpointReason::Budget, self.leg);
        let up_to = (self.turn, provider);
        let compacted =
            engine.compactor.compact_under_lease(self.guard, &self.session, up_to, reason_and_leg);
        let Some((version, compaction)) = compacted.await? else {
            return Ok(None);
        };
        for line in engine.context.agent_pool.end_agent(&self.session.id).await {
            self.report_guard_action(&line).await?;
        }
        let text = format_compaction_decision(&version, &compaction);
        Ok(Some(Decision::new(DecisionKind::Compacted, text)))
    }
}
