//! Operations on sessions other than turns.

use segue_core::id::SessionId;
use segue_core::scope::Purpose;
use segue_core::session::{
    Decision, Effects, HeadMove, Project, Session, Title, Turn, TurnState, plan_fork, plan_revert,
};
use segue_store::{ForkPoint, Lease, StoreError, TagChange};

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
        self.move_head(session, Some(to)).await
    }

    /// Undoes the last revert. Turns that were made since then are detached, and stay on record.
    pub async fn undo_revert(&self, session: &Session) -> Result<RevertOutcome, SessionError> {
        self.move_head(session, None).await
    }

    /// Reverts a session to turn `to`, or undoes its last revert.
    async fn move_head(
        &self,
        session: &Session,
        to: Option<i64>,
    ) -> Result<RevertOutcome, SessionError> {
        let acquiring = self
            .reconciler
            .acquire_lease_and_reconcile(&session.id, ReconcileMode::Other);
        let ReconciledSession {
            guard, decisions, ..
        } = acquiring.await?;
        let moved = self
            .move_head_under_lease(session, to, &guard.lease, decisions)
            .await;
        guard.release().await;
        moved
    }

    async fn move_head_under_lease(
        &self,
        session: &Session,
        to: Option<i64>,
        lease: &Lease,
        mut decisions: Vec<Decision>,
    ) -> Result<RevertOutcome, SessionError> {
        let (context, id) = (&self.context, &session.id);
        let (store, at) = (&context.store, context.now());
        let before = store.turns(id).await?;
        let dropped: Vec<&Turn> = if let Some(to) = to {
            plan_revert(count_turns(&before), to)?;
            let target = before.iter().find(|turn| i64::from(turn.number) == to);
            let target = target.ok_or_else(|| StoreError::NoTurn(id.clone()))?;
            store.revert_head(lease, target.id, at).await?;
            let is_later = |turn: &&Turn| turn.number > target.number;
            before.iter().filter(is_later).collect()
        } else {
            store.undo_revert(lease, at).await?;
            let after = store.turns(id).await?;
            let is_detached = |turn: &&Turn| !after.iter().any(|remaining| remaining.id == turn.id);
            before.iter().filter(is_detached).collect()
        };
        let effects = self.collect_turn_effects(&dropped, session).await?;
        let mut detached_turns = None;
        if to.is_none() && !dropped.is_empty() {
            let moves = store.lineage(id).await?.moves;
            detached_turns = moves.last().map(|last| DetachedTurns {
                turns: u32::try_from(dropped.len()).unwrap_or(u32::MAX),
                head_move: last.number,
            });
        }
        // A leg that ended at the new head is reopened.
        let snapshot = context.require_snapshot(id).await?;
        let provider = &snapshot.session.provider;
        let reopening = self
            .reconciler
            .reopen_leg_at_head(lease, &snapshot, provider);
        let session = match reopening.await? {
            Some(decision) => {
                store.log_decision(lease, &decision, at).await?;
                decisions.push(decision);
                context.require_session(id).await?
            }
            None => snapshot.session,
        };
        Ok(RevertOutcome {
            session,
            turns_before: count_turns(&before),
            effects,
            detached_turns,
            decisions,
        })
    }

    /// Forks a session after turn `at`, by default the last turn that has ended. The fork belongs to `project`. With
    /// `before_head_move`, the turns are those that led to the head before that move.
    pub async fn fork_session(
        &self,
        session: &Session,
        at: Option<i64>,
        before_head_move: Option<i64>,
        project: &Project,
    ) -> Result<ForkOutcome, SessionError> {
        let (session, decisions) = self.reconciler.reconcile_if_idle(session.clone()).await?;
        let store = &self.context.store;
        let (last, before_head_move) = match before_head_move {
            None => {
                let turns = store.turns(&session.id).await?;
                let mut newest_first = turns.iter().rev();
                let last = newest_first.find(|turn| turn.state != TurnState::Running);
                (last.map_or(0, |turn| turn.number), None)
            }
            Some(requested) => {
                let moves = store.lineage(&session.id).await?.moves;
                let is_requested = |candidate: &&HeadMove| i64::from(candidate.number) == requested;
                let head_move = moves.iter().find(is_requested);
                let head_move = head_move.ok_or_else(|| SessionError::NoHeadMove {
                    requested,
                    moves: u32::try_from(moves.len()).unwrap_or(u32::MAX),
                })?;
                (head_move.from, Some(head_move.number))
            }
        };
        let point = ForkPoint {
            session: session.id.clone(),
            turn: plan_fork(last, at)?,
            before_head_move,
        };
        let title = session.title.with_suffix("fork");
        let new = self
            .context
            .new_session(project, &title, None, &session.provider);
        let forking = self
            .context
            .create_session(new, |new| store.fork_session(new, point.clone()));
        Ok(ForkOutcome {
            session: forking.await?,
            from: session.id,
            omitted_purpose: session.purpose,
            decisions,
        })
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
