//! Operations on sessions other than turns.

use segue_core::id::SessionId;
use segue_core::scope::Purpose;
use segue_core::session::{
    Decision, Effects, Project, Session, Title, Turn, TurnState, plan_fork, plan_revert,
};
use segue_store::{ForkPoint, StoreError, TagChange};

use crate::reconcile::{ReconcileMode, ReconciledSession};
use crate::session::SessionEditor;
use crate::session::revert::{DetachedTurns, count_turns};
use crate::{Library, SessionError};

/// Result of a revert, or of undoing one.
#[derive(Debug, Clone)]
pub struct RevertOutcome {
    /// The session after the change.
    pub session: Session,
    /// Number of turns before the change.
    pub turns_before: u32,
    /// File changes of the turns that were dropped. The files stay as they are.
    pub effects: Effects,
    /// Turns that an undo detached. `None` if it detached none.
    pub detached_turns: Option<DetachedTurns>,
    /// Decisions that segue made during the call.
    pub decisions: Vec<Decision>,
}

/// Result of a fork.
#[derive(Debug, Clone)]
pub struct ForkOutcome {
    /// The new session.
    pub session: Session,
    /// Session that was forked.
    pub from: SessionId,
    /// Purpose of the forked session. The new session does not get it, so that a lookup still finds the forked one.
    pub omitted_purpose: Option<Purpose>,
    /// Decisions that segue made during the call.
    pub decisions: Vec<Decision>,
}

impl SessionEditor {
    /// Sets the title that the user chose. The time of the last activity does not change.
    pub async fn rename_session(&self, id: &SessionId, title: &Title) -> Result<(), SessionError> {
        Ok(self.context.store.rename_session(id, title).await?)
    }

    /// Changes the tags of a session, and returns the changed session.
    pub async fn change_tags(
        &self,
        id: &SessionId,
        change: TagChange,
    ) -> Result<Session, SessionError> {
        Ok(self.context.store.change_tags(id, change).await?)
    }

    /// Reverts a session to turn `to`. The turns after it stay on record.
    pub async fn revert_session(
        &self,
        session: &Session,
        to: i64,
    ) -> Result<RevertOutcome, SessionError> {
        let ReconciledSession {
            guard,
            mut decisions,
            ..
        } = self
            .reconciler
            .acquire_lease_and_reconcile(&session.id, ReconcileMode::Other)
            .await?;
        let outcome = async {
            let turns = self.context.store.turns(&session.id).await?;
            let count = count_turns(&turns);
            plan_revert(count, to)?;
            let target = turns.iter().find(|turn| i64::from(turn.number) == to);
            let target = target.ok_or_else(|| StoreError::NoTurn(session.id.clone()))?;
            let dropped = turns.iter().filter(|turn| turn.number > target.number);
            let effects = self.collect_turn_effects(dropped, session).await?;
            let at = self.context.now();
            let session = self
                .context
                .store
                .revert_head(&guard.lease, target.id, at)
                .await?;
            let session = self
                .reopen_leg_at_head(&guard.lease, session, &mut decisions)
                .await?;
            Ok(RevertOutcome {
                session,
                turns_before: count,
                effects,
                detached_turns: None,
                decisions,
            })
        }
        .await;
        guard.release().await;
        outcome
    }

    /// Undoes the last revert. Turns that were made since then are detached, and stay on record.
    pub async fn undo_revert(&self, session: &Session) -> Result<RevertOutcome, SessionError> {
        let ReconciledSession {
            guard,
            mut decisions,
            ..
        } = self
            .reconciler
            .acquire_lease_and_reconcile(&session.id, ReconcileMode::Other)
            .await?;
        let outcome = async {
            let before = self.context.store.turns(&session.id).await?;
            let session = self
                .context
                .store
                .undo_revert(&guard.lease, self.context.now())
                .await?;
            let after = self.context.store.turns(&session.id).await?;
            let is_detached = |turn: &&Turn| !after.iter().any(|remaining| remaining.id == turn.id);
            let detached: Vec<&Turn> = before.iter().filter(is_detached).collect();
            let effects = self
                .collect_turn_effects(detached.iter().copied(), &session)
                .await?;
            let moves = self.context.store.lineage(&session.id).await?.moves;
            let undo_move = moves.last().filter(|_| !detached.is_empty());
            let detached_turns = undo_move.map(|last| DetachedTurns {
                turns: u32::try_from(detached.len()).unwrap_or(u32::MAX),
                head_move: last.number,
            });
            let session = self
                .reopen_leg_at_head(&guard.lease, session, &mut decisions)
                .await?;
            Ok(RevertOutcome {
                session,
                turns_before: count_turns(&before),
                effects,
                detached_turns,
                decisions,
            })
        }
        .await;
        guard.release().await;
        outcome
    }

    /// Forks a session after turn `at`, by default the last turn that has ended. The fork belongs to `project`.
    pub async fn fork_session(
        &self,
        session: &Session,
        at: Option<i64>,
        project: &Project,
    ) -> Result<ForkOutcome, SessionError> {
        self.fork_before_move(session, at, None, project).await
    }

    /// Forks a session like [`Self::fork_session`]. With `before_head_move`, the turns are those that led to the head
    /// before that move.
    pub async fn fork_before_move(
        &self,
        session: &Session,
        at: Option<i64>,
        before_head_move: Option<i64>,
        project: &Project,
    ) -> Result<ForkOutcome, SessionError> {
        let (session, decisions) = self.reconciler.reconcile_if_idle(session.clone()).await?;
        let (last, before_head_move) = match before_head_move {
            None => {
                let turns = self.context.store.turns(&session.id).await?;
                let mut newest_first = turns.iter().rev();
                let last = newest_first.find(|turn| turn.state != TurnState::Running);
                (last.map_or(0, |turn| turn.number), None)
            }
            Some(requested) => {
                let moves = self.context.store.lineage(&session.id).await?.moves;
                let head_move = moves
                    .iter()
                    .find(|candidate| i64::from(candidate.number) == requested);
                let count = u32::try_from(moves.len()).unwrap_or(u32::MAX);
                let head_move = head_move.ok_or(SessionError::NoHeadMove {
                    requested,
                    moves: count,
                })?;
                (head_move.from, Some(head_move.number))
            }
        };
        let turn = plan_fork(last, at)?;
        let title = session.title.with_suffix("fork");
        let point = ForkPoint {
            session: session.id.clone(),
            turn,
            before_head_move,
        };
        loop {
            let new = self
                .context
                .new_session(project, &title, None, &session.provider);
            match self.context.store.fork_session(new, point.clone()).await {
                Err(StoreError::SessionExists(_)) => {}
                outcome => {
                    return Ok(ForkOutcome {
                        session: outcome?,
                        from: session.id,
                        omitted_purpose: session.purpose,
                        decisions,
                    });
                }
            }
        }
    }

    /// Deletes a session from the store. Native sessions are not deleted.
    pub async fn delete_session(&self, session: &Session) -> Result<Vec<Decision>, SessionError> {
        let (guard, takeover) = self.context.leases.acquire_lease(&session.id).await?;
        self.context.agent_pool.end_agent(&session.id).await;
        let deleted = self.context.store.delete_session(&guard.lease).await;
        guard.release().await;
        deleted?;
        self.library
            .remove_session_from_index(&session.id, Library::INDEX_LOCK_TIMEOUT)
            .await;
        Ok(takeover.into_iter().collect())
    }
}
