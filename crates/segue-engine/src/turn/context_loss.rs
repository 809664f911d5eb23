//! Compaction of the context by the agent itself: recorded when it happens, and cleared after a reminder was sent.

use segue_core::session::{Decision, DecisionKind, Turn, TurnState};
use segue_store::ContextLossState;

use super::TurnRun;
use crate::TurnError;
use crate::brief::reminder::has_context_shrunk;
use crate::leg::open_leg::OpenLeg;

/// Change of the agent's context in a turn.
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
    /// Adds to the prompt of a resumed native session what the agent has not received or may have lost.
    ///
    /// `added` is the prompt with the messages that were added to the record. `None` if there are none.
    pub(super) async fn add_reminder(
        &mut self,
        open_leg: &mut OpenLeg,
        earlier_turns: &[Turn],
        added: Option<String>,
    ) -> Result<(), TurnError> {
        self.context_change = ContextChange::Unchanged;
        let prompt = &self.request.prompt;
        let mut reminder_prompt = None;
        if open_leg.leg.lost_context {
            let (engine, session) = (self.runner, &self.session);
            let rules = engine.compactor.briefs.prompt_with_rules(session, earlier_turns, added.as_deref(), prompt);
            reminder_prompt = rules.await?;
            // If there is nothing to remind the agent of, the reminder counts as sent.
            self.context_change = ContextChange::Reminded;
        }
        if let Some(prompt) = reminder_prompt.or(added) {
            open_leg.prompt = prompt;
        }
        Ok(())
    }

    /// Records that the agent compacted its own context, once per turn, because some agents report it twice.
    pub(super) async fn record_context_loss(&mut self) -> Result<(), TurnError> {
        self.recorder.invalidate_token_count();
        if std::mem::replace(&mut self.context_change, ContextChange::Compacted)
            == ContextChange::Compacted
        {
            return Ok(());
        }
        if let Some(leg) = self.leg {
            let (store, lease) = (&self.runner.context.store, &self.guard.lease);
            store
                .set_context_loss(lease, leg, ContextLossState::Lost)
                .await?;
        }
        let text = "the agent compacted its own context; \
                    the next prompt repeats the goal, the rules and the pinned items";
        Ok(self
            .record_decision(Decision::new(DecisionKind::Compacted, text))
            .await?)
    }

    /// Updates the record of the agent's context at the end of a turn.
    ///
    /// If the agent reported no compaction but its context shrank, its native session shows whether it compacted. The
    /// loss is cleared if a reminder was sent and the turn finished.
    pub(super) async fn settle_context_change(
        &mut self,
        state: TurnState,
    ) -> Result<(), TurnError> {
        let Some(leg) = self.leg_before_turn.clone() else {
            return Ok(());
        };
        if self.context_change != ContextChange::Compacted
            && has_context_shrunk(&leg, self.report.usage.context_tokens)
            && let (Some(id), Some(mark)) = (self.report.native_id.clone(), &leg.mark)
            && self.runner.context.natives
                .has_compacted_since(&self.report.provider, &id, mark)
                .await
        {
            self.record_context_loss().await?;
        }
        if self.context_change == ContextChange::Reminded && state == TurnState::Finished {
            let (store, lease) = (&self.runner.context.store, &self.guard.lease);
            store
                .set_context_loss(lease, leg.id, ContextLossState::Reminded)
                .await?;
        }
        Ok(())
    }
}
