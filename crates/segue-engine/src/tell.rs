//! Composition of the brief for a new native session, and its preview.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use segue_core::brief::{
    Brief, Calibration, Sample, Story, ToldTurn, budget_within, calibrate, compose, least_tokens,
};
use segue_core::checkpoint::{Checkpoint, Version, merge, written};
use segue_core::id::{ProviderId, SessionId, TurnId};
use segue_core::scope::Purpose;
use segue_core::session::{Decision, DecisionKind, Message, Role, Session, Turn, TurnState};
use segue_store::{Said, TokenCount};

use crate::adopt::bare;
use crate::hold::Hold;
use crate::pieces::joined;
use crate::{Conversation, Engine, EngineError, Native, counted};

/// Number of an agent's newest turns that serve as samples for its calibration.
const SAMPLES: u32 = 60;

/// Percentage of the budget without role and context that a brief with a checkpoint uses, unless it needs more. `MOST`
/// is the maximum percentage of the complete budget, with role and context.
const OPENING: u64 = 65;
const MOST: u64 = 75;

/// The brief that a new native session would receive now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
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
struct Limits {
    budget: u64,
    calibration: Option<Calibration>,
}

/// Input for the brief of a new native session.
pub(crate) struct Telling<'a> {
    pub(crate) session: &'a Session,
    pub(crate) provider: &'a ProviderId,
    pub(crate) prompt: &'a str,
    /// Turns before the prompt.
    pub(crate) before: &'a [Turn],
    /// Whether the agent can use segue's own tools to look up messages.
    pub(crate) has_tools: bool,
    /// Lease on the session.
    pub(crate) hold: &'a Hold,
}

/// A checkpoint for a brief.
pub(crate) struct SummedUp {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) tokens: u64,
    pub(crate) covers: u32,
    /// Number of items that were dropped because they do not fit.
    pub(crate) untold: usize,
}

impl SummedUp {
    /// Renders the checkpoint, with a note about dropped items.
    fn told(&self) -> String {
        let text = written(&self.checkpoint);
        match self.untold {
            0 => text,
            untold => format!("{text}({untold} more items are not told here: there is no room)\n"),
        }
    }

    /// Returns the decision that reports dropped items. `None` if none were dropped.
    fn news(&self) -> Option<Decision> {
        let told = self.checkpoint.items.len();
        let text = format!(
            "of the {} items of the checkpoint {told} are told: there is no room for more (`budget`)",
            told + self.untold
        );
        (self.untold > 0).then(|| Decision::new(DecisionKind::Context, text))
    }

    /// Limits the checkpoint to half of `room`.
    ///
    /// A checkpoint that was made for a larger budget loses its least important items. Otherwise the brief would lose
    /// whatever is in the middle of the checkpoint.
    fn within(self, room: u64) -> Self {
        if self.tokens <= room / 2 {
            return self;
        }
        let count = &segue_tokens::count;
        let all = self.checkpoint.items.len();
        let checkpoint = merge(&self.checkpoint, Vec::new(), room / 2, count);
        Self {
            tokens: count(&written(&checkpoint)),
            covers: self.covers,
            untold: all.saturating_sub(checkpoint.items.len()),
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
    pub(crate) async fn tell(
        &self,
        telling: Telling<'_>,
    ) -> Result<(Brief, Vec<Decision>), EngineError> {
        let heading = heading(telling.session, telling.before.is_empty(), telling.prompt);
        let first = self.told_first(telling.session, true).await?;
        let head = telling.before.last();
        if head.is_none() && first.is_none() {
            // There is nothing to select from, so the turn need not wait for the tokenizer's vocabulary.
            return Ok((Brief::of_nothing(heading.as_deref()), Vec::new()));
        }
        let first = first.unwrap_or_default();
        let limits = self.limits(telling.provider).await?;
        // Role and project context are never cut. The conversation gets the remainder of the budget.
        let fixed = first.tokens();
        if fixed > limits.budget / 2 {
            // If role and context alone exceed the budget, this fails before anything is compacted.
            let alone = Story {
                role: Some(first.role.as_str()),
                context: Some(first.context.as_str()),
                ..Story::default()
            };
            compose(&alone, limits.budget, &segue_tokens::count)?;
        }
        let room = limits.budget.saturating_sub(fixed);
        let (mut turns, mut summed) = (Vec::new(), None);
        if let Some(head) = head {
            turns = self.recent_turns(head.id, room).await?;
            summed = self.summed_up(&telling.session.id, head.id).await?;
            if !fits(&turns, summed.as_ref(), room) {
                let up_to = (head.id, telling.provider);
                let compacted = self.compact_for(telling.hold, telling.session, up_to);
                summed = compacted.await?.or(summed);
            }
        }
        let summed = summed.map(|summed| summed.within(room));
        let text = summed.as_ref().map(SummedUp::told);
        let look_up = telling.session.id.as_str();
        let story = Story {
            heading: heading.as_deref(),
            role: Some(first.role.as_str()),
            context: Some(first.context.as_str()),
            checkpoint: text.as_deref(),
            turns: &turns,
            look_up: Some(look_up).filter(|_| telling.has_tools && self.tools.own.is_some()),
            prompt: telling.prompt,
        };
        let budget = fixed + opening_budget(&turns, summed.as_ref(), (fixed, room));
        let brief = compose(&story, budget, &segue_tokens::count)?;
        let mut news = first.news;
        news.extend(summed.as_ref().and_then(SummedUp::news));
        Ok((brief, news))
    }

    /// Composes the brief that a new native session of `provider` would receive now. Starts no agent. Changes nothing
    /// except that it saves missing token counts.
    pub async fn preview(
        &self,
        conversation: &Conversation,
        provider: Option<&ProviderId>,
        prompt: &str,
    ) -> Result<Preview, EngineError> {
        let usual = match conversation {
            Conversation::Session(session, _) => session.provider.clone(),
            Conversation::Native(native) => native.session.provider.clone(),
        };
        let provider = provider.cloned().unwrap_or(usual);
        let limits = self.limits(&provider).await?;
        let first = match conversation {
            Conversation::Session(session, _) => self.told_first(session, false).await?,
            Conversation::Native(_) => None,
        };
        let first = first.unwrap_or_default();
        let fixed = first.tokens();
        let room = limits.budget.saturating_sub(fixed);
        let (turns, purpose) = match conversation {
            Conversation::Session(session, _) => match session.head {
                Some(head) => (self.recent_turns(head, room).await?, None),
                None => (Vec::new(), None),
            },
            Conversation::Native(native) => self.native_turns(native, room)?,
        };
        let summed = match conversation {
            Conversation::Session(session, _) => {
                let would_be = self.would_be_summed_up(session, &turns, (&provider, room));
                would_be.await?.map(|summed| summed.within(room))
            }
            Conversation::Native(_) => None,
        };
        let text = summed.as_ref().map(SummedUp::told);
        let id = conversation.id().to_string();
        let has_tools = self.agent(&provider).is_ok_and(|agent| agent.takes_tools());
        let heading = match conversation {
            Conversation::Session(session, _) => heading(session, session.head.is_none(), prompt),
            Conversation::Native(_) => purpose.and_then(|purpose| purpose.heading()),
        };
        let story = Story {
            heading: heading.as_deref(),
            role: Some(first.role.as_str()),
            context: Some(first.context.as_str()),
            checkpoint: text.as_deref(),
            turns: &turns,
            look_up: Some(id.as_str()).filter(|_| has_tools && self.tools.own.is_some()),
            prompt,
        };
        let budget = fixed + opening_budget(&turns, summed.as_ref(), (fixed, room));
        let brief = compose(&story, budget, &segue_tokens::count)?;
        let total = brief.total_tokens();
        Ok(Preview {
            provider,
            brief,
            budget: limits.budget,
            reported_tokens: limits.calibration.map(|learned| learned.reported(total)),
        })
    }

    /// Returns the active checkpoint at a turn. `None` if there is none.
    async fn summed_up(
        &self,
        session: &SessionId,
        head: TurnId,
    ) -> Result<Option<SummedUp>, EngineError> {
        let found = self.store.checkpoint_at(session, head).await?;
        Ok(found.map(|(version, checkpoint)| SummedUp {
            checkpoint,
            tokens: version.tokens,
            covers: version.covers,
            untold: 0,
        }))
    }

    /// Returns the checkpoint that a brief would contain now. Computes it if the turns do not fit, and does not save
    /// it.
    async fn would_be_summed_up(
        &self,
        session: &Session,
        turns: &[ToldTurn],
        (provider, room): (&ProviderId, u64),
    ) -> Result<Option<SummedUp>, EngineError> {
        let Some(head) = session.head else {
            return Ok(None);
        };
        let summed = self.summed_up(&session.id, head).await?;
        if fits(turns, summed.as_ref(), room) {
            return Ok(summed);
        }
        let compaction = self.compaction_for(session, head, provider).await?;
        Ok(compaction.map(SummedUp::from).or(summed))
    }

    /// Returns the maximum number of tokens of a brief and its prompt for an agent.
    pub(crate) async fn budget_of(&self, provider: &ProviderId) -> Result<u64, EngineError> {
        Ok(self.limits(provider).await?.budget)
    }

    async fn limits(&self, provider: &ProviderId) -> Result<Limits, EngineError> {
        let measured = self.store.measured(provider, SAMPLES).await?;
        let window = measured.iter().find_map(|turn| turn.context_window);
        let samples: Vec<Sample> = measured
            .iter()
            .map(|turn| Sample {
                estimate: turn.estimate,
                reported: turn.context_tokens,
            })
            .collect();
        let calibration = calibrate(&samples);
        Ok(Limits {
            budget: budget_within(self.budget, window, calibration),
            calibration,
        })
    }

    /// Returns the newest turns up to `head` that fit the budget, oldest first.
    async fn recent_turns(&self, head: TurnId, budget: u64) -> Result<Vec<ToldTurn>, EngineError> {
        let recent = self.store.recent(head, budget).await?;
        Ok(self.told_turns(recent).await)
    }

    /// Converts turns for a brief. The input is newest first and the output oldest first. Counts tokens where a count
    /// is missing.
    pub(crate) async fn told_turns(&self, mut recent: Vec<Said>) -> Vec<ToldTurn> {
        let counts = count_all(&mut recent);
        if !counts.is_empty() {
            // If the counts cannot be saved, they serve for this brief only.
            let _ = self.store.fill_tokens(counts).await;
        }
        let told = |said: Said| {
            let mut messages = joined(said.messages);
            let at = messages.last().map(|last| last.at);
            if let (Some(end), Some(at)) = (end_of(said.state), at) {
                let mut end = Message::text(Role::System, end, at);
                counted::count(&mut end);
                messages.push(end);
            }
            ToldTurn {
                n: said.n,
                messages,
            }
        };
        recent.into_iter().rev().map(told).collect()
    }

    /// Returns the newest turns of a native session and the purpose in its prompt header, as they would be after an
    /// adoption.
    fn native_turns(
        &self,
        native: &Native,
        budget: u64,
    ) -> Result<(Vec<ToldTurn>, Option<Purpose>), EngineError> {
        let mut purpose = None;
        let survey = self.survey(&native.session)?;
        let mut turns: VecDeque<(ToldTurn, u64)> = VecDeque::new();
        let mut needed = 0;
        self.replay(&native.session, &survey, 0, &mut |place, mut turn| {
            if place == 0 {
                purpose = bare(&mut turn);
            }
            turn.messages.iter_mut().for_each(|message| {
                counted::count(message);
            });
            let least = |message| least_tokens(message, budget);
            let least = turn.messages.iter().map(least).sum();
            needed += least;
            let n = u32::try_from(place + 1).unwrap_or(u32::MAX);
            let told = ToldTurn {
                n,
                messages: turn.messages,
            };
            turns.push_back((told, least));
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
fn fits(turns: &[ToldTurn], summed: Option<&SummedUp>, budget: u64) -> bool {
    let covers = summed.map_or(0, |summed| summed.covers);
    let all = turns.first().is_none_or(|turn| turn.n <= covers + 1);
    all && least(turns, summed) <= budget
}

/// Estimates the tokens of a checkpoint and all turns after it.
fn least(turns: &[ToldTurn], summed: Option<&SummedUp>) -> u64 {
    let (tokens, covers) = summed.map_or((0, 0), |summed| (summed.tokens, summed.covers));
    let since = turns.iter().filter(|turn| turn.n > covers);
    let messages = since.flat_map(|turn| &turn.messages);
    let since: u64 = messages.map(|message| message.tokens.unwrap_or(0)).sum();
    // Each line and each message takes a few tokens more than its text.
    tokens + tokens / 8 + since + since / 8 + 2_000
}

/// Returns how many tokens of `room` a brief uses. `room` is the budget without role and context.
///
/// With a checkpoint, the brief uses only a percentage of it, so that the conversation can continue, but always enough
/// for the complete checkpoint.
fn opening_budget(turns: &[ToldTurn], summed: Option<&SummedUp>, (fixed, room): (u64, u64)) -> u64 {
    let Some(whole) = summed.map(|summed| summed.tokens / 3 * 4 + 2_000) else {
        return room;
    };
    let share = |all: u64, share: u64| all.saturating_mul(share) / 100;
    let most = share(fixed.saturating_add(room), MOST).saturating_sub(fixed);
    share(room, OPENING)
        .min(most)
        .max(least(turns, summed))
        .max(whole)
        .min(room)
}

/// Estimates the tokens of a brief with a checkpoint. The newest messages fill its budget, as far as there are enough.
pub(crate) fn told_at_first(version: &Version, budget: u64) -> u64 {
    let all = version.tokens.saturating_add(version.replaced);
    all.min(budget * OPENING / 100).max(version.tokens)
}

/// Returns a note about a turn that did not finish. Without it, the prompt would appear to be unanswered.
fn end_of(state: TurnState) -> Option<&'static str> {
    match state {
        TurnState::Finished | TurnState::Running => None,
        TurnState::Cancelled => Some("The user stopped this turn."),
        TurnState::Failed => Some("This turn failed."),
        TurnState::Interrupted => Some("This turn was cut off."),
    }
}

/// Returns the header for the first prompt of a new native session, by which its purpose can be identified later.
fn heading(session: &Session, is_first: bool, prompt: &str) -> Option<String> {
    let purpose = session.purpose.as_ref()?;
    if is_first {
        purpose.heading_over(prompt)
    } else {
        purpose.heading()
    }
}

/// Counts the messages without a token count. Returns the counts to save.
fn count_all(recent: &mut [Said]) -> Vec<TokenCount> {
    let mut counts = Vec::new();
    for said in recent {
        for (seq, message) in (0..).zip(&mut said.messages) {
            if message.tokens.is_none() {
                counts.push(TokenCount {
                    turn: said.turn,
                    seq,
                    tokens: counted::count(message),
                });
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use segue_core::checkpoint::{Author, Occasion};

    use super::*;

    #[test]
    fn a_native_session_with_a_checkpoint_begins_with_more_than_that() {
        let version = |tokens, replaced| Version {
            n: 1,
            turn: TurnId(1),
            covers: 9,
            tokens,
            replaced,
            by: Author::Record,
            why: Occasion::Budget,
            at: Timestamp::UNIX_EPOCH,
            last_item: 0,
            read: 0,
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
            let told = told_at_first(&version(tokens, replaced), 10_000);
            assert_eq!(told, expected, "{tokens} for {replaced}");
        }
    }
}
