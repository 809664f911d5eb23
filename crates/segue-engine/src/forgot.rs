//! The agents' own compaction: what an agent may have forgotten by it is told again with the next prompt, once.

use segue_core::{Checkpoint, Leg, Session, Turn, with_reminder};

use crate::{Engine, EngineError};

impl Engine {
    /// What is sent to an agent that made its own context smaller: the rules of the user and what they pinned come first.
    /// `added` is what would be sent else, if that is more than the prompt. None if there is nothing to be told.
    pub(crate) async fn reminded_of_rules(
        &self,
        session: &Session,
        before: &[Turn],
        added: Option<&str>,
        prompt: &str,
    ) -> Result<Option<String>, EngineError> {
        let Some(head) = before.last() else {
            return Ok(None);
        };
        let known = match self.compaction(session, head.id).await? {
            Some(compaction) => compaction.checkpoint,
            None => match self.store.checkpoint_at(&session.id, head.id).await? {
                Some((_, checkpoint)) => checkpoint,
                None => Checkpoint::default(),
            },
        };
        Ok(with_reminder(&known, added, prompt))
    }
}

/// Whether what an agent holds became less, as it does when its context is made smaller.
pub(crate) fn shrank(leg: &Leg, context_tokens: Option<u64>) -> bool {
    leg.context_tokens
        .zip(context_tokens)
        .is_some_and(|(before, now)| now < before)
}
