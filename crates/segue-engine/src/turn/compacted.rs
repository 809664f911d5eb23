//! Automatic compaction at the end of a turn whose native session is close to the budget.

use segue_core::checkpoint::Occasion;
use segue_core::session::{Decision, DecisionKind};

use super::Run;
use crate::EngineError;
use crate::compact::told;

impl Run<'_> {
    /// Determines whether compaction is due. `None` if this depends on the record, which has to be closed first.
    pub(super) async fn known_to_be_due(&self) -> Result<Option<bool>, EngineError> {
        let applies = self.engine.policy.compaction.applies_to(&self.session);
        let Some(leg) = self.opened_leg.as_ref().filter(|_| applies) else {
            return Ok(Some(false));
        };
        let held = leg.held_tokens.zip(self.added_tokens());
        let Some((before, added)) = held else {
            return Ok(None);
        };
        let budget = self.engine.budget_of(&self.report.provider).await?;
        let held = (before.saturating_add(added), budget);
        let due = self.engine.is_due_in(&self.session, self.turn, held);
        Ok(Some(due.await?))
    }

    /// Compacts the session if that is due. The turn has ended by now, so a failure does not affect it.
    pub(super) async fn compact_if_due(&mut self, due: Option<bool>) -> Result<(), EngineError> {
        if due == Some(false) {
            return Ok(());
        }
        let decision = match self.compact(due).await {
            Ok(None) => return Ok(()),
            Ok(Some(decision)) => decision,
            Err(error) => {
                let text = format!(
                    "what was said could not be summed up: {error}; it is tried again after the next turn"
                );
                Decision::new(DecisionKind::Compacted, text)
            }
        };
        self.tell(decision).await?;
        Ok(())
    }

    async fn compact(&mut self, due: Option<bool>) -> Result<Option<Decision>, EngineError> {
        let (engine, provider) = (self.engine, &self.report.provider);
        if due.is_none() {
            let budget = engine.budget_of(provider).await?;
            let held = engine.held_by_record(&self.session, self.turn).await?;
            let due = engine.is_due_in(&self.session, self.turn, (held, budget));
            if !due.await? {
                return Ok(None);
            }
        }
        let occasion = (Occasion::Budget, self.leg);
        let up_to = (self.turn, provider);
        let compacted = engine.compact_held(self.hold, &self.session, up_to, occasion);
        let Some((version, compaction)) = compacted.await? else {
            return Ok(None);
        };
        for line in engine.warm.end(&self.session.id).await {
            self.protected(&line).await?;
        }
        let text = told(&version, &compaction);
        Ok(Some(Decision::new(DecisionKind::Compacted, text)))
    }
}
