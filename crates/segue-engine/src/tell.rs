//! What a new native session is told, and what it would be told.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use segue_core::{
    Brief, Calibration, Checkpoint, Decision, DecisionKind, Message, ProviderId, Purpose, Role,
    Sample, Session, SessionId, Story, ToldTurn, Turn, TurnId, TurnState, Version, budget_within,
    calibrate, compose, least_tokens, merge, written,
};
use segue_store::{Said, TokenCount};

use crate::adopt::bare;
use crate::hold::Hold;
use crate::pieces::joined;
use crate::{Conversation, Engine, EngineError, Native, counted};

/// From how many of its newest turns it is learned how an agent counts.
const SAMPLES: u32 = 60;

/// How much a brief with a checkpoint takes of what role and context leave of the budget, of 100, unless more is needed;
/// and of the whole budget with them.
const OPENING: u64 = 65;
const MOST: u64 = 75;

/// What a new native session would be told now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// Who would be told.
    pub provider: ProviderId,
    /// The brief.
    pub brief: Brief,
    /// What it and the prompt may have together, in tokens.
    pub budget: u64,
    /// How large the request would be by the agent's own count, once it is known how it counts.
    pub reported_tokens: Option<u64>,
}

/// How an agent counts, and how much it can be told.
struct Limits {
    budget: u64,
    calibration: Option<Calibration>,
}

/// What is to be said to a new native session.
pub(crate) struct Telling<'a> {
    pub(crate) session: &'a Session,
    pub(crate) provider: &'a ProviderId,
    pub(crate) prompt: &'a str,
    /// The turns that came before.
    pub(crate) before: &'a [Turn],
    /// Whether the agent can look things up by segue's own tools.
    pub(crate) has_tools: bool,
    /// The claim on the session.
    pub(crate) hold: &'a Hold,
}

/// What a conversation comes to up to a turn.
pub(crate) struct SummedUp {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) tokens: u64,
    pub(crate) covers: u32,
    /// How many of its items there is no room for.
    pub(crate) untold: usize,
}

impl SummedUp {
    /// It in words, and what they leave out.
    fn told(&self) -> String {
        let text = written(&self.checkpoint);
        match self.untold {
            0 => text,
            untold => format!("{text}({untold} more items are not told here: there is no room)\n"),
        }
    }

    /// What a person is told of it, where not all of it is told.
    fn news(&self) -> Option<Decision> {
        let told = self.checkpoint.items.len();
        let text = format!(
            "of the {} items of the checkpoint {told} are told: there is no room for more (`budget`)",
            told + self.untold
        );
        (self.untold > 0).then(|| Decision::new(DecisionKind::Context, text))
    }

    /// It in the room that an agent has for it. One that was made where there was more room gives up what tells least,
    /// rather than whatever is in its middle.
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
    /// The same engine, whose briefs have so many tokens at most, together with their prompts.
    #[must_use]
    pub fn with_budget(mut self, tokens: u64) -> Self {
        self.budget = tokens;
        self
    }

    /// What a new native session is told before the prompt.
    pub(crate) async fn tell(
        &self,
        telling: Telling<'_>,
    ) -> Result<(Brief, Vec<Decision>), EngineError> {
        let heading = heading(telling.session, telling.before.is_empty(), telling.prompt);
        let first = self.told_first(telling.session, true).await?;
        let head = telling.before.last();
        if head.is_none() && first.is_none() {
            // There is nothing to choose from, so nobody waits for the vocabulary.
            return Ok((Brief::of_nothing(heading.as_deref()), Vec::new()));
        }
        let first = first.unwrap_or_default();
        let limits = self.limits(telling.provider).await?;
        // What is told of the role and the project is told whole, and the rest has what that leaves.
        let fixed = first.tokens();
        if fixed > limits.budget / 2 {
            // What can't be told at all is said before anything is summed up to make room.
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

    /// What a new native session of `provider` would be told now. Nothing is started, and nothing is changed but for
    /// counts that are filled in.
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

    /// The checkpoint in force at a turn, as it is told.
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

    /// What a session comes to that is told now; nothing is kept of what is summed up for that.
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

    /// How much a new native session of an agent may be told, in tokens.
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

    /// The newest turns up to one, as many as can be told, oldest first.
    async fn recent_turns(&self, head: TurnId, budget: u64) -> Result<Vec<ToldTurn>, EngineError> {
        let recent = self.store.recent(head, budget).await?;
        Ok(self.told_turns(recent).await)
    }

    /// Turns as they are told, oldest first, of some that come newest first. What nobody has counted yet is counted now.
    pub(crate) async fn told_turns(&self, mut recent: Vec<Said>) -> Vec<ToldTurn> {
        let counts = count_all(&mut recent);
        if !counts.is_empty() {
            // Who can't keep the counts has counted for this time only.
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

    /// The newest turns of a native session, and what its tags say that it is for: as it would be told once it is ours.
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

/// Whether all that is not summed up can be told in full, of turns without a gap.
fn fits(turns: &[ToldTurn], summed: Option<&SummedUp>, budget: u64) -> bool {
    let covers = summed.map_or(0, |summed| summed.covers);
    let all = turns.first().is_none_or(|turn| turn.n <= covers + 1);
    all && least(turns, summed) <= budget
}

/// How many tokens it takes to tell a checkpoint and all that it does not sum up.
fn least(turns: &[ToldTurn], summed: Option<&SummedUp>) -> u64 {
    let (tokens, covers) = summed.map_or((0, 0), |summed| (summed.tokens, summed.covers));
    let since = turns.iter().filter(|turn| turn.n > covers);
    let messages = since.flat_map(|turn| &turn.messages);
    let since: u64 = messages.map(|message| message.tokens.unwrap_or(0)).sum();
    // Each line and each message costs a little more than what it says.
    tokens + tokens / 8 + since + since / 8 + 2_000
}

/// How much of the `room` that role and context leave a brief takes: where something is summed up, so little that there
/// is some to go on, and so much that what is summed up is told whole.
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

/// How many tokens a brief with a checkpoint has: beside it go the newest messages, as far as there are some.
pub(crate) fn told_at_first(version: &Version, budget: u64) -> u64 {
    let all = version.tokens.saturating_add(version.replaced);
    all.min(budget * OPENING / 100).max(version.tokens)
}

/// How a turn ended, where not as it should: else its prompt would look as if it were still to be answered.
fn end_of(state: TurnState) -> Option<&'static str> {
    match state {
        TurnState::Finished | TurnState::Running => None,
        TurnState::Cancelled => Some("The user stopped this turn."),
        TurnState::Failed => Some("This turn failed."),
        TurnState::Interrupted => Some("This turn was cut off."),
    }
}

/// What the first prompt of a new native session is headed with, so that it is known again by what it is for.
fn heading(session: &Session, is_first: bool, prompt: &str) -> Option<String> {
    let purpose = session.purpose.as_ref()?;
    if is_first {
        purpose.heading_over(prompt)
    } else {
        purpose.heading()
    }
}

/// Counts what was not counted yet; what is to be filled in.
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
    use segue_core::{Author, Occasion};

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
            // The newest messages fill what there is room for.
            (1_000, 9_000, 6_500),
            // There is not more than all of it.
            (300, 700, 1_000),
            // What must be told is told, however large it is.
            (8_000, 90_000, 8_000),
            (0, 0, 0),
            (1, u64::MAX, 6_500),
        ] {
            let told = told_at_first(&version(tokens, replaced), 10_000);
            assert_eq!(told, expected, "{tokens} for {replaced}");
        }
    }
}
