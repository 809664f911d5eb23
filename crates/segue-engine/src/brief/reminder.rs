//! Reminder after an agent compacts its own context: the next prompt repeats, once, what the agent may have lost.

use segue_core::brief::prompt_with_reminder;
use segue_core::checkpoint::Checkpoint;
use segue_core::session::{Leg, Session, Turn};

use super::BriefPlanner;
use crate::PlanError;

impl BriefPlanner {
    /// Returns the prompt for an agent that compacted its own context, after the goal, the user's rules and the items
    /// that the user pinned or wrote. `added` is the text to send if it is more than the prompt. `None` if there is
    /// nothing to repeat.
    pub(crate) async fn prompt_with_rules(
        &self,
        session: &Session,
        earlier_turns: &[Turn],
        added: Option<&str>,
        prompt: &str,
    ) -> Result<Option<String>, PlanError> {
        let Some(head) = earlier_turns.last() else {
            return Ok(None);
        };
        let current_checkpoint = match self
            .plan_compaction(session, head.id, &session.provider)
            .await?
        {
            Some(compaction) => compaction.checkpoint,
            None => match self
                .context
                .store
                .checkpoint_at(&session.id, head.id)
                .await?
            {
                Some((_, checkpoint)) => checkpoint,
                None => Checkpoint::default(),
            },
        };
        Ok(prompt_with_reminder(&current_checkpoint, added, prompt))
    }
}

/// Returns `true` if the agent's context became smaller, as it does after a compaction.
pub(crate) fn has_context_shrunk(leg: &Leg, context_tokens: Option<u64>) -> bool {
    leg.context_tokens
        .zip(context_tokens)
        .is_some_and(|(before, now)| now < before)
}
