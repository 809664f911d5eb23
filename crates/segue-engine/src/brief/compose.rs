//! Composition of the brief for a new native session, and its preview.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use segue_core::brief::{
    Brief, BriefInput, BriefTurn, Calibration, CalibrationSample, budget_for_window, calibrate,
    compose_brief, min_brief_tokens,
};
use segue_core::checkpoint::{Checkpoint, CheckpointVersion, merge, render_checkpoint};
use segue_core::id::{ProviderId, SessionId, TurnId};
use segue_core::number_format::format_plural;
use segue_core::scope::Purpose;
use segue_core::session::{Decision, DecisionKind, Message, Role, Session, Turn, TurnState};
use segue_store::{StoredTurn, TokenCount};

use crate::resolve::adopt::split_brief_from_prompt;
use crate::session::lease::LeaseGuard;
use crate::turn::message_chunks::merge_chunks;
use crate::{Conversation, Engine, EngineError, NativeEntry, token_count};

/// Number of an agent's newest turns that serve as samples for its calibration.
const CALIBRATION_SAMPLE_TURNS: u32 = 60;

/// Percent of the budget without role and context that a brief with a checkpoint uses, unless it needs more.
const BRIEF_BUDGET_PERCENT: u64 = 65;

/// Maximum percent of the complete budget, with role and context, that a brief with a checkpoint uses, unless it needs
/// more.
const MAX_BRIEF_BUDGET_PERCENT: u64 = 75;

/// The brief that a new native session would receive now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BriefPreview {
    /// Agent that would receive the brief.
    pub provider: ProviderId,
    /// The brief.
    pub brief: Brief,
    /// Maximum number of tokens of the brief and the prompt together.
    pub budget: u64,
    /// Size of the request by the agent's own count. `None` if there is no calibration yet.
    pub reported_tokens: Option<u64>,
}

/// Budget and calibration of an agent.
struct BriefLimits {
    budget: u64,
    calibration: Option<Calibration>,
}

/// Input for the brief of a new native session.
pub(crate) struct BriefRequest<'a> {
    pub(crate) session: &'a Session,
    pub(crate) provider: &'a ProviderId,
    pub(crate) prompt: &'a str,
    /// Turns before the prompt.
    pub(crate) earlier_turns: &'a [Turn],
    /// Whether the agent can use segue's own tools to look up messages.
    pub(crate) has_tools: bool,
    /// Lease on the session.
    pub(crate) guard: &'a LeaseGuard,
}

/// A checkpoint for a brief.
pub(crate) struct ActiveCheckpoint {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) tokens: u64,
    pub(crate) covers: u32,
    /// Number of items that were dropped because they do not fit.
    pub(crate) dropped_items: usize,
}

impl ActiveCheckpoint {
    /// Renders the checkpoint, with a note about dropped items.
    fn render(&self) -> String {
        let text = render_checkpoint(&self.checkpoint);
        match self.dropped_items {
            0 => text,
            dropped => {
                let omitted = format_plural(dropped, "more item");
                format!("{text}({omitted} omitted: not enough room)\n")
            }
        }
    }

    /// Returns the decision that reports dropped items. `None` if none were dropped.
    fn dropped_items_decision(&self) -> Option<Decision> {
        let included = self.checkpoint.items.len();
        let text = format!(
            "the brief contains {included} of {} of the checkpoint: `budget` has no room for more",
            format_plural(included + self.dropped_items, "item")
        );
        (self.dropped_items > 0).then(|| Decision::new(DecisionKind::Context, text))
    }

    /// Limits the checkpoint to half of `budget`.
    ///
    /// A checkpoint that was made for a larger budget loses its least important items. Otherwise the brief would lose
    /// whatever is in the middle of the checkpoint.
    fn shrink_to_half(self, budget: u64) -> Self {
        if self.tokens <= budget / 2 {
            return self;
        }
        let count = &segue_tokens::count;
        let item_count = self.checkpoint.items.len();
        let checkpoint = merge(&self.checkpoint, Vec::new(), budget / 2, count);
        Self {
            tokens: count(&render_checkpoint(&checkpoint)),
            covers: self.covers,
            dropped_items: item_count.saturating_sub(checkpoint.items.len()),
            checkpoint,
        }
    }
}

impl Engine {
    /// Sets the maximum number of tokens of a brief together with its prompt.
    #[must_use]
    pub fn with_budget(mut self, tokens: u64) -> Self {
        self.budget = tokens;
        self
    }

    /// Composes the brief that a new native session receives before the prompt. Compacts the session first if its turns
    /// do not fit.
    pub(crate) async fn brief_new_leg(
        &self,
        request: BriefRequest<'_>,
    ) -> Result<(Brief, Vec<Decision>), EngineError> {
        let heading = brief_heading(
            request.session,
            request.earlier_turns.is_empty(),
            request.prompt,
        );
        let preamble = self.brief_preamble(request.session, true).await?;
        let head = request.earlier_turns.last();
        if head.is_none() && preamble.is_none() {
            // There is nothing to select from, so the turn need not wait for the tokenizer's vocabulary.
            return Ok((Brief::from_heading(heading.as_deref()), Vec::new()));
        }
        let preamble = preamble.unwrap_or_default();
        let limits = self.brief_limits(request.provider).await?;
        // Role and project context are never cut. The conversation gets the remainder of the budget.
        let preamble_tokens = preamble.estimate_tokens();
        if preamble_tokens > limits.budget / 2 {
            // If role and context alone exceed the budget, this fails before anything is compacted.
            let preamble_only = BriefInput {
                role: Some(preamble.role.as_str()),
                context: Some(preamble.context.as_str()),
                ..BriefInput::default()
            };
            compose_brief(&preamble_only, limits.budget, &segue_tokens::count)?;
        }
        let conversation_budget = limits.budget.saturating_sub(preamble_tokens);
        let (mut turns, mut checkpoint) = (Vec::new(), None);
        if let Some(head) = head {
            turns = self.load_recent_turns(head.id, conversation_budget).await?;
            checkpoint = self.active_checkpoint(&request.session.id, head.id).await?;
            if !can_fit_in_full(&turns, checkpoint.as_ref(), conversation_budget) {
                let up_to = (head.id, request.provider);
                let compacted = self.compact_to_fit(request.guard, request.session, up_to);
                checkpoint = compacted.await?.or(checkpoint);
            }
        }
        let checkpoint =
            checkpoint.map(|checkpoint| checkpoint.shrink_to_half(conversation_budget));
        let checkpoint_text = checkpoint.as_ref().map(ActiveCheckpoint::render);
        let lookup_id = request.session.id.as_str();
        let input = BriefInput {
            heading: heading.as_deref(),
            role: Some(preamble.role.as_str()),
            context: Some(preamble.context.as_str()),
            checkpoint: checkpoint_text.as_deref(),
            turns: &turns,
            lookup_session_id: Some(lookup_id)
                .filter(|_| request.has_tools && self.tools.segue_server.is_some()),
            prompt: request.prompt,
        };
        let budget = preamble_tokens
            + brief_budget(
                &turns,
                checkpoint.as_ref(),
                (preamble_tokens, conversation_budget),
            );
        let brief = compose_brief(&input, budget, &segue_tokens::count)?;
        let mut decisions = preamble.decisions;
        decisions.extend(
            checkpoint
                .as_ref()
                .and_then(ActiveCheckpoint::dropped_items_decision),
        );
        Ok((brief, decisions))
    }

    /// Composes the brief that a new native session of `provider` would receive now. Starts no agent. Changes nothing
    /// except that it saves missing token counts.
    pub async fn preview_brief(
        &self,
        conversation: &Conversation,
        provider: Option<&ProviderId>,
        prompt: &str,
    ) -> Result<BriefPreview, EngineError> {
        let default_provider = match conversation {
            Conversation::Session(session, _) => session.provider.clone(),
            Conversation::Native(native) => native.session.provider.clone(),
        };
        let provider = provider.cloned().unwrap_or(default_provider);
        let limits = self.brief_limits(&provider).await?;
        let preamble = match conversation {
            Conversation::Session(session, _) => self.brief_preamble(session, false).await?,
            Conversation::Native(_) => None,
        };
        let preamble = preamble.unwrap_or_default();
        let preamble_tokens = preamble.estimate_tokens();
        let conversation_budget = limits.budget.saturating_sub(preamble_tokens);
        let (turns, purpose) = match conversation {
            Conversation::Session(session, _) => match session.head {
                Some(head) => (
                    self.load_recent_turns(head, conversation_budget).await?,
                    None,
                ),
                None => (Vec::new(), None),
            },
            Conversation::Native(native) => {
                self.read_native_brief_turns(native, conversation_budget)?
            }
        };
        let checkpoint = match conversation {
            Conversation::Session(session, _) => {
                let planned =
                    self.planned_checkpoint(session, &turns, (&provider, conversation_budget));
                planned
                    .await?
                    .map(|checkpoint| checkpoint.shrink_to_half(conversation_budget))
            }
            Conversation::Native(_) => None,
        };
        let checkpoint_text = checkpoint.as_ref().map(ActiveCheckpoint::render);
        let id = conversation.id().to_string();
        let has_tools = self
            .agent(&provider)
            .is_ok_and(|agent| agent.accepts_mcp_servers());
        let heading = match conversation {
            Conversation::Session(session, _) => {
                brief_heading(session, session.head.is_none(), prompt)
            }
            Conversation::Native(_) => purpose.and_then(|purpose| purpose.heading()),
        };
        let input = BriefInput {
            heading: heading.as_deref(),
            role: Some(preamble.role.as_str()),
            context: Some(preamble.context.as_str()),
            checkpoint: checkpoint_text.as_deref(),
            turns: &turns,
            lookup_session_id: Some(id.as_str())
                .filter(|_| has_tools && self.tools.segue_server.is_some()),
            prompt,
        };
        let budget = preamble_tokens
            + brief_budget(
                &turns,
                checkpoint.as_ref(),
                (preamble_tokens, conversation_budget),
            );
        let brief = compose_brief(&input, budget, &segue_tokens::count)?;
        let total = brief.total_tokens();
        Ok(BriefPreview {
            provider,
            brief,
            budget: limits.budget,
            reported_tokens: limits
                .calibration
                .map(|calibration| calibration.to_reported(total)),
        })
    }

    /// Returns the active checkpoint at a turn. `None` if there is none.
    async fn active_checkpoint(
        &self,
        session: &SessionId,
        head: TurnId,
    ) -> Result<Option<ActiveCheckpoint>, EngineError> {
        let stored = self.store.checkpoint_at(session, head).await?;
        Ok(stored.map(|(version, checkpoint)| ActiveCheckpoint {
            checkpoint,
            tokens: version.tokens,
            covers: version.covers,
            dropped_items: 0,
        }))
    }

    /// Returns the checkpoint that a brief would contain now. Computes it if the turns do not fit, and does not save
    /// it.
    async fn planned_checkpoint(
        &self,
        session: &Session,
        turns: &[BriefTurn],
        (provider, conversation_budget): (&ProviderId, u64),
    ) -> Result<Option<ActiveCheckpoint>, EngineError> {
        let Some(head) = session.head else {
            return Ok(None);
        };
        let checkpoint = self.active_checkpoint(&session.id, head).await?;
        if can_fit_in_full(turns, checkpoint.as_ref(), conversation_budget) {
            return Ok(checkpoint);
        }
        let compaction = self.plan_compaction_for(session, head, provider).await?;
        Ok(compaction.map(ActiveCheckpoint::from).or(checkpoint))
    }

    /// Returns the maximum number of tokens of a brief and its prompt for an agent.
    pub(crate) async fn provider_budget(&self, provider: &ProviderId) -> Result<u64, EngineError> {
        Ok(self.brief_limits(provider).await?.budget)
    }

    async fn brief_limits(&self, provider: &ProviderId) -> Result<BriefLimits, EngineError> {
        let measured = self
            .store
            .context_measurements(provider, CALIBRATION_SAMPLE_TURNS)
            .await?;
        let window = measured.iter().find_map(|turn| turn.context_window);
        let samples: Vec<CalibrationSample> = measured
            .iter()
            .map(|turn| CalibrationSample {
                estimate: turn.estimated_tokens,
                reported: turn.context_tokens,
            })
            .collect();
        let calibration = calibrate(&samples);
        Ok(BriefLimits {
            budget: budget_for_window(self.budget, window, calibration),
            calibration,
        })
    }

    /// Returns the newest turns up to `head` that fit the budget, oldest first.
    async fn load_recent_turns(
        &self,
        head: TurnId,
        budget: u64,
    ) -> Result<Vec<BriefTurn>, EngineError> {
        let recent = self.store.recent_turns(head, budget).await?;
        Ok(self.load_brief_turns(recent).await)
    }

    /// Converts turns for a brief. The input is newest first and the output oldest first. Counts tokens where a count
    /// is missing.
    pub(crate) async fn load_brief_turns(
        &self,
        mut stored_turns: Vec<StoredTurn>,
    ) -> Vec<BriefTurn> {
        let counts = count_missing_tokens(&mut stored_turns);
        if !counts.is_empty() {
            // If the counts cannot be saved, they serve for this brief only.
            let _ = self.store.fill_token_counts(counts).await;
        }
        let to_brief_turn = |stored: StoredTurn| {
            let mut messages = merge_chunks(stored.messages);
            let at = messages.last().map(|last| last.at);
            if let (Some(note), Some(at)) = (unfinished_turn_note(stored.state), at) {
                let mut end_message = Message::from_text(Role::System, note, at);
                token_count::count_message_tokens(&mut end_message);
                messages.push(end_message);
            }
            BriefTurn {
                n: stored.number,
                messages,
            }
        };
        stored_turns.into_iter().rev().map(to_brief_turn).collect()
    }

    /// Returns the newest turns of a native session and the purpose in its prompt header, as they would be after an
    /// adoption.
    fn read_native_brief_turns(
        &self,
        native: &NativeEntry,
        budget: u64,
    ) -> Result<(Vec<BriefTurn>, Option<Purpose>), EngineError> {
        let mut purpose = None;
        let outline = self.read_outline(&native.session)?;
        let mut turns: VecDeque<(BriefTurn, u64)> = VecDeque::new();
        let mut needed = 0;
        self.read_turns_from(&native.session, &outline, 0, &mut |index, mut turn| {
            if index == 0 {
                purpose = split_brief_from_prompt(&mut turn);
            }
            turn.messages.iter_mut().for_each(|message| {
                token_count::count_message_tokens(message);
            });
            let min_message_tokens = |message| min_brief_tokens(message, budget);
            let min_tokens = turn.messages.iter().map(min_message_tokens).sum();
            needed += min_tokens;
            let n = u32::try_from(index + 1).unwrap_or(u32::MAX);
            let brief_turn = BriefTurn {
                n,
                messages: turn.messages,
            };
            turns.push_back((brief_turn, min_tokens));
            while let Some((_, oldest)) = turns.front()
                && needed - oldest > budget
            {
                needed -= oldest;
                turns.pop_front();
            }
            ControlFlow::Continue(())
        })?;
        let turns = turns.into_iter().map(|(turn, _)| turn).collect();
        Ok((turns, purpose))
    }
}

/// Returns `true` if the checkpoint and all turns after it fit the budget in full, and no turn is missing in between.
fn can_fit_in_full(
    turns: &[BriefTurn],
    checkpoint: Option<&ActiveCheckpoint>,
    budget: u64,
) -> bool {
    let covers = checkpoint.map_or(0, |checkpoint| checkpoint.covers);
    let is_contiguous = turns.first().is_none_or(|turn| turn.n <= covers + 1);
    is_contiguous && estimate_conversation_tokens(turns, checkpoint) <= budget
}

/// Estimates the tokens of a checkpoint and all turns after it.
fn estimate_conversation_tokens(turns: &[BriefTurn], checkpoint: Option<&ActiveCheckpoint>) -> u64 {
    let (tokens, covers) =
        checkpoint.map_or((0, 0), |checkpoint| (checkpoint.tokens, checkpoint.covers));
    let later_turns = turns.iter().filter(|turn| turn.n > covers);
    let messages = later_turns.flat_map(|turn| &turn.messages);
    let later_tokens: u64 = messages.map(|message| message.tokens.unwrap_or(0)).sum();
    // Each line and each message takes a few tokens more than its text.
    tokens + tokens / 8 + later_tokens + later_tokens / 8 + 2_000
}

/// Returns how many tokens of `conversation_budget` a brief uses. `conversation_budget` is the budget without role and
/// context.
///
/// With a checkpoint, the brief uses only a percentage of it, so that the conversation can continue, but always enough
/// for the complete checkpoint.
fn brief_budget(
    turns: &[BriefTurn],
    checkpoint: Option<&ActiveCheckpoint>,
    (preamble_tokens, conversation_budget): (u64, u64),
) -> u64 {
    let Some(full_checkpoint_tokens) =
        checkpoint.map(|checkpoint| checkpoint.tokens / 3 * 4 + 2_000)
    else {
        return conversation_budget;
    };
    let percent_of = |amount: u64, percent: u64| amount.saturating_mul(percent) / 100;
    let max_tokens = percent_of(
        preamble_tokens.saturating_add(conversation_budget),
        MAX_BRIEF_BUDGET_PERCENT,
    )
    .saturating_sub(preamble_tokens);
    percent_of(conversation_budget, BRIEF_BUDGET_PERCENT)
        .min(max_tokens)
        .max(estimate_conversation_tokens(turns, checkpoint))
        .max(full_checkpoint_tokens)
        .min(conversation_budget)
}

/// Estimates the tokens of a brief with a checkpoint. The newest messages fill its budget, as far as there are enough.
pub(crate) fn estimate_brief_tokens(version: &CheckpointVersion, budget: u64) -> u64 {
    let full_tokens = version.tokens.saturating_add(version.replaced);
    full_tokens
        .min(budget * BRIEF_BUDGET_PERCENT / 100)
        .max(version.tokens)
}

/// Returns a note about a turn that did not finish. Without it, the prompt would appear to be unanswered.
fn unfinished_turn_note(state: TurnState) -> Option<&'static str> {
    match state {
        TurnState::Finished | TurnState::Running => None,
        TurnState::Cancelled => Some("The user stopped this turn."),
        TurnState::Failed => Some("This turn failed."),
        TurnState::Interrupted => Some("This turn was interrupted."),
    }
}

/// Returns the header for the first prompt of a new native session, by which its purpose can be identified later.
fn brief_heading(session: &Session, is_first: bool, prompt: &str) -> Option<String> {
    let purpose = session.purpose.as_ref()?;
    if is_first {
        purpose.heading_for_prompt(prompt)
    } else {
        purpose.heading()
    }
}

/// Counts the messages without a token count. Returns the counts to save.
fn count_missing_tokens(stored_turns: &mut [StoredTurn]) -> Vec<TokenCount> {
    let mut counts = Vec::new();
    for stored in stored_turns {
        for (seq, message) in (0..).zip(&mut stored.messages) {
            if message.tokens.is_none() {
                counts.push(TokenCount {
                    turn: stored.turn,
                    seq,
                    tokens: token_count::count_message_tokens(message),
                });
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use segue_core::checkpoint::{CheckpointReason, ItemAuthor};

    use super::*;

    #[test]
    fn a_brief_with_a_checkpoint_is_filled_with_recent_messages_up_to_its_budget() {
        let version = |tokens, replaced| CheckpointVersion {
            n: 1,
            turn: TurnId(1),
            covers: 9,
            tokens,
            replaced,
            author: ItemAuthor::Extraction,
            reason: CheckpointReason::Budget,
            at: Timestamp::UNIX_EPOCH,
            last_item_id: 0,
            last_read_turn: 0,
        };
        for (tokens, replaced, expected) in [
            // The newest messages fill the budget.
            (1_000, 9_000, 6_500),
            // The brief is not larger than the conversation.
            (300, 700, 1_000),
            // The checkpoint is always included, whatever its size.
            (8_000, 90_000, 8_000),
            (0, 0, 0),
            (1, u64::MAX, 6_500),
        ] {
            let estimate = estimate_brief_tokens(&version(tokens, replaced), 10_000);
            assert_eq!(estimate, expected, "{tokens} for {replaced}");
        }
    }
}
