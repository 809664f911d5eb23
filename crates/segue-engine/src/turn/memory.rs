//! What the agent knows: that it made its own context smaller is on record at once, and settled when it was reminded.

use segue_core::{Decision, DecisionKind, TurnState};
use segue_store::Memory;

use super::Run;
use crate::EngineError;
use crate::forgot::shrank;

impl Run<'_> {
    /// The agent made its own context smaller. Some of them say so twice.
    pub(super) async fn forgets(&mut self) -> Result<(), EngineError> {
        self.recorder.lose_count();
        if std::mem::replace(&mut self.forgot, true) {
            return Ok(());
        }
        if let Some(leg) = self.leg {
            let (store, lease) = (&self.engine.store, &self.hold.lease);
            store.note_memory(lease, leg, Memory::Smaller).await?;
        }
        let text = "the agent made its own context smaller; the next prompt tells it again what must not be forgotten";
        Ok(self
            .decide(Decision::new(DecisionKind::Compacted, text))
            .await?)
    }

    /// Settles what the agent knows by the end of a turn: one that says nothing of it may have made its context smaller,
    /// which its own record tells; one that was reminded knows again.
    pub(super) async fn settle_memory(&mut self, state: TurnState) -> Result<(), EngineError> {
        let Some(leg) = self.opened_leg.clone() else {
            return Ok(());
        };
        if !self.forgot
            && shrank(&leg, self.report.usage.context_tokens)
            && let (Some(id), Some(mark)) = (self.report.native_id.clone(), &leg.mark)
            && self
                .engine
                .compacted_since(&self.report.provider, &id, mark)
                .await
        {
            self.forgets().await?;
        }
        if self.reminds && !self.forgot && state == TurnState::Finished {
            let (store, lease) = (&self.engine.store, &self.hold.lease);
            store.note_memory(lease, leg.id, Memory::Reminded).await?;
        }
        Ok(())
    }
}
