//! Checkpoints as a person sees and changes them. None of this ends a leg: what is changed is told to the next native
//! session.

use std::collections::HashSet;

use segue_core::{
    Author, Checkpoint, Decision, Occasion, Session, SessionId, SessionStatus, TurnId, Version,
    can_go_on, figure, newly_numbered, total_saved, written,
};
use segue_store::NewVersion;

use crate::hold::Hold;
use crate::outside::Ahead;
use crate::{Conversation, Engine, EngineError};

/// Where a version stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It is what the next native session is told.
    InForce,
    /// A later one took its place.
    Earlier,
    /// It sums up turns that do not lead to where the session is now.
    Elsewhere,
}

/// A version, and all that is to be known about it at a glance.
#[derive(Debug, Clone)]
pub struct CheckpointView {
    /// The version.
    pub version: Version,
    /// What it says.
    pub checkpoint: Checkpoint,
    /// Where it stands.
    pub place: Place,
    /// How full the budget is.
    pub fullness: Fullness,
    /// How many tokens the version in force saves in all.
    pub total_saved: u64,
}

/// How full the budget of a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fullness {
    /// How many tokens the native session holds, by our count; where there is none that could go on, what the next one
    /// would be told.
    pub held: u64,
    /// Whether there is a native session that goes on.
    pub is_open: bool,
    /// The budget.
    pub budget: u64,
    /// Whether so much is summed up by itself in this session.
    pub is_due: bool,
}

/// A change that a person made.
#[derive(Debug, Clone)]
pub struct Changed {
    /// What is in force by it.
    pub view: CheckpointView,
    /// Whether anything is different from before.
    pub is_new: bool,
    /// What segue decided by itself on the way.
    pub decisions: Vec<Decision>,
}

/// Why a checkpoint can't be shown or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// There is none.
    #[error("session {0} has no checkpoint yet")]
    None(SessionId),
    /// There is none of the turns that lead to where the session is now.
    #[error("session {0} has no checkpoint where it is now")]
    NoneHere(SessionId),
    /// There is no version with that number.
    #[error("session {session} has no checkpoint {n}")]
    Unknown {
        /// The session.
        session: SessionId,
        /// The number.
        n: u32,
    },
    /// It is about other turns.
    #[error("checkpoint {n} sums up turns that do not lead to where session {session} is now")]
    Elsewhere {
        /// The session.
        session: SessionId,
        /// The number.
        n: u32,
    },
    /// There is no such item.
    #[error("checkpoint {n} has no item {item}")]
    NoItem {
        /// The session.
        session: SessionId,
        /// The number of the checkpoint.
        n: u32,
        /// The number of the item.
        item: u32,
    },
    /// Somebody made another version meanwhile.
    #[error("checkpoint {now} was made meanwhile, and the change is one of checkpoint {then}")]
    Outdated {
        /// What was changed.
        then: u32,
        /// What is in force.
        now: u32,
    },
    /// It is too long.
    #[error("a checkpoint of {} tokens leaves too little of the budget: it may have {}", figure(*tokens), figure(*room))]
    TooLarge {
        /// How many tokens it has.
        tokens: u64,
        /// How many it may have.
        room: u64,
    },
}

/// What a person wants of a checkpoint.
enum Wish {
    Pin { item: u32, pinned: bool },
    Restore(u32),
    Write { then: u32, checkpoint: Checkpoint },
}

impl Engine {
    /// All versions that a session has, oldest first.
    pub async fn versions(&self, session: &Session) -> Result<Vec<(Version, Place)>, EngineError> {
        let all = self.store.checkpoints(&session.id).await?;
        let way = self.way(session).await?;
        let in_force = leading(&all, &way).last().map(|version| version.n);
        let place = |version: &Version| match in_force {
            Some(n) if n == version.n => Place::InForce,
            _ if way.contains(&version.turn) => Place::Earlier,
            _ => Place::Elsewhere,
        };
        Ok(all
            .into_iter()
            .map(|version| {
                let place = place(&version);
                (version, place)
            })
            .collect())
    }

    /// One version of a session; the one in force, if no number is given.
    pub async fn checkpoint(
        &self,
        session: &Session,
        n: Option<u32>,
    ) -> Result<CheckpointView, EngineError> {
        let versions = self.versions(session).await?;
        let wanted = versions.iter().find(|(version, place)| match n {
            Some(n) => version.n == n,
            None => *place == Place::InForce,
        });
        let Some((version, place)) = wanted else {
            return Err(match n {
                None if !versions.is_empty() => CheckpointError::NoneHere(session.id.clone()),
                _ => missing(session, n),
            }
            .into());
        };
        let found = self.store.checkpoint(&session.id, version.n).await?;
        let (version, checkpoint) = found.ok_or_else(|| missing(session, Some(version.n)))?;
        let way = self.way(session).await?;
        let all: Vec<Version> = versions
            .iter()
            .map(|(version, _)| version.clone())
            .collect();
        Ok(CheckpointView {
            version,
            checkpoint,
            place: *place,
            fullness: self.fullness(session).await?,
            total_saved: total_saved(&leading(&all, &way)),
        })
    }

    /// How full the budget of a session is.
    pub async fn fullness(&self, session: &Session) -> Result<Fullness, EngineError> {
        let budget = self.budget_of(&session.provider).await?;
        let legs = self.store.legs(&session.id).await?;
        let turns = self.store.turns(&session.id).await?;
        let open = legs.last().filter(|leg| can_go_on(leg, &turns));
        let known = match open {
            Some(leg) => leg.held_tokens,
            None => self.told_next(session).await,
        };
        let size = match (known, session.head) {
            (Some(size), _) => size,
            (None, Some(head)) => self.held_by_record(session, head).await?,
            (None, None) => 0,
        };
        let applies = self.policy.compaction.applies_to(session);
        let is_due = match session.head.filter(|_| applies) {
            Some(head) => self.is_due_in(session, head, (size, budget)).await?,
            None => false,
        };
        Ok(Fullness {
            held: size,
            is_open: open.is_some(),
            budget,
            is_due,
        })
    }

    /// How many tokens a new native session would be told; none if it could not be told anything.
    async fn told_next(&self, session: &Session) -> Option<u64> {
        let conversation = Conversation::Session(Box::new(session.clone()), SessionStatus::Idle);
        let preview = self.preview(&conversation, None, "").await.ok()?;
        Some(preview.brief.total_tokens())
    }

    /// Has an item of the checkpoint in force stay whatever happens, or no longer.
    pub async fn pin(
        &self,
        session: &Session,
        item: u32,
        pinned: bool,
    ) -> Result<Changed, EngineError> {
        self.change(session, Wish::Pin { item, pinned }).await
    }

    /// Has an earlier version count again. What was said after the turns that it sums up is told in full.
    pub async fn restore_checkpoint(
        &self,
        session: &Session,
        n: u32,
    ) -> Result<Changed, EngineError> {
        self.change(session, Wish::Restore(n)).await
    }

    /// Puts what a person wrote in the place of the checkpoint in force, which was `then` when they began.
    pub async fn write_checkpoint(
        &self,
        session: &Session,
        then: u32,
        checkpoint: Checkpoint,
    ) -> Result<Changed, EngineError> {
        let wish = Wish::Write { then, checkpoint };
        self.change(session, wish).await
    }

    async fn change(&self, session: &Session, wish: Wish) -> Result<Changed, EngineError> {
        let (hold, decisions) = self.hold_idle(&session.id, Ahead::Else).await?;
        let changed = self.change_held(&hold, &session.id, wish).await;
        hold.release().await;
        let is_new = changed?;
        let session = self.existing(&session.id).await?;
        Ok(Changed {
            view: self.checkpoint(&session, None).await?,
            is_new,
            decisions,
        })
    }

    /// Makes a version on the turn of the one in force, unless it would say the same.
    async fn change_held(
        &self,
        hold: &Hold,
        id: &SessionId,
        wish: Wish,
    ) -> Result<bool, EngineError> {
        let session = self.existing(id).await?;
        let before = match session.head {
            Some(head) => self.store.checkpoint_at(id, head).await?,
            None => None,
        };
        let Some((before, now)) = before else {
            // One that is asked for by its number is there, or is not.
            let n = match wish {
                Wish::Restore(n) => Some(self.checkpoint(&session, Some(n)).await?.version.n),
                Wish::Pin { .. } | Wish::Write { .. } => {
                    self.checkpoint(&session, None).await?;
                    None
                }
            };
            let session = session.id;
            let error = n.map_or(CheckpointError::None(session.clone()), |n| {
                CheckpointError::Elsewhere { session, n }
            });
            return Err(error.into());
        };
        let at = (self.world.now)();
        let mut new = NewVersion {
            turn: before.turn,
            covers: before.covers,
            checkpoint: now.clone(),
            tokens: before.tokens,
            replaced: before.tokens,
            by: Author::Person,
            why: Occasion::Pinned,
            read: 0,
            at,
        };
        match wish {
            Wish::Pin { item, pinned } => {
                let n = before.n;
                let checkpoint = now.pinned(item, pinned);
                new.checkpoint = checkpoint.ok_or_else(|| CheckpointError::NoItem {
                    session: session.id.clone(),
                    n,
                    item,
                })?;
            }
            Wish::Restore(n) => {
                let old = self.checkpoint(&session, Some(n)).await?;
                if old.place == Place::Elsewhere {
                    let session = session.id;
                    return Err(CheckpointError::Elsewhere { session, n }.into());
                }
                new.checkpoint = old.checkpoint;
                (new.covers, new.tokens) = (old.version.covers, old.version.tokens);
                (new.replaced, new.why) = (old.version.replaced, Occasion::Restored);
            }
            Wish::Write { then, checkpoint } => {
                if then != before.n {
                    let now = before.n;
                    return Err(CheckpointError::Outdated { then, now }.into());
                }
                let room = self.room_of(&session, &session.provider).await?;
                let last = self.last_item(&session.id).await?;
                let checkpoint = newly_numbered(&now, checkpoint, last);
                let tokens = segue_tokens::count(&written(&checkpoint));
                // One that is too large already may be made smaller step by step.
                if tokens > room && tokens > before.tokens {
                    return Err(CheckpointError::TooLarge { tokens, room }.into());
                }
                (new.checkpoint, new.tokens, new.why) = (checkpoint, tokens, Occasion::Edited);
            }
        }
        if new.checkpoint == now && new.covers == before.covers {
            return Ok(false);
        }
        self.store.add_checkpoint(&hold.lease, new, None).await?;
        Ok(true)
    }

    /// The turns that lead to the head.
    async fn way(&self, session: &Session) -> Result<HashSet<TurnId>, EngineError> {
        let turns = self.store.turns(&session.id).await?;
        Ok(turns.into_iter().map(|turn| turn.id).collect())
    }
}

/// The versions on the way to the head, in the order of their turns and then of their numbers: the last one is in force.
pub(crate) fn leading(all: &[Version], way: &HashSet<TurnId>) -> Vec<Version> {
    let mut leading: Vec<Version> = all.to_vec();
    leading.retain(|version| way.contains(&version.turn));
    leading.sort_by_key(|version| (version.turn.0, version.n));
    leading
}

fn missing(session: &Session, n: Option<u32>) -> CheckpointError {
    let session = session.id.clone();
    match n {
        Some(n) => CheckpointError::Unknown { session, n },
        None => CheckpointError::None(session),
    }
}
