//! Compaction of the context by the agent itself: recorded when it happens, and cleared after a reminder was sent.

use segue_core::session::{Decision, DecisionKind, Turn, TurnState};
use segue_store::Memory;

use super::Run;
use crate::EngineError;
use crate::forgot::shrank;
use crate::open::OpenLeg;

/// Change of the agent's context in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knows {
    /// No relevant change.
    AsBefore,
    /// The prompt reminded the agent of the user's rules and pinned items.
    Again,
    /// The agent compacted its own context.
    Less,
}

impl Run<'_> {
    /// Adds to the prompt of a resumed native session what the agent has not received or may have lost.
    ///
    /// `added` is the prompt with the messages that were added to the record. `None` if there are none.
    pub(super) async fn remind(
        &mut self,
        leg: &mut OpenLeg,
        before: &[Turn],
        added: Option<String>,
    ) -> Result<(), EngineError> {
        self.knows = Knows::AsBefore;
        let prompt = &self.request.prompt;
        let mut told = None;
        if leg.leg.forgot {
            let (engine, session) = (self.engine, &self.session);
            let rules = engine.reminded_of_rules(session, before, added.as_deref(), prompt);
            told = rules.await?;
            // If there is nothing to remind the agent of, the reminder counts as sent.
            self.knows = Knows::Again;
        }
        if let Some(prompt) = told.or(added) {
            leg.prompt = prompt;
        }
        Ok(())
    }

    /// Records that the agent compacted its own context, once per turn, because some agents report it twice.
    pub(super) async fn forgets(&mut self) -> Result<(), EngineError> {
        self.recorder.lose_count();
        if std::mem::replace(&mut self.knows, Knows::Less) == Knows::Less {
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

    /// Updates the record of the agent's context at the end of a turn.
    ///
    /// If the agent reported no compaction but its context shrank, its native session shows whether it compacted. The
    /// loss is cleared if a reminder was sent and the turn finished.
    pub(super) async fn settle_memory(&mut self, state: TurnState) -> Result<(), EngineError> {
        let Some(leg) = self.opened_leg.clone() else {
            return Ok(());
        };
        if self.knows != Knows::Less
            && shrank(&leg, self.report.usage.context_tokens)
            && let (Some(id), Some(mark)) = (self.report.native_id.clone(), &leg.mark)
            && self
                .engine
                .compacted_since(&self.report.provider, &id, mark)
                .await
        {
            self.forgets().await?;
        }
        if self.knows == Knows::Again && state == TurnState::Finished {
            let (store, lease) = (&self.engine.store, &self.hold.lease);
            store.note_memory(lease, leg.id, Memory::Reminded).await?;
        }
        Ok(())
    }
}
