//! Plans of compactions, and the conditions under which a session is compacted.

use segue_core::brief::{BriefTurn, estimate_brief_tokens};
use segue_core::checkpoint::{
    CompactionInput, CompactionPlan, checkpoint_budget, plan_compaction, sum_turn_tokens,
};
use segue_core::id::{ProviderId, SessionId, TurnId};
use segue_core::policy::{is_compaction_due, is_compaction_worthwhile};
use segue_core::session::Session;
use segue_store::StoreError;

use super::BriefPlanner;
use crate::PlanError;
use crate::context::run_blocking;

impl BriefPlanner {
    /// Plans a compaction of a session up to `head`, with a checkpoint that fits the budget of `provider`. `None` if no
    /// turn follows the active checkpoint.
    pub async fn plan_compaction(
        &self,
        session: &Session,
        head: TurnId,
        provider: &ProviderId,
    ) -> Result<Option<CompactionPlan>, PlanError> {
        let input = self.load_compaction_input(session, head, provider).await?;
        Ok(run_blocking(move || plan_compaction(&input, &segue_tokens::count)).await)
    }

    /// Loads the active checkpoint and the turns after it.
    pub(super) async fn load_compaction_input(
        &self,
        session: &Session,
        head: TurnId,
        provider: &ProviderId,
    ) -> Result<CompactionInput, PlanError> {
        let previous = self.context.store.checkpoint_at(&session.id, head).await?;
        let covers = previous.as_ref().map_or(0, |(version, _)| version.covers);
        Ok(CompactionInput {
            new_turns: self.load_turns_after(head, covers).await?,
            previous,
            cwd: session.project.cwd.clone(),
            max_tokens: self.checkpoint_budget(session, provider).await?,
            last_item_id: self.last_item_id(&session.id).await?,
        })
    }

    /// Returns the highest number that an item of a session's checkpoints ever had; 0 if they never had an item.
    pub(crate) async fn last_item_id(&self, session: &SessionId) -> Result<u32, StoreError> {
        let versions = self.context.store.checkpoints(session).await?;
        let numbers = versions.iter().map(|version| version.last_item_id);
        Ok(numbers.max().unwrap_or(0))
    }

    /// Estimates the minimum number of tokens in a native session from the record: its preamble, its checkpoint and all
    /// later turns. Used if no count is stored, for example because a turn ended before the vocabulary was loaded.
    pub(crate) async fn estimate_native_tokens(
        &self,
        session: &Session,
        head: TurnId,
    ) -> Result<u64, PlanError> {
        let active = self.context.store.checkpoint_at(&session.id, head).await?;
        let preamble_tokens = self.preamble_tokens(session).await?;
        let (brief_tokens, covers) = match active {
            Some((version, _)) => {
                let budget = self.provider_budget(&session.provider).await?;
                let tokens =
                    estimate_brief_tokens(&version, budget.saturating_sub(preamble_tokens));
                (tokens, version.covers)
            }
            None => (0, 0),
        };
        let later_turns = self.load_turns_after(head, covers).await?;
        Ok(preamble_tokens + brief_tokens + sum_turn_tokens(&later_turns))
    }

    /// Returns `true` if the turns up to `head` are due for compaction, given the tokens in the native session and the
    /// budget.
    pub(crate) async fn should_compact(
        &self,
        session: &Session,
        head: TurnId,
        (size, budget): (u64, u64),
    ) -> Result<bool, PlanError> {
        if !is_compaction_due(size, budget) {
            return Ok(false);
        }
        let active = self.context.store.checkpoint_at(&session.id, head).await?;
        let checkpoint_tokens = active.map_or(0, |(version, _)| version.tokens);
        let min_tokens = checkpoint_tokens.saturating_add(self.preamble_tokens(session).await?);
        Ok(is_compaction_worthwhile(size, min_tokens, budget))
    }

    /// Returns the maximum number of tokens in a checkpoint for an agent.
    pub(crate) async fn checkpoint_budget(
        &self,
        session: &Session,
        provider: &ProviderId,
    ) -> Result<u64, PlanError> {
        let budget = self.provider_budget(provider).await?;
        let preamble_tokens = self.preamble_tokens(session).await?;
        Ok(checkpoint_budget(budget, preamble_tokens))
    }

    /// Loads the turns after number `n`, up to `head`.
    async fn load_turns_after(&self, head: TurnId, n: u32) -> Result<Vec<BriefTurn>, StoreError> {
        let stored_turns = self.context.store.turns_after(head, n).await?;
        Ok(self.load_brief_turns(stored_turns).await)
    }
}
