//! Reminder after an agent compacts its own context: the next prompt repeats, once, what the agent may have lost.

use segue_core::brief::prompt_with_reminder;
use segue_core::checkpoint::{Checkpoint, plan_compaction};
use segue_core::session::{Leg, Session, Turn};

use super::BriefPlanner;
use crate::PlanError;
use crate::context::run_blocking;

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
        let provider = &session.provider;
        let input = self
            .load_compaction_input(session, head.id, provider)
            .await?;
        let current_checkpoint =
            run_blocking(
                move || match plan_compaction(&input, &segue_tokens::count) {
                    Some(compaction) => compaction.checkpoint,
                    None => input
                        .previous
                        .map_or_else(Checkpoint::default, |(_, checkpoint)| checkpoint),
                },
            )
            .await;
        Ok(prompt_with_reminder(&current_checkpoint, added, prompt))
    }
}

/// Returns `true` if the agent's context became smaller, as it does after a compaction.
pub(crate) fn has_context_shrunk(leg: &Leg, context_tokens: Option<u64>) -> bool {
    leg.context_tokens
        .zip(context_tokens)
        .is_some_and(|(before, now)| now < before)
}
