//! The end of a turn that brought its native session near the budget: what was said is summed up.

use segue_core::{Decision, DecisionKind, Occasion, is_due};

use super::Run;
use crate::EngineError;
use crate::compact::told;

impl Run<'_> {
    /// Whether what was said is to be summed up; none if only the record can tell, once it is closed.
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
        Ok(Some(is_due(before.saturating_add(added), budget)))
    }

    /// Sums up what was said, if that is due. The turn is over by now, whatever becomes of this.
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
            let size = engine.held_by_record(&self.session, self.turn).await?;
            if !is_due(size, budget) {
                return Ok(None);
            }
        }
        let occasion = (Occasion::Budget, self.leg);
        let compacted = engine.compact_held(self.hold, &self.session, self.turn, occasion);
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
