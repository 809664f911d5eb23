//! Compaction: turns become a checkpoint, and the leg whose native session contains them in full ends.

use segue_core::brief::BriefTurn;
use segue_core::checkpoint::{
    Checkpoint, CheckpointReason, CheckpointVersion, ItemAuthor, assign_item_ids, extract, merge,
    render_checkpoint,
};
use segue_core::id::{LegId, ProviderId, SessionId, TurnId};
use segue_core::number_format::{format_count, format_plural};
use segue_core::policy::{is_compaction_due, is_compaction_worthwhile};
use segue_core::session::{Decision, DecisionKind, Leg, LegEnd, Session, Turn, can_resume_leg};
use segue_store::NewCheckpoint;

use crate::brief::compose::{ActiveCheckpoint, estimate_brief_tokens};
use crate::leg::open_leg::OpenLegRequest;
use crate::reconcile::ReconcileMode;
use crate::session::lease::LeaseGuard;
use crate::{Engine, EngineError};

/// Percent of the budget that a checkpoint may use, after role and context are subtracted. The remainder is for the
/// newest messages and for further turns.
const CHECKPOINT_BUDGET_PERCENT: u64 = 40;

/// Percent of the complete budget that a checkpoint may use in any case, even if role and context leave less. A
/// checkpoint that does not fit is stored nevertheless, and the brief contains as much of it as fits.
const MIN_CHECKPOINT_BUDGET_PERCENT: u64 = 10;

/// A compaction of a session, planned or done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionPlan {
    /// Checkpoint that results.
    pub checkpoint: Checkpoint,
    /// Number of the last turn that the checkpoint covers.
    pub covers: u32,
    /// Number of turns that the checkpoint covers and that no earlier version covers.
    pub turns: u32,
    /// Tokens in the checkpoint.
    pub tokens: u64,
    /// Tokens that the checkpoint replaces.
    pub replaced: u64,
    /// Maximum number of tokens in a checkpoint.
    pub max_tokens: u64,
}

impl CompactionPlan {
    /// Describes the turns that the checkpoint replaces, with their number of tokens.
    #[must_use]
    pub fn format_replaced_turns(&self) -> String {
        let (turns, tokens) = (self.turns, format_count(self.replaced));
        let counted_turns = format_plural(turns, "turn");
        if self.covers > turns {
            format!("{counted_turns} and the previous checkpoint ({tokens} tokens)")
        } else {
            format!("{counted_turns} ({tokens} tokens)")
        }
    }
}

/// Result of a compaction that the user requested.
#[derive(Debug, Clone)]
pub struct CompactionOutcome {
    /// Version that was created; `None` if no turn follows the last version.
    pub created: Option<(CheckpointVersion, CompactionPlan)>,
    /// Automatic decisions that segue made during the call.
    pub decisions: Vec<Decision>,
}

impl Engine {
    /// Plans a compaction of a session up to `head`, without storing it. `None` if no turn follows the last checkpoint.
    pub async fn plan_compaction(
        &self,
        session: &Session,
        head: TurnId,
    ) -> Result<Option<CompactionPlan>, EngineError> {
        let provider = &session.provider;
        self.plan_compaction_for(session, head, provider).await
    }

    /// Plans a compaction with a checkpoint that fits the budget of `provider`. `None` if no turn follows the last
    /// checkpoint.
    pub(crate) async fn plan_compaction_for(
        &self,
        session: &Session,
        head: TurnId,
        provider: &ProviderId,
    ) -> Result<Option<CompactionPlan>, EngineError> {
        let max_tokens = self.checkpoint_budget(session, provider).await?;
        let (previous, previous_version) = match self.store.checkpoint_at(&session.id, head).await?
        {
            Some((version, checkpoint)) => (checkpoint, Some(version)),
            None => (Checkpoint::default(), None),
        };
        let covers = previous_version
            .as_ref()
            .map_or(0, |version| version.covers);
        let new_turns = self.load_turns_after(head, covers).await?;
        let Some(last) = new_turns.last() else {
            return Ok(None);
        };
        let new_tokens: u64 = new_turns.iter().map(sum_turn_tokens).sum();
        let count = &segue_tokens::count;
        let extracted = extract(&new_turns, &session.project.cwd, count);
        let checkpoint = merge(&previous, extracted, max_tokens, count);
        let last_item = self.last_item_id(&session.id).await?;
        let checkpoint = assign_item_ids(&previous, checkpoint, last_item);
        Ok(Some(CompactionPlan {
            covers: last.n,
            turns: u32::try_from(new_turns.len()).unwrap_or(u32::MAX),
            tokens: count(&render_checkpoint(&checkpoint)),
            replaced: previous_version.map_or(0, |version| version.tokens) + new_tokens,
            checkpoint,
            max_tokens,
        }))
    }

    /// Returns the highest number that an item of a session's checkpoints ever had; 0 if they never had an item.
    pub(crate) async fn last_item_id(&self, session: &SessionId) -> Result<u32, EngineError> {
        let versions = self.store.checkpoints(session).await?;
        let numbers = versions.iter().map(|version| version.last_item_id);
        Ok(numbers.max().unwrap_or(0))
    }

    /// Compacts a session that is not in use. Its next prompt starts a native session with the checkpoint in the brief.
    pub async fn compact(&self, session: &Session) -> Result<CompactionOutcome, EngineError> {
        // Turns made in the agent's own program are applied first, because segue does not read this native session
        // later.
        let mode = ReconcileMode::Prompt { strict: false };
        let (guard, decisions) = self.acquire_lease_and_reconcile(&session.id, mode).await?;
        let created = self.compact_idle_session(&guard, &session.id).await;
        if created.as_ref().is_ok_and(Option::is_some) {
            // An agent that stays running still has the compacted turns in full, so it is ended.
            self.agent_pool.end_agent(&session.id).await;
        }
        guard.release().await;
        Ok(CompactionOutcome {
            created: created?,
            decisions,
        })
    }

    async fn compact_idle_session(
        &self,
        guard: &LeaseGuard,
        id: &SessionId,
    ) -> Result<Option<(CheckpointVersion, CompactionPlan)>, EngineError> {
        let session = self.require_session(id).await?;
        let Some(head) = session.head else {
            return Ok(None);
        };
        let legs = self.store.legs(id).await?;
        let open_leg = legs.last().filter(|leg| leg.ended.is_none());
        let reason_and_leg = (CheckpointReason::Requested, open_leg.map(|leg| leg.id));
        let provider = &session.provider;
        self.compact_under_lease(guard, &session, (head, provider), reason_and_leg)
            .await
    }

    /// Compacts a session under its lease, up to a turn and for the budget of a provider. Ends the given leg, if any.
    pub(crate) async fn compact_under_lease(
        &self,
        guard: &LeaseGuard,
        session: &Session,
        (head, provider): (TurnId, &ProviderId),
        (reason, leg): (CheckpointReason, Option<LegId>),
    ) -> Result<Option<(CheckpointVersion, CompactionPlan)>, EngineError> {
        let compaction = self.plan_compaction_for(session, head, provider).await?;
        let Some(compaction) = compaction else {
            return Ok(None);
        };
        let at = (self.environment.now)();
        let new = NewCheckpoint {
            turn: head,
            covers: compaction.covers,
            checkpoint: compaction.checkpoint.clone(),
            tokens: compaction.tokens,
            replaced: compaction.replaced,
            author: ItemAuthor::Extraction,
            reason,
            last_read_turn: 0,
            at,
        };
        let leg_end = leg.map(|leg| (leg, LegEnd::Compacted));
        let version = self
            .store
            .add_checkpoint(&guard.lease, new, leg_end)
            .await?;
        let decision = Decision::new(
            DecisionKind::Compacted,
            format_compaction_decision(&version, &compaction),
        );
        self.store.log_decision(&guard.lease, &decision, at).await?;
        Ok(Some((version, compaction)))
    }

    /// Compacts a session before a prompt, if the leg that could run the prompt has no room for it. This ends the leg.
    /// Returns the reason; `None` if no compaction is needed.
    ///
    /// In most cases, compaction happened when the last turn ended. It did not if that turn was interrupted or made
    /// outside segue, and it does not consider a prompt that is long itself.
    pub(crate) async fn compact_before_prompt(
        &self,
        leg_request: &OpenLegRequest<'_>,
        session: &Session,
        guard: &LeaseGuard,
        (leg, earlier_turns): (Option<&Leg>, &[Turn]),
    ) -> Result<Option<String>, EngineError> {
        let is_retry = leg_request.new_leg_reason.is_some() || leg_request.refused_text.is_some();
        let applies = self.policy.compaction.should_compact(session) && !leg_request.chat.strict;
        let is_resumable = |leg: &&Leg| {
            leg.provider == *leg_request.provider && can_resume_leg(leg, earlier_turns)
        };
        let leg = leg.filter(|_| applies && !is_retry).filter(is_resumable);
        let Some((leg, head)) = leg.zip(earlier_turns.last()) else {
            return Ok(None);
        };
        let size = match leg.estimated_tokens {
            Some(size) => size,
            None => self.estimate_native_tokens(session, head.id).await?,
        };
        let budget = self.provider_budget(leg_request.provider).await?;
        let prompt = leg_request.resume_prompt;
        let fits = |prompt: u64| size.saturating_add(prompt) <= budget;
        // No text has more tokens than bytes, so most prompts need no exact count.
        let bytes = u64::try_from(prompt.len()).unwrap_or(u64::MAX);
        let fits = fits(bytes) || fits(segue_tokens::count(prompt));
        if fits
            && !self
                .should_compact(session, head.id, (size, budget))
                .await?
        {
            return Ok(None);
        }
        let reason_and_leg = (CheckpointReason::Budget, Some(leg.id));
        let up_to = (head.id, leg_request.provider);
        let compacted = self
            .compact_under_lease(guard, session, up_to, reason_and_leg)
            .await?;
        if let Some((version, compaction)) = compacted {
            return Ok(Some(format_compaction(&version, &compaction)));
        }
        // The turns were compacted for another agent before, but this leg still has them in full.
        let at = (self.environment.now)();
        let end = LegEnd::Compacted;
        self.store.end_leg(&guard.lease, leg.id, end, at).await?;
        Ok(Some("earlier turns were compacted".to_owned()))
    }

    /// Compacts the turns that do not fit in the brief of a new native session; `None` if no turn follows the last
    /// checkpoint.
    pub(crate) async fn compact_to_fit(
        &self,
        guard: &LeaseGuard,
        session: &Session,
        up_to: (TurnId, &ProviderId),
    ) -> Result<Option<ActiveCheckpoint>, EngineError> {
        let compacted = self.compact_under_lease(
            guard,
            session,
            up_to,
            (CheckpointReason::BriefTooLarge, None),
        );
        let compacted = compacted.await?;
        Ok(compacted.map(|(_, compaction)| ActiveCheckpoint::from(compaction)))
    }

    /// Estimates the minimum number of tokens in a native session from the record: its preamble, its checkpoint and all
    /// later turns. Used if no count is stored, for example because a turn ended before the vocabulary was loaded.
    pub(crate) async fn estimate_native_tokens(
        &self,
        session: &Session,
        head: TurnId,
    ) -> Result<u64, EngineError> {
        let active = self.store.checkpoint_at(&session.id, head).await?;
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
        Ok(preamble_tokens + brief_tokens + later_turns.iter().map(sum_turn_tokens).sum::<u64>())
    }

    /// Returns `true` if the turns up to `head` are due for compaction, given the tokens in the native session and the
    /// budget.
    pub(crate) async fn should_compact(
        &self,
        session: &Session,
        head: TurnId,
        (size, budget): (u64, u64),
    ) -> Result<bool, EngineError> {
        if !is_compaction_due(size, budget) {
            return Ok(false);
        }
        let active = self.store.checkpoint_at(&session.id, head).await?;
        let checkpoint_tokens = active.map_or(0, |(version, _)| version.tokens);
        let min_tokens = self
            .preamble_tokens(session)
            .await?
            .saturating_add(checkpoint_tokens);
        Ok(is_compaction_worthwhile(size, min_tokens, budget))
    }

    /// Returns the maximum number of tokens in a checkpoint for an agent.
    pub(crate) async fn checkpoint_budget(
        &self,
        session: &Session,
        provider: &ProviderId,
    ) -> Result<u64, EngineError> {
        let budget = self.provider_budget(provider).await?;
        let remaining = budget.saturating_sub(self.preamble_tokens(session).await?);
        Ok(checkpoint_budget_within(remaining)
            .max(percent_of(budget, MIN_CHECKPOINT_BUDGET_PERCENT)))
    }

    /// Loads the turns after number `n`, up to `head`.
    async fn load_turns_after(&self, head: TurnId, n: u32) -> Result<Vec<BriefTurn>, EngineError> {
        let stored_turns = self.store.turns_after(head, n).await?;
        Ok(self.load_brief_turns(stored_turns).await)
    }
}

impl From<CompactionPlan> for ActiveCheckpoint {
    fn from(compaction: CompactionPlan) -> Self {
        Self {
            tokens: compaction.tokens,
            covers: compaction.covers,
            checkpoint: compaction.checkpoint,
            dropped_items: 0,
        }
    }
}

/// Returns the maximum number of tokens in a checkpoint, given the tokens that role and context leave.
pub(crate) fn checkpoint_budget_within(remaining: u64) -> u64 {
    percent_of(remaining, CHECKPOINT_BUDGET_PERCENT)
}

fn percent_of(amount: u64, percent: u64) -> u64 {
    amount.saturating_mul(percent) / 100
}

fn sum_turn_tokens(turn: &BriefTurn) -> u64 {
    let tokens = turn
        .messages
        .iter()
        .map(|message| message.tokens.unwrap_or(0));
    tokens.sum()
}

/// Describes a compaction in one line for the user.
pub(crate) fn format_compaction_decision(
    version: &CheckpointVersion,
    compaction: &CompactionPlan,
) -> String {
    let summary = format_compaction(version, compaction);
    format!("{summary}; the next prompt starts a new native session")
}

fn format_compaction(version: &CheckpointVersion, compaction: &CompactionPlan) -> String {
    format!(
        "compacted {} into checkpoint {} ({} tokens)",
        compaction.format_replaced_turns(),
        version.n,
        format_count(compaction.tokens)
    )
}
