//! Compaction: what was said becomes a checkpoint, and the native session that holds all of it is over.

use segue_core::{
    Author, Checkpoint, Decision, DecisionKind, Leg, LegEnd, LegId, Occasion, Session, SessionId,
    ToldTurn, Turn, TurnId, Version, can_go_on, extract, is_due, merge, written,
};
use segue_store::NewVersion;

use crate::hold::Hold;
use crate::open::OpenTerms;
use crate::outside::Ahead;
use crate::tell::{SummedUp, told_at_first};
use crate::{Engine, EngineError};

/// How much of the budget a checkpoint may take, of 100; the rest is for the newest messages, and to go on.
pub(crate) const SHARE: u64 = 40;

/// What a session comes to, now or once it is compacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compaction {
    /// What it comes to.
    pub checkpoint: Checkpoint,
    /// The number of the last turn that is summed up.
    pub covers: u32,
    /// How many turns are summed up that were not before.
    pub turns: u32,
    /// How many tokens it takes to tell it.
    pub tokens: u64,
    /// How many tokens that stands for.
    pub replaced: u64,
    /// How many tokens a checkpoint may have.
    pub room: u64,
}

impl Compaction {
    /// What it stands for, with how many tokens that has.
    #[must_use]
    pub fn stands_for(&self, tokens: &str) -> String {
        let turns = self.turns;
        if self.covers > turns {
            format!("{turns} turn(s) and the checkpoint before, {tokens} tokens in all,")
        } else {
            format!("{turns} turn(s) of {tokens} tokens")
        }
    }
}

/// What came of a compaction that was asked for.
#[derive(Debug, Clone)]
pub struct Compacted {
    /// The version that was made; none if nothing was said since the last one.
    pub made: Option<(Version, Compaction)>,
    /// What segue decided by itself on the way.
    pub decisions: Vec<Decision>,
}

impl Engine {
    /// What a session would come to if it were compacted now. None if nothing was said since that was done last.
    pub async fn compaction(
        &self,
        session: &Session,
        head: TurnId,
    ) -> Result<Option<Compaction>, EngineError> {
        let budget = self.budget_of(&session.provider).await?;
        let room = room_within(budget);
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
        Ok(Some(Compaction {
            covers: last.n,
            turns: u32::try_from(since.len()).unwrap_or(u32::MAX),
            tokens: count(&written(&checkpoint)),
            replaced: covered.map_or(0, |version| version.tokens) + said,
            checkpoint,
            room,
        }))
    }

    /// Compacts a session that nobody is at work in: its next prompt opens a native session that is told the checkpoint.
    pub async fn compact(&self, session: &Session) -> Result<Compacted, EngineError> {
        // What was said in the agent's own program is taken in before, since nobody looks there afterwards.
        let ahead = Ahead::Prompt { strict: false };
        let (hold, decisions) = self.hold_idle(&session.id, ahead).await?;
        let made = self.compact_idle(&hold, &session.id).await;
        if made.as_ref().is_ok_and(Option::is_some) {
            // What it knows in full is over.
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
        self.compact_held(hold, &session, head, occasion).await
    }

    /// Compacts a session that is ours, up to a turn, and ends a leg that is over by it.
    pub(crate) async fn compact_held(
        &self,
        hold: &Hold,
        session: &Session,
        head: TurnId,
        (why, leg): (Occasion, Option<LegId>),
    ) -> Result<Option<(Version, Compaction)>, EngineError> {
        let Some(compaction) = self.compaction(session, head).await? else {
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
            at,
        };
        let ends = leg.map(|leg| (leg, LegEnd::Compacted));
        let version = self.store.add_checkpoint(&hold.lease, new, ends).await?;
        let decision = Decision::new(DecisionKind::Compacted, told(&version, &compaction));
        self.store.note(&hold.lease, &decision, at).await?;
        Ok(Some((version, compaction)))
    }

    /// Sums up what was said where a leg that could carry the prompt holds too much for that, which ends it; says why.
    ///
    /// Mostly that was done when the last turn ended. Not if that was cut off or made elsewhere, and not for a prompt that
    /// is long itself.
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
        let prompt = &terms.request.prompt;
        let fits = |prompt: u64| size.saturating_add(prompt) <= budget;
        // No text has more tokens than bytes, so that most prompts need no count.
        let bytes = u64::try_from(prompt.len()).unwrap_or(u64::MAX);
        if !is_due(size, budget) && (fits(bytes) || fits(segue_tokens::count(prompt))) {
            return Ok(None);
        }
        let occasion = (Occasion::Budget, Some(leg.id));
        let compacted = self.compact_held(hold, session, head.id, occasion).await?;
        Ok(compacted.map(|(version, compaction)| done(&version, &compaction)))
    }

    /// Sums up what a new native session can't be told in full.
    pub(crate) async fn compact_for(
        &self,
        hold: &Hold,
        session: &Session,
        head: TurnId,
    ) -> Result<Option<SummedUp>, EngineError> {
        let compacted = self.compact_held(hold, session, head, (Occasion::Told, None));
        let compacted = compacted.await?;
        Ok(compacted.map(|(_, compaction)| SummedUp::from(compaction)))
    }

    /// How many tokens a native session holds at least about, by the record: what it was told first, and all that was said
    /// since. For where nobody counted, as where it was over before there was something to count with.
    pub(crate) async fn held_by_record(
        &self,
        session: &Session,
        head: TurnId,
    ) -> Result<u64, EngineError> {
        let found = self.store.checkpoint_at(&session.id, head).await?;
        let (told, covers) = match found {
            Some((version, _)) => {
                let budget = self.budget_of(&session.provider).await?;
                (told_at_first(&version, budget), version.covers)
            }
            None => (0, 0),
        };
        let first = self.told_first(session, false).await?;
        let first = first.map_or(0, |first| first.tokens());
        let since = self.turns_since(head, covers).await?;
        Ok(first + told + since.iter().map(tokens_of).sum::<u64>())
    }

    /// What was said after a turn with a number, up to another turn.
    async fn turns_since(&self, head: TurnId, n: u32) -> Result<Vec<ToldTurn>, EngineError> {
        let said = self.store.said_since(head, n).await?;
        Ok(self.told_turns(said).await)
    }
}

impl From<Compaction> for SummedUp {
    fn from(compaction: Compaction) -> Self {
        Self {
            text: written(&compaction.checkpoint),
            tokens: compaction.tokens,
            covers: compaction.covers,
        }
    }
}

/// How many tokens a checkpoint may have.
pub(crate) fn room_within(budget: u64) -> u64 {
    budget * SHARE / 100
}

fn tokens_of(turn: &ToldTurn) -> u64 {
    let tokens = turn
        .messages
        .iter()
        .map(|message| message.tokens.unwrap_or(0));
    tokens.sum()
}

/// What was done, in one line.
pub(crate) fn told(version: &Version, compaction: &Compaction) -> String {
    let done = done(version, compaction);
    format!("{done}; the next prompt opens a native session that is told it")
}

fn done(version: &Version, compaction: &Compaction) -> String {
    format!(
        "{} were summed up in checkpoint {} of {} tokens",
        compaction.stands_for(&compaction.replaced.to_string()),
        version.n,
        compaction.tokens
    )
}
