//! Compaction: turns become a checkpoint, and the leg whose native session contains them in full ends.

use segue_core::brief::ToldTurn;
use segue_core::checkpoint::{
    Author, Checkpoint, Occasion, Version, extract, merge, newly_numbered, written,
};
use segue_core::id::{LegId, ProviderId, SessionId, TurnId};
use segue_core::number_format::figure;
use segue_core::policy::{is_due, is_worth_it};
use segue_core::session::{Decision, DecisionKind, Leg, LegEnd, Session, Turn, can_go_on};
use segue_store::NewVersion;

use crate::hold::Hold;
use crate::open::OpenTerms;
use crate::outside::Ahead;
use crate::tell::{SummedUp, told_at_first};
use crate::{Engine, EngineError};

/// Percent of the budget that a checkpoint may use, after role and context are subtracted. The remainder is for the
/// newest messages and for further turns.
const SHARE: u64 = 40;

/// Percent of the complete budget that a checkpoint may use in any case, even if role and context leave less. A
/// checkpoint that does not fit is stored nevertheless, and the brief contains as much of it as fits.
const LEAST: u64 = 10;

/// A compaction of a session, planned or done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compaction {
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
    pub room: u64,
}

impl Compaction {
    /// Describes the turns that the checkpoint replaces, with their number of tokens.
    #[must_use]
    pub fn stands_for(&self) -> String {
        let (turns, tokens) = (self.turns, figure(self.replaced));
        if self.covers > turns {
            format!("{turns} turn(s) and the checkpoint before, {tokens} tokens in all,")
        } else {
            format!("{turns} turn(s) of {tokens} tokens")
        }
    }
}

/// Result of a compaction that the user requested.
#[derive(Debug, Clone)]
pub struct Compacted {
    /// Version that was created; `None` if no turn follows the last version.
    pub made: Option<(Version, Compaction)>,
    /// Automatic decisions that segue made during the call.
    pub decisions: Vec<Decision>,
}

impl Engine {
    /// Plans a compaction of a session up to `head`, without storing it. `None` if no turn follows the last checkpoint.
    pub async fn compaction(
        &self,
        session: &Session,
        head: TurnId,
    ) -> Result<Option<Compaction>, EngineError> {
        let provider = &session.provider;
        self.compaction_for(session, head, provider).await
    }

    /// Plans a compaction with a checkpoint that fits the budget of `provider`. `None` if no turn follows the last
    /// checkpoint.
    pub(crate) async fn compaction_for(
        &self,
        session: &Session,
        head: TurnId,
        provider: &ProviderId,
    ) -> Result<Option<Compaction>, EngineError> {
        let room = self.room_of(session, provider).await?;
        let (before, covered) = match self.store.checkpoint_at(&session.id, head).await? {
            Some((version, checkpoint)) => (checkpoint, Some(version)),
            None => (Checkpoint::default(), None),
        };
        let covers = covered.as_ref().map_or(0, |version| version.covers);
        let since = self.turns_since(head, covers).await?;
        let Some(last) = since.last() else {
            return Ok(None);
        };
        let said: u64 = since.iter().map(tokens_of).sum();
        let count = &segue_tokens::count;
        let found = extract(&since, &session.project.cwd, count);
        let checkpoint = merge(&before, found, room, count);
        let given = self.last_item(&session.id).await?;
        let checkpoint = newly_numbered(&before, checkpoint, given);
        Ok(Some(Compaction {
            covers: last.n,
            turns: u32::try_from(since.len()).unwrap_or(u32::MAX),
            tokens: count(&written(&checkpoint)),
            replaced: covered.map_or(0, |version| version.tokens) + said,
            checkpoint,
            room,
        }))
    }

    /// Returns the highest number that an item of a session's checkpoints ever had; 0 if they never had an item.
    pub(crate) async fn last_item(&self, session: &SessionId) -> Result<u32, EngineError> {
        let versions = self.store.checkpoints(session).await?;
        let numbers = versions.iter().map(|version| version.last_item);
        Ok(numbers.max().unwrap_or(0))
    }

    /// Compacts a session that is not in use. Its next prompt starts a native session with the checkpoint in the brief.
    pub async fn compact(&self, session: &Session) -> Result<Compacted, EngineError> {
        // Turns made in the agent's own program are applied first, because segue does not read this native session
        // later.
        let ahead = Ahead::Prompt { strict: false };
        let (hold, decisions) = self.hold_idle(&session.id, ahead).await?;
        let made = self.compact_idle(&hold, &session.id).await;
        if made.as_ref().is_ok_and(Option::is_some) {
            // An agent that stays running still has the compacted turns in full, so it is ended.
            self.warm.end(&session.id).await;
        }
        hold.release().await;
        Ok(Compacted {
            made: made?,
            decisions,
        })
    }

    async fn compact_idle(
        &self,
        hold: &Hold,
        id: &SessionId,
    ) -> Result<Option<(Version, Compaction)>, EngineError> {
        let session = self.existing(id).await?;
        let Some(head) = session.head else {
            return Ok(None);
        };
        let legs = self.store.legs(id).await?;
        let open = legs.last().filter(|leg| leg.ended.is_none());
        let occasion = (Occasion::Asked, open.map(|leg| leg.id));
        let provider = &session.provider;
        self.compact_held(hold, &session, (head, provider), occasion)
            .await
    }

    /// Compacts a session under its lease, up to a turn and for the budget of a provider. Ends the given leg, if any.
    pub(crate) async fn compact_held(
        &self,
        hold: &Hold,
        session: &Session,
        (head, provider): (TurnId, &ProviderId),
        (why, leg): (Occasion, Option<LegId>),
    ) -> Result<Option<(Version, Compaction)>, EngineError> {
        let compaction = self.compaction_for(session, head, provider).await?;
        let Some(compaction) = compaction else {
            return Ok(None);
        };
        let at = (self.world.now)();
        let new = NewVersion {
            turn: head,
            covers: compaction.covers,
            checkpoint: compaction.checkpoint.clone(),
            tokens: compaction.tokens,
            replaced: compaction.replaced,
            by: Author::Record,
            why,
            read: 0,
            at,
        };
        let ends = leg.map(|leg| (leg, LegEnd::Compacted));
        let version = self.store.add_checkpoint(&hold.lease, new, ends).await?;
        let decision = Decision::new(DecisionKind::Compacted, told(&version, &compaction));
        self.store.note(&hold.lease, &decision, at).await?;
        Ok(Some((version, compaction)))
    }

    /// Compacts a session before a prompt, if the leg that could run the prompt has no room for it. This ends the leg.
    /// Returns the reason; `None` if no compaction is needed.
    ///
    /// In most cases, compaction happened when the last turn ended. It did not if that turn was interrupted or made
    /// outside segue, and it does not consider a prompt that is long itself.
    pub(crate) async fn compact_ahead(
        &self,
        terms: &OpenTerms<'_>,
        session: &Session,
        hold: &Hold,
        (leg, before): (Option<&Leg>, &[Turn]),
    ) -> Result<Option<String>, EngineError> {
        let again = terms.why_again.is_some() || terms.refused.is_some();
        let applies = self.policy.compaction.applies_to(session) && !terms.request.strict;
        let carries = |leg: &&Leg| leg.provider == *terms.provider && can_go_on(leg, before);
        let leg = leg.filter(|_| applies && !again).filter(carries);
        let Some((leg, head)) = leg.zip(before.last()) else {
            return Ok(None);
        };
        let size = match leg.held_tokens {
            Some(size) => size,
            None => self.held_by_record(session, head.id).await?,
        };
        let budget = self.budget_of(terms.provider).await?;
        let prompt = terms.sends;
        let fits = |prompt: u64| size.saturating_add(prompt) <= budget;
        // No text has more tokens than bytes, so most prompts need no exact count.
        let bytes = u64::try_from(prompt.len()).unwrap_or(u64::MAX);
        let fits = fits(bytes) || fits(segue_tokens::count(prompt));
        if fits && !self.is_due_in(session, head.id, (size, budget)).await? {
            return Ok(None);
        }
        let occasion = (Occasion::Budget, Some(leg.id));
        let up_to = (head.id, terms.provider);
        let compacted = self.compact_held(hold, session, up_to, occasion).await?;
        if let Some((version, compaction)) = compacted {
            return Ok(Some(done(&version, &compaction)));
        }
        // The turns were compacted for another agent before, but this leg still has them in full.
        let at = (self.world.now)();
        let end = LegEnd::Compacted;
        self.store.end_leg(&hold.lease, leg.id, end, at).await?;
        Ok(Some("what was said before was summed up".to_owned()))
    }

    /// Compacts the turns that do not fit in the brief of a new native session; `None` if no turn follows the last
    /// checkpoint.
    pub(crate) async fn compact_for(
        &self,
        hold: &Hold,
        session: &Session,
        up_to: (TurnId, &ProviderId),
    ) -> Result<Option<SummedUp>, EngineError> {
        let compacted = self.compact_held(hold, session, up_to, (Occasion::Told, None));
        let compacted = compacted.await?;
        Ok(compacted.map(|(_, compaction)| SummedUp::from(compaction)))
    }

    /// Estimates the minimum number of tokens in a native session from the record: its preamble, its checkpoint and all
    /// later turns. Used if no count is stored, for example because a turn ended before the vocabulary was loaded.
    pub(crate) async fn held_by_record(
        &self,
        session: &Session,
        head: TurnId,
    ) -> Result<u64, EngineError> {
        let found = self.store.checkpoint_at(&session.id, head).await?;
        let fixed = self.told_always(session).await?;
        let (told, covers) = match found {
            Some((version, _)) => {
                let budget = self.budget_of(&session.provider).await?;
                let told = told_at_first(&version, budget.saturating_sub(fixed));
                (told, version.covers)
            }
            None => (0, 0),
        };
        let since = self.turns_since(head, covers).await?;
        Ok(fixed + told + since.iter().map(tokens_of).sum::<u64>())
    }

    /// Returns `true` if the turns up to `head` are due for compaction, given the tokens in the native session and the
    /// budget.
    pub(crate) async fn is_due_in(
        &self,
        session: &Session,
        head: TurnId,
        (size, budget): (u64, u64),
    ) -> Result<bool, EngineError> {
        if !is_due(size, budget) {
            return Ok(false);
        }
        let found = self.store.checkpoint_at(&session.id, head).await?;
        let told = found.map_or(0, |(version, _)| version.tokens);
        let least = self.told_always(session).await?.saturating_add(told);
        Ok(is_worth_it(size, least, budget))
    }

    /// Returns the maximum number of tokens in a checkpoint for an agent.
    pub(crate) async fn room_of(
        &self,
        session: &Session,
        provider: &ProviderId,
    ) -> Result<u64, EngineError> {
        let budget = self.budget_of(provider).await?;
        let left = budget.saturating_sub(self.told_always(session).await?);
        Ok(room_within(left).max(share_of(budget, LEAST)))
    }

    /// Loads the turns after number `n`, up to `head`.
    async fn turns_since(&self, head: TurnId, n: u32) -> Result<Vec<ToldTurn>, EngineError> {
        let said = self.store.said_since(head, n).await?;
        Ok(self.told_turns(said).await)
    }
}

impl From<Compaction> for SummedUp {
    fn from(compaction: Compaction) -> Self {
        Self {
            tokens: compaction.tokens,
            covers: compaction.covers,
            checkpoint: compaction.checkpoint,
            untold: 0,
        }
    }
}

/// Returns the maximum number of tokens in a checkpoint, given the tokens that role and context leave.
pub(crate) fn room_within(left: u64) -> u64 {
    share_of(left, SHARE)
}

fn share_of(all: u64, share: u64) -> u64 {
    all.saturating_mul(share) / 100
}

fn tokens_of(turn: &ToldTurn) -> u64 {
    let tokens = turn
        .messages
        .iter()
        .map(|message| message.tokens.unwrap_or(0));
    tokens.sum()
}

/// Describes a compaction in one line for the user.
pub(crate) fn told(version: &Version, compaction: &Compaction) -> String {
    let done = done(version, compaction);
    format!("{done}; the next prompt opens a native session that is told it")
}

fn done(version: &Version, compaction: &Compaction) -> String {
    format!(
        "{} were summed up in checkpoint {} of {} tokens",
        compaction.stands_for(),
        version.n,
        figure(compaction.tokens)
    )
}
