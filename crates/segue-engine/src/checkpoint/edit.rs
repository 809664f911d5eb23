//! Checkpoints as the user views and changes them. No change ends a leg: it takes effect in the brief of the next
//! native session.

use std::collections::HashMap;

use segue_core::checkpoint::{
    Checkpoint, CheckpointReason, CheckpointVersion, ItemAuthor, assign_item_ids,
    render_checkpoint, total_saved_tokens,
};
use segue_core::id::{SessionId, TurnId};
use segue_core::number_format::format_count;
use segue_core::session::{Decision, Session, SessionStatus, can_resume_leg};
use segue_store::NewCheckpoint;

use crate::checkpoint::Compactor;
use crate::reconcile::{ReconcileMode, ReconciledSession};
use crate::session::lease::LeaseGuard;
use crate::token_count::count_tokens;
use crate::{CompactionError, Conversation};

/// Status of a version relative to the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionStatus {
    /// The active version, which the next brief contains.
    Active,
    /// A version on the path to the head that a later one replaced.
    Superseded,
    /// A version that covers turns which do not lead to the head.
    OffPath,
}

/// A version with its content and its status.
#[derive(Debug, Clone)]
pub struct CheckpointView {
    /// Metadata of the version.
    pub version: CheckpointVersion,
    /// Content of the version.
    pub checkpoint: Checkpoint,
    /// Status of the version relative to the head.
    pub status: VersionStatus,
    /// Usage of the session's budget.
    pub budget_usage: BudgetUsage,
    /// Tokens that the active version saves compared with the full text of all turns that it covers.
    pub total_saved: u64,
}

/// Usage of a session's budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetUsage {
    /// Tokens in the native session, by segue's count. If no native session can be resumed, the tokens of the next
    /// brief.
    pub used_tokens: u64,
    /// Whether a native session can be resumed.
    pub is_resumable: bool,
    /// Budget, in tokens.
    pub budget: u64,
    /// Whether automatic compaction is due in this session.
    pub is_compaction_due: bool,
}

/// Result of a change by the user.
#[derive(Debug, Clone)]
pub struct CheckpointChange {
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
    NoCheckpoint(SessionId),
    /// The session has checkpoints, but none on the path to the head.
    #[error("session {0} has no checkpoint at its current head")]
    NoneOnPath(SessionId),
    /// The session has no version with this number.
    #[error("session {session} has no checkpoint {n}")]
    Unknown {
        /// Id of the session.
        session: SessionId,
        /// Number of the version.
        n: u32,
    },
    /// The version covers turns that do not lead to the head.
    #[error("checkpoint {n} covers turns that are no longer part of session {session}")]
    OffPath {
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
    #[error("checkpoint {base} is out of date: checkpoint {active} replaced it")]
    Outdated {
        /// Number of the version that the user changed.
        base: u32,
        /// Number of the version that is active now.
        active: u32,
    },
    /// The checkpoint exceeds the maximum size.
    #[error(
        "the checkpoint has {} tokens; the budget allows at most {}",
        format_count(*tokens), format_count(*max_tokens)
    )]
    TooLarge {
        /// Tokens in the checkpoint.
        tokens: u64,
        /// Maximum number of tokens.
        max_tokens: u64,
    },
}

/// A change of the active version that the user requests.
#[derive(Debug, Clone)]
pub enum CheckpointEdit {
    /// Pin or unpin an item. Compaction never drops a pinned item.
    Pin {
        /// Number of the item.
        item: u32,
        /// Whether the item is pinned after the change.
        pinned: bool,
    },
    /// Make the version with this number active. The next brief contains in full the turns after those that it covers.
    Restore(u32),
    /// Replace the content by what the user wrote. Fails if another version than `base` is active now.
    Rewrite {
        /// Number of the version that the user started from.
        base: u32,
        /// Content that the user wrote.
        checkpoint: Checkpoint,
    },
}

impl Compactor {
    /// Returns all versions of a session with their status, oldest first.
    pub async fn checkpoint_versions(
        &self,
        session: &Session,
    ) -> Result<Vec<(CheckpointVersion, VersionStatus)>, CompactionError> {
        Ok(self.load_versions(session).await?.0)
    }

    /// Returns all versions of a session with their status, oldest first, and those on the path to the head, in the
    /// order of their turns.
    async fn load_versions(
        &self,
        session: &Session,
    ) -> Result<
        (
            Vec<(CheckpointVersion, VersionStatus)>,
            Vec<CheckpointVersion>,
        ),
        CompactionError,
    > {
        let all = self.context.store.checkpoints(&session.id).await?;
        let turns = self.context.store.turns(&session.id).await?;
        let path = turns.into_iter().map(|turn| (turn.id, turn.number));
        let path: HashMap<TurnId, u32> = path.collect();
        let on_path = versions_on_path(&all, &path);
        let active = on_path.last().map(|version| version.n);
        let status_of = |version: &CheckpointVersion| match active {
            Some(n) if n == version.n => VersionStatus::Active,
            _ if path.contains_key(&version.turn) => VersionStatus::Superseded,
            _ => VersionStatus::OffPath,
        };
        let statuses: Vec<VersionStatus> = all.iter().map(status_of).collect();
        Ok((all.into_iter().zip(statuses).collect(), on_path))
    }

    /// Returns version `n` of a session, or the active version if `n` is `None`.
    pub async fn checkpoint(
        &self,
        session: &Session,
        n: Option<u32>,
    ) -> Result<CheckpointView, CompactionError> {
        let (versions, on_path) = self.load_versions(session).await?;
        let requested = versions.iter().find(|(version, status)| match n {
            Some(n) => version.n == n,
            None => *status == VersionStatus::Active,
        });
        let Some((version, status)) = requested else {
            let session = session.id.clone();
            let error = match n {
                Some(n) => CheckpointError::Unknown { session, n },
                None if versions.is_empty() => CheckpointError::NoCheckpoint(session),
                None => CheckpointError::NoneOnPath(session),
            };
            return Err(error.into());
        };
        let (id, n) = (&session.id, version.n);
        let stored = self.context.store.checkpoint(id, n).await?;
        let (version, checkpoint) = stored.ok_or_else(|| CheckpointError::Unknown {
            session: id.clone(),
            n,
        })?;
        let status = *status;
        Ok(CheckpointView {
            version,
            checkpoint,
            status,
            budget_usage: self.budget_usage(session).await?,
            total_saved: total_saved_tokens(&on_path),
        })
    }

    /// Computes the budget usage of a session.
    pub async fn budget_usage(&self, session: &Session) -> Result<BudgetUsage, CompactionError> {
        let briefs = &self.briefs;
        let budget = briefs.provider_budget(&session.provider).await?;
        let legs = self.context.store.legs(&session.id).await?;
        let turns = self.context.store.turns(&session.id).await?;
        let resumable_leg = legs.last().filter(|leg| can_resume_leg(leg, &turns));
        let counted_tokens = match resumable_leg {
            Some(leg) => leg.estimated_tokens,
            None => self.estimate_next_brief_tokens(session).await,
        };
        let size = match (counted_tokens, session.head) {
            (Some(size), _) => size,
            (None, Some(head)) => briefs.estimate_native_tokens(session, head).await?,
            (None, None) => 0,
        };
        let policy = &self.context.settings.policy.compaction;
        let is_compaction_due = match session.head {
            Some(head) if policy.should_compact(session) => {
                let due = briefs.should_compact(session, head, (size, budget));
                due.await?
            }
            Some(_) | None => false,
        };
        Ok(BudgetUsage {
            used_tokens: size,
            is_resumable: resumable_leg.is_some(),
            budget,
            is_compaction_due,
        })
    }

    /// Returns the tokens of the brief for a new native session; `None` if no brief can be composed.
    async fn estimate_next_brief_tokens(&self, session: &Session) -> Option<u64> {
        let conversation = Conversation::Session(Box::new(session.clone()), SessionStatus::Idle);
        let preview = self.briefs.preview_brief(&conversation, None, "").await;
        Some(preview.ok()?.plan.brief.total_tokens())
    }

    /// Applies a change by the user. Returns the version that is active after it.
    pub async fn change_checkpoint(
        &self,
        session: &Session,
        edit: CheckpointEdit,
    ) -> Result<CheckpointChange, CompactionError> {
        let (id, mode) = (&session.id, ReconcileMode::Other);
        let ReconciledSession {
            guard,
            decisions,
            snapshot,
        } = self
            .reconciler
            .acquire_lease_and_reconcile(id, mode)
            .await?;
        let changing = self.change_checkpoint_under_lease(&guard, snapshot.session, edit);
        let changed = changing.await;
        guard.release().await;
        let is_new = changed?;
        let session = self.context.require_session(id).await?;
        Ok(CheckpointChange {
            view: self.checkpoint(&session, None).await?,
            is_new,
            decisions,
        })
    }

    /// Adds a version on the turn of the active one, unless the content stays the same. Returns `true` if it added one.
    async fn change_checkpoint_under_lease(
        &self,
        guard: &LeaseGuard,
        session: Session,
        edit: CheckpointEdit,
    ) -> Result<bool, CompactionError> {
        let stored = self.active_checkpoint(&session).await?;
        let Some((_, active_version, active_content)) = stored else {
            let error = self.no_active_checkpoint_error(session, &edit).await?;
            return Err(error.into());
        };
        let active = active_version.n;
        let mut new = NewCheckpoint {
            turn: active_version.turn,
            covers: active_version.covers,
            checkpoint: active_content.clone(),
            tokens: active_version.tokens,
            replaced: active_version.tokens,
            author: ItemAuthor::User,
            reason: CheckpointReason::Pinned,
            last_read_turn: 0,
            at: self.context.now(),
        };
        match edit {
            CheckpointEdit::Pin { item, pinned } => {
                let checkpoint = active_content.with_item_pinned(item, pinned);
                new.checkpoint = checkpoint.ok_or_else(|| CheckpointError::NoItem {
                    session: session.id.clone(),
                    n: active,
                    item,
                })?;
            }
            CheckpointEdit::Restore(n) => {
                let restored = self.checkpoint(&session, Some(n)).await?;
                if restored.status == VersionStatus::OffPath {
                    let session = session.id;
                    return Err(CheckpointError::OffPath { session, n }.into());
                }
                new = NewCheckpoint {
                    covers: restored.version.covers,
                    checkpoint: restored.checkpoint,
                    tokens: restored.version.tokens,
                    replaced: restored.version.replaced,
                    reason: CheckpointReason::Restored,
                    ..new
                };
            }
            CheckpointEdit::Rewrite { base, checkpoint } => {
                if base != active {
                    return Err(CheckpointError::Outdated { base, active }.into());
                }
                let briefs = &self.briefs;
                let budget = briefs.checkpoint_budget(&session, &session.provider);
                let max_tokens = budget.await?;
                let last_item = briefs.last_item_id(&session.id).await?;
                let checkpoint = assign_item_ids(&active_content, checkpoint, last_item);
                let tokens = count_tokens(render_checkpoint(&checkpoint)).await;
                // A version that exceeds the maximum already may shrink in several changes.
                if tokens > max_tokens && tokens > active_version.tokens {
                    return Err(CheckpointError::TooLarge { tokens, max_tokens }.into());
                }
                new = NewCheckpoint {
                    checkpoint,
                    tokens,
                    reason: CheckpointReason::Edited,
                    ..new
                };
            }
        }
        if new.checkpoint == active_content && new.covers == active_version.covers {
            return Ok(false);
        }
        self.context.store.add_checkpoint(&guard.lease, new).await?;
        Ok(true)
    }

    /// Creates the error for an edit of a session without an active checkpoint. The error of a restore distinguishes an
    /// unknown number from a version off the path.
    async fn no_active_checkpoint_error(
        &self,
        session: Session,
        edit: &CheckpointEdit,
    ) -> Result<CheckpointError, CompactionError> {
        let n = match edit {
            CheckpointEdit::Restore(n) => Some(*n),
            CheckpointEdit::Pin { .. } | CheckpointEdit::Rewrite { .. } => None,
        };
        self.checkpoint(&session, n).await?;
        let session = session.id;
        Ok(match n {
            Some(n) => CheckpointError::OffPath { session, n },
            None => CheckpointError::NoCheckpoint(session),
        })
    }
}

/// Returns the versions on the path to the head, ordered by turn and then by number. The last one is active.
pub(crate) fn versions_on_path(
    all: &[CheckpointVersion],
    path: &HashMap<TurnId, u32>,
) -> Vec<CheckpointVersion> {
    let mut on_path: Vec<CheckpointVersion> = all.to_vec();
    on_path.retain(|version| path.contains_key(&version.turn));
    on_path.sort_by_key(|version| (path.get(&version.turn), version.n));
    on_path
}
