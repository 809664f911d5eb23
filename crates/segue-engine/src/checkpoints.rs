//! Checkpoints as the user views and changes them. No change ends a leg: it takes effect in the brief of the next
//! native session.

use std::collections::HashSet;

use segue_core::checkpoint::{
    Author, Checkpoint, Occasion, Version, newly_numbered, total_saved, written,
};
use segue_core::id::{SessionId, TurnId};
use segue_core::number_format::figure;
use segue_core::session::{Decision, Session, SessionStatus, can_go_on};
use segue_store::NewVersion;

use crate::hold::Hold;
use crate::outside::Ahead;
use crate::{Conversation, Engine, EngineError};

/// Status of a version relative to the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The active version, which the next brief contains.
    InForce,
    /// A version on the path to the head that a later one replaced.
    Earlier,
    /// A version that covers turns which do not lead to the head.
    Elsewhere,
}

/// A version with its content and its status.
#[derive(Debug, Clone)]
pub struct CheckpointView {
    /// Metadata of the version.
    pub version: Version,
    /// Content of the version.
    pub checkpoint: Checkpoint,
    /// Status of the version relative to the head.
    pub place: Place,
    /// Usage of the session's budget.
    pub fullness: Fullness,
    /// Tokens that the active version saves compared with the full text of all turns that it covers.
    pub total_saved: u64,
}

/// Usage of a session's budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fullness {
    /// Tokens in the native session, by segue's count. If no native session can be resumed, the tokens of the next
    /// brief.
    pub held: u64,
    /// Whether a native session can be resumed.
    pub is_open: bool,
    /// Budget, in tokens.
    pub budget: u64,
    /// Whether automatic compaction is due in this session.
    pub is_due: bool,
}

/// Result of a change by the user.
#[derive(Debug, Clone)]
pub struct Changed {
    /// Version that is active after the change.
    pub view: CheckpointView,
    /// Whether the change created a version.
    pub is_new: bool,
    /// Automatic decisions that segue made during the call.
    pub decisions: Vec<Decision>,
}

/// Reason why a checkpoint cannot be shown or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// The session has no checkpoint.
    #[error("session {0} has no checkpoint yet")]
    None(SessionId),
    /// The session has checkpoints, but none on the path to the head.
    #[error("session {0} has no checkpoint where it is now")]
    NoneHere(SessionId),
    /// The session has no version with this number.
    #[error("session {session} has no checkpoint {n}")]
    Unknown {
        /// Id of the session.
        session: SessionId,
        /// Number of the version.
        n: u32,
    },
    /// The version covers turns that do not lead to the head.
    #[error("checkpoint {n} sums up turns that do not lead to where session {session} is now")]
    Elsewhere {
        /// Id of the session.
        session: SessionId,
        /// Number of the version.
        n: u32,
    },
    /// The version has no item with this number.
    #[error("checkpoint {n} has no item {item}")]
    NoItem {
        /// Id of the session.
        session: SessionId,
        /// Number of the version.
        n: u32,
        /// Number of the item.
        item: u32,
    },
    /// The change is out of date: a different version became active after the user began it.
    #[error("checkpoint {now} was made meanwhile, and the change is one of checkpoint {then}")]
    Outdated {
        /// Number of the version that the user changed.
        then: u32,
        /// Number of the version that is active now.
        now: u32,
    },
    /// The checkpoint exceeds the maximum size.
    #[error("a checkpoint of {} tokens leaves too little of the budget: it may have {}", figure(*tokens), figure(*room))]
    TooLarge {
        /// Tokens in the checkpoint.
        tokens: u64,
        /// Maximum number of tokens.
        room: u64,
    },
}

/// A change that the user requests.
enum Wish {
    Pin { item: u32, pinned: bool },
    Restore(u32),
    Write { then: u32, checkpoint: Checkpoint },
}

impl Engine {
    /// Returns all versions of a session with their status, oldest first.
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

    /// Returns version `n` of a session, or the active version if `n` is `None`.
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

    /// Computes the budget usage of a session.
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

    /// Returns the tokens of the brief for a new native session; `None` if no brief can be composed.
    async fn told_next(&self, session: &Session) -> Option<u64> {
        let conversation = Conversation::Session(Box::new(session.clone()), SessionStatus::Idle);
        let preview = self.preview(&conversation, None, "").await.ok()?;
        Some(preview.brief.total_tokens())
    }

    /// Pins or unpins an item of the active version. Compaction never drops a pinned item.
    pub async fn pin(
        &self,
        session: &Session,
        item: u32,
        pinned: bool,
    ) -> Result<Changed, EngineError> {
        self.change(session, Wish::Pin { item, pinned }).await
    }

    /// Makes an earlier version active. The next brief contains in full the turns after those that it covers.
    pub async fn restore_checkpoint(
        &self,
        session: &Session,
        n: u32,
    ) -> Result<Changed, EngineError> {
        self.change(session, Wish::Restore(n)).await
    }

    /// Replaces the active version by a checkpoint that the user wrote. `then` is the number of the version that the
    /// user started from; fails if another version is active now.
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

    /// Adds a version on the turn of the active one, unless the content stays the same. Returns `true` if it added one.
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
            // The error of a restore distinguishes an unknown number from a version off the path.
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
                // A version that exceeds the maximum already may shrink in several changes.
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

    /// Returns the turns that lead to the head.
    async fn way(&self, session: &Session) -> Result<HashSet<TurnId>, EngineError> {
        let turns = self.store.turns(&session.id).await?;
        Ok(turns.into_iter().map(|turn| turn.id).collect())
    }
}

/// Returns the versions on the path to the head, ordered by turn and then by number. The last one is active.
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
