//! What the agent knows: that it made its own context smaller is on record at once, and settled when it was reminded.

use segue_core::{Decision, DecisionKind, Turn, TurnState};
use segue_store::Memory;

use super::Run;
use crate::EngineError;
use crate::forgot::shrank;
use crate::open::OpenLeg;

/// What became in a turn of what the agent knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knows {
    /// Nothing that would be worth a note.
    AsBefore,
    /// The prompt told it again what must not be forgotten.
    Again,
    /// It made its own context smaller.
    Less,
}

impl Run<'_> {
    /// Has the prompt of a native session that goes on tell what it was not told, or may have forgotten. `added` is the
    /// prompt after what was added to the record, if something was.
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
            // Where there is nothing to be told, that was told.
            self.knows = Knows::Again;
        }
        if let Some(prompt) = told.or(added) {
            leg.prompt = prompt;
        }
        Ok(())
    }

    /// The agent made its own context smaller. Some of them say so twice.
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

    /// Settles what the agent knows by the end of a turn: one that says nothing of it may have made its context smaller,
    /// which its own record tells; one that was reminded knows again.
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
