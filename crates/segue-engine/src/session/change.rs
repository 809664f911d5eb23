//! Operations on sessions other than turns.

use segue_agents::{ProcessStatus, process_status};
use segue_core::id::{ProviderId, SessionId};
use segue_core::policy::ProviderHealth;
use segue_core::scope::Purpose;
use segue_core::session::{
    Decision, Effects, Leg, Lineage, Message, Project, Session, SessionStatus, Title, Turn,
    TurnState, plan_fork, plan_revert,
};
use segue_store::{
    ForkPoint, LeaseHolder, PageCursor, PageRequest, SessionFilter, SessionOrigin, StoreError,
    TagChange, TagCount,
};

use crate::reconcile::ReconcileMode;
use crate::session::lease::{LEASE_TIMEOUT, LeaseGuard};
use crate::session::revert::{DetachedTurns, count_turns};
use crate::turn::message_chunks::merge_chunks;
use crate::{Conversation, Engine, EngineError};

/// Maximum number of decisions in a view.
const MAX_VIEW_DECISIONS: u32 = 1000;

/// A page of sessions with their status, and the position of the next page.
pub type ListedSessions = (Vec<(Session, SessionStatus)>, Option<PageCursor>);

/// A session with its legs, decisions and lineage.
#[derive(Debug, Clone)]
pub struct SessionView {
    /// The session.
    pub session: Session,
    /// Status of the session.
    pub status: SessionStatus,
    /// Legs of the session, oldest first.
    pub legs: Vec<Leg>,
    /// Newest decisions of the session, oldest first.
    pub decisions: Vec<(jiff::Timestamp, Decision)>,
    /// Owner of the lease. `None` if the session is not in use.
    pub lease_holder: Option<LeaseHolder>,
    /// Moves of the head, and the sessions that were forked from this one.
    pub lineage: Lineage,
    /// First and last turn that ran on each leg, in the order of the legs. Only turns that lead to the head count.
    pub leg_turn_ranges: Vec<Option<(u32, u32)>>,
    /// Health of each agent of the session that has failures on record.
    pub provider_health: Vec<(ProviderId, ProviderHealth)>,
    /// Source of the import. `None` if the session was not imported.
    pub origin: Option<SessionOrigin>,
}

/// A session with all its messages.
#[derive(Debug, Clone)]
pub struct Transcript {
    /// The session.
    pub session: Session,
    /// Status of the session.
    pub status: SessionStatus,
    /// Legs of the session, oldest first.
    pub legs: Vec<Leg>,
    /// Turns of the session, oldest first.
    pub turns: Vec<TranscriptTurn>,
}

/// A turn with its messages.
#[derive(Debug, Clone)]
pub struct TranscriptTurn {
    /// The turn. An interrupted turn is shown as such even before it is closed.
    pub turn: Turn,
    /// Messages of the turn, the prompt first.
    pub messages: Vec<Message>,
    /// Agent that answered, or was to answer.
    pub provider: ProviderId,
}

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

impl Engine {
    /// Returns the sessions that match a filter, newest first, with their status, and the position of the next page.
    pub async fn list_sessions(
        &self,
        filter: &SessionFilter,
        page: PageRequest,
    ) -> Result<ListedSessions, EngineError> {
        let session_page = self.store.list_sessions(filter, page).await?;
        let mut sessions = Vec::with_capacity(session_page.sessions.len());
        for session in session_page.sessions {
            let status = self.session_status(&session).await?;
            sessions.push((session, status));
        }
        Ok((sessions, session_page.next))
    }

    /// Returns the session with an id. Fails if it does not exist.
    pub async fn session(&self, id: &SessionId) -> Result<Session, EngineError> {
        self.require_session(id).await
    }

    /// Returns the session with an id as a [`Conversation`].
    pub async fn conversation(&self, id: &SessionId) -> Result<Conversation, EngineError> {
        let session = self.require_session(id).await?;
        let status = self.session_status(&session).await?;
        Ok(Conversation::Session(Box::new(session), status))
    }

    /// Returns the status of a session. A turn that is marked as running without a live process was interrupted.
    pub async fn session_status(&self, session: &Session) -> Result<SessionStatus, EngineError> {
        if session.head_state != Some(TurnState::Running) {
            return Ok(SessionStatus::Idle);
        }
        if self.live_lease_holder(&session.id).await?.is_some() {
            return Ok(SessionStatus::Running);
        }
        // The turn and its lease may have ended since the session was read.
        let current = self.store.session(&session.id).await?;
        let is_unchanged = current.is_some_and(|current| {
            current.head == session.head && current.head_state == session.head_state
        });
        Ok(if is_unchanged {
            SessionStatus::Interrupted
        } else {
            SessionStatus::Idle
        })
    }

    /// Returns the owner of a session's lease if it is alive, as far as segue can determine. An agent that this process
    /// keeps running for the next prompt does not count.
    pub(crate) async fn live_lease_holder(
        &self,
        id: &SessionId,
    ) -> Result<Option<LeaseHolder>, EngineError> {
        if let Some(claim) = self.agent_pool.shared_lease(id).await
            && claim.is_waiting()
        {
            return Ok(None);
        }
        let now = (self.environment.now)();
        let holder = self.store.lease_holder(id).await?;
        Ok(holder.filter(|holder| match process_status(&holder.owner) {
            ProcessStatus::Alive => true,
            ProcessStatus::Dead => false,
            ProcessStatus::Unknown => now.duration_since(holder.heartbeat_at) < LEASE_TIMEOUT,
        }))
    }

    /// Loads a session with its legs, decisions and lineage.
    pub async fn session_view(&self, session: Session) -> Result<SessionView, EngineError> {
        let legs = self.store.legs(&session.id).await?;
        let leg_turn_ranges = self.turn_ranges_by_leg(&legs, &session).await?;
        let mut provider_health: Vec<(ProviderId, ProviderHealth)> = Vec::new();
        for leg in &legs {
            let health = self
                .store
                .provider_health(&session.id, &leg.provider)
                .await?;
            let is_listed = provider_health
                .iter()
                .any(|(agent, _)| *agent == leg.provider);
            if !health.is_clean() && !is_listed {
                provider_health.push((leg.provider.clone(), health));
            }
        }
        Ok(SessionView {
            status: self.session_status(&session).await?,
            decisions: self
                .store
                .decisions(&session.id, MAX_VIEW_DECISIONS)
                .await?,
            lease_holder: self.live_lease_holder(&session.id).await?,
            lineage: self.store.lineage(&session.id).await?,
            origin: self.store.session_origin(&session.id).await?,
            leg_turn_ranges,
            provider_health,
            legs,
            session,
        })
    }

    /// Returns the agent that answered a turn.
    ///
    /// A turn without an attempt was made outside segue and belongs to the first leg. A turn from before a fork ran on
    /// a leg of another session.
    pub(crate) async fn turn_provider(
        &self,
        turn: &Turn,
        legs: &[Leg],
        session: &Session,
    ) -> Result<ProviderId, EngineError> {
        let attempts = self.store.attempts(turn.id).await?;
        let last = attempts.last().map(|attempt| attempt.leg);
        let leg = match last {
            None => legs.first().cloned(),
            Some(last) => match legs.iter().find(|leg| leg.id == last) {
                Some(leg) => Some(leg.clone()),
                None => self.store.leg(last).await?,
            },
        };
        Ok(leg.map_or_else(|| session.provider.clone(), |leg| leg.provider))
    }

    /// Loads a session with all its messages.
    pub async fn transcript(&self, session: Session) -> Result<Transcript, EngineError> {
        let status = self.session_status(&session).await?;
        let legs = self.store.legs(&session.id).await?;
        let mut turns = Vec::new();
        for mut turn in self.store.turns(&session.id).await? {
            if turn.state == TurnState::Running && status == SessionStatus::Interrupted {
                turn.state = TurnState::Interrupted;
            }
            let messages = merge_chunks(self.store.messages(turn.id).await?);
            let provider = self.turn_provider(&turn, &legs, &session).await?;
            turns.push(TranscriptTurn {
                turn,
                messages,
                provider,
            });
        }
        Ok(Transcript {
            session,
            status,
            legs,
            turns,
        })
    }

    /// Sets the title that the user chose. The time of the last activity does not change.
    pub async fn rename_session(&self, id: &SessionId, title: &Title) -> Result<(), EngineError> {
        Ok(self.store.rename_session(id, title).await?)
    }

    /// Changes the tags of a session, and returns the changed session.
    pub async fn change_tags(
        &self,
        id: &SessionId,
        change: TagChange,
    ) -> Result<Session, EngineError> {
        Ok(self.store.change_tags(id, change).await?)
    }

    /// Returns all tags in use, with the number of sessions that have them.
    pub async fn tags(&self) -> Result<Vec<TagCount>, EngineError> {
        Ok(self.store.tag_counts().await?)
    }

    /// Reverts a session to turn `to`. The turns after it stay on record.
    pub async fn revert_session(
        &self,
        session: &Session,
        to: i64,
    ) -> Result<RevertOutcome, EngineError> {
        let (guard, mut decisions) = self
            .acquire_lease_and_reconcile(&session.id, ReconcileMode::Other)
            .await?;
        let outcome = async {
            let turns = self.store.turns(&session.id).await?;
            let count = count_turns(&turns);
            plan_revert(count, to)?;
            let target = turns.iter().find(|turn| i64::from(turn.number) == to);
            let target = target.ok_or_else(|| StoreError::NoTurn(session.id.clone()))?;
            let dropped = turns.iter().filter(|turn| turn.number > target.number);
            let effects = self.collect_turn_effects(dropped, session).await?;
            let at = (self.environment.now)();
            let session = self.store.revert_head(&guard.lease, target.id, at).await?;
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
    pub async fn undo_revert(&self, session: &Session) -> Result<RevertOutcome, EngineError> {
        let (guard, mut decisions) = self
            .acquire_lease_and_reconcile(&session.id, ReconcileMode::Other)
            .await?;
        let outcome = async {
            let before = self.store.turns(&session.id).await?;
            let session = self
                .store
                .undo_revert(&guard.lease, (self.environment.now)())
                .await?;
            let after = self.store.turns(&session.id).await?;
            let is_detached = |turn: &&Turn| !after.iter().any(|remaining| remaining.id == turn.id);
            let detached: Vec<&Turn> = before.iter().filter(is_detached).collect();
            let effects = self
                .collect_turn_effects(detached.iter().copied(), &session)
                .await?;
            let moves = self.store.lineage(&session.id).await?.moves;
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
    ) -> Result<ForkOutcome, EngineError> {
        self.fork_before_move(session, at, None, project).await
    }

    /// Forks a session like [`Engine::fork_session`]. With `before_head_move`, the turns are those that led to the head
    /// before that move.
    pub async fn fork_before_move(
        &self,
        session: &Session,
        at: Option<i64>,
        before_head_move: Option<i64>,
        project: &Project,
    ) -> Result<ForkOutcome, EngineError> {
        let (session, decisions) = self.reconcile_if_idle(session.clone()).await?;
        let (last, before_head_move) = match before_head_move {
            None => {
                let turns = self.store.turns(&session.id).await?;
                let mut newest_first = turns.iter().rev();
                let last = newest_first.find(|turn| turn.state != TurnState::Running);
                (last.map_or(0, |turn| turn.number), None)
            }
            Some(requested) => {
                let moves = self.store.lineage(&session.id).await?.moves;
                let head_move = moves
                    .iter()
                    .find(|candidate| i64::from(candidate.number) == requested);
                let count = u32::try_from(moves.len()).unwrap_or(u32::MAX);
                let head_move = head_move.ok_or(EngineError::NoHeadMove {
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
            let new = self.new_session(project, &title, None, &session.provider);
            match self.store.fork_session(new, point.clone()).await {
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
    pub async fn delete_session(&self, session: &Session) -> Result<Vec<Decision>, EngineError> {
        let (guard, takeover) = self.acquire_lease(&session.id).await?;
        self.agent_pool.end_agent(&session.id).await;
        let deleted = self.store.delete_session(&guard.lease).await;
        guard.release().await;
        deleted?;
        self.remove_session_from_index(&session.id).await;
        Ok(takeover.into_iter().collect())
    }

    /// Acquires the lease of a session, reconciles it with its native session, and closes an interrupted turn.
    pub(crate) async fn acquire_lease_and_reconcile(
        &self,
        id: &SessionId,
        mode: ReconcileMode,
    ) -> Result<(LeaseGuard, Vec<Decision>), EngineError> {
        let (guard, takeover) = self.acquire_lease(id).await?;
        let reconciled = async {
            let session = self.require_session(id).await?;
            let (_, reconcile_decisions) = self.reconcile(session, &guard, mode).await?;
            let decisions: Vec<Decision> =
                takeover.into_iter().chain(reconcile_decisions).collect();
            self.log_decisions(&guard, &decisions).await?;
            Ok(decisions)
        }
        .await;
        match reconciled {
            Ok(decisions) => Ok((guard, decisions)),
            Err(error) => {
                guard.release().await;
                Err(error)
            }
        }
    }
}
