//! Compaction of the context by the agent itself: recorded when it happens, and cleared after a reminder was sent.

use segue_core::id::LegId;
use segue_core::session::{Decision, Leg, TurnState};
use segue_store::ContextLossState;

use super::TurnRun;
use super::attempt::{AttemptState, EndedAttempt};
use crate::TurnError;
use crate::brief::has_context_shrunk;

/// Change of the agent's context in an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContextChange {
    /// No relevant change.
    Unchanged,
    /// The prompt reminded the agent of the user's rules and pinned items.
    Reminded,
    /// The agent compacted its own context.
    Compacted,
}

impl TurnRun<'_> {
    /// Returns the text for a resumed native session: the prompt, after messages that the agent has not received and
    /// rules that it may have lost.
    pub(super) async fn prompt_for_resumed(
        &self,
        leg: &Leg,
        attempt: &mut AttemptState,
    ) -> Result<String, TurnError> {
        let (briefs, prompt) = (self.runner.briefs(), &self.request.prompt);
        let earlier_turns = &self.snapshot.recent_turns;
        let added = briefs.prompt_with_added(earlier_turns, prompt).await?;
        let mut with_rules = None;
        if leg.lost_context {
            let session = &self.snapshot.session;
            let rules = briefs.prompt_with_rules(session, earlier_turns, added.as_deref(), prompt);
            with_rules = rules.await?;
            // If there is nothing to remind the agent of, the reminder counts as sent.
            attempt.context_change = ContextChange::Reminded;
        }
        Ok(with_rules.or(added).unwrap_or_else(|| prompt.clone()))
    }

    /// Records that the agent compacted its own context, once per attempt, because some agents report it twice.
    pub(super) async fn record_context_loss(
        &mut self,
        attempt: &mut AttemptState,
    ) -> Result<(), TurnError> {
        self.recorder.invalidate_token_count();
        let previous = std::mem::replace(&mut attempt.context_change, ContextChange::Compacted);
        if previous == ContextChange::Compacted {
            return Ok(());
        }
        if let Some(attempt_leg) = &attempt.leg {
            self.set_context_loss(attempt_leg.leg.id, ContextLossState::Lost)
                .await?;
        }
        let decision = Decision::AgentCompacted { provider: None };
        Ok(self.record_decision(decision).await?)
    }

    async fn set_context_loss(&self, leg: LegId, state: ContextLossState) -> Result<(), TurnError> {
        let setting = self.store().set_context_loss(self.lease(), leg, state);
        Ok(setting.await?)
    }

    /// Updates the record of the agent's context at the end of a turn.
    ///
    /// If the agent reported no compaction but its context shrank, its native session shows whether it compacted. The
    /// loss is cleared if a reminder was sent and the turn finished.
    pub(super) async fn settle_context_change(
        &mut self,
        ended: &mut EndedAttempt,
    ) -> Result<(), TurnError> {
        let attempt = &mut ended.state;
        let Some(attempt_leg) = &attempt.leg else {
            return Ok(());
        };
        let leg_id = attempt_leg.leg.id;
        if attempt.context_change != ContextChange::Compacted
            && has_context_shrunk(&attempt_leg.leg, self.report.usage.context_tokens)
            && let (Some(id), Some(mark)) = (&attempt_leg.native_id, &attempt_leg.leg.mark)
        {
            let natives = &self.runner.context.natives;
            let provider = &attempt.agent.provider;
            if natives.has_compacted_since(provider, id, mark).await {
                self.record_context_loss(attempt).await?;
            }
        }
        if attempt.context_change == ContextChange::Reminded
            && ended.outcome.state == TurnState::Finished
        {
            self.set_context_loss(leg_id, ContextLossState::Reminded)
                .await?;
        }
        Ok(())
    }
}
