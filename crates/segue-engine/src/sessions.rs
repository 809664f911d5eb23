//! Operations on sessions other than turns.

use segue_agents::{Life, life};
use segue_core::id::{ProviderId, SessionId};
use segue_core::policy::Standing;
use segue_core::scope::Purpose;
use segue_core::session::{
    Decision, Effects, Leg, Lineage, Message, Project, Session, SessionStatus, Title, Turn,
    TurnState, plan_fork, plan_revert,
};
use segue_store::{Cursor, Filter, ForkPoint, Holder, Origin, Page, Retag, StoreError, TagCount};

use crate::head::{SetAside, count_of};
use crate::hold::{EXPIRES_AFTER, Hold};
use crate::outside::Ahead;
use crate::pieces::joined;
use crate::{Conversation, Engine, EngineError};

/// Maximum number of decisions in a view.
const DECISIONS: u32 = 1000;

/// A page of sessions with their status, and the position of the next page.
pub type Listed = (Vec<(Session, SessionStatus)>, Option<Cursor>);

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
    pub holder: Option<Holder>,
    /// Moves of the head, and the sessions that were forked from this one.
    pub lineage: Lineage,
    /// First and last turn that ran on each leg, in the order of the legs. Only turns that lead to the head count.
    pub carried: Vec<Option<(u32, u32)>>,
    /// Health of each agent of the session that has failures on record.
    pub standings: Vec<(ProviderId, Standing)>,
    /// Source of the import. `None` if the session was not imported.
    pub origin: Option<Origin>,
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
pub struct Reverted {
    /// The session after the change.
    pub session: Session,
    /// Number of turns before the change.
    pub turns_before: u32,
    /// File changes of the turns that were dropped. The files stay as they are.
    pub effects: Effects,
    /// Turns that an undo detached. `None` if it detached none.
    pub set_aside: Option<SetAside>,
    /// Decisions that segue made during the call.
    pub decisions: Vec<Decision>,
}

/// Result of a fork.
#[derive(Debug, Clone)]
pub struct Forked {
    /// The new session.
    pub session: Session,
    /// Session that was forked.
    pub from: SessionId,
    /// Purpose of the forked session. The new session does not get it, so that a lookup still finds the forked one.
    pub left: Option<Purpose>,
    /// Decisions that segue made during the call.
    pub decisions: Vec<Decision>,
}

impl Engine {
    /// Returns the sessions that match a filter, newest first, with their status, and the position of the next page.
    pub async fn list(&self, filter: &Filter, page: Page) -> Result<Listed, EngineError> {
        let found = self.store.find(filter, page).await?;
        let mut sessions = Vec::with_capacity(found.sessions.len());
        for session in found.sessions {
            let status = self.status(&session).await?;
            sessions.push((session, status));
        }
        Ok((sessions, found.next))
    }

    /// Returns the session with an id. Fails if it does not exist.
    pub async fn session(&self, id: &SessionId) -> Result<Session, EngineError> {
        self.existing(id).await
    }

    /// Returns the session with an id as a [`Conversation`].
    pub async fn conversation(&self, id: &SessionId) -> Result<Conversation, EngineError> {
        let session = self.existing(id).await?;
        let status = self.status(&session).await?;
        Ok(Conversation::Session(Box::new(session), status))
    }

    /// Returns the status of a session. A turn that is marked as running without a live process was interrupted.
    pub async fn status(&self, session: &Session) -> Result<SessionStatus, EngineError> {
        if session.head_state != Some(TurnState::Running) {
            return Ok(SessionStatus::Idle);
        }
        if self.living_holder(&session.id).await?.is_some() {
            return Ok(SessionStatus::Running);
        }
        // The turn and its lease may have ended since the session was read.
        let now = self.store.session(&session.id).await?;
        let still_runs =
            now.is_some_and(|now| now.head == session.head && now.head_state == session.head_state);
        Ok(if still_runs {
            SessionStatus::Interrupted
        } else {
            SessionStatus::Idle
        })
    }

    /// Returns the owner of a session's lease if it is alive, as far as segue can determine. An agent that this process
    /// keeps running for the next prompt does not count.
    pub(crate) async fn living_holder(
        &self,
        id: &SessionId,
    ) -> Result<Option<Holder>, EngineError> {
        if let Some(claim) = self.warm.claim_of(id).await
            && claim.waits()
        {
            return Ok(None);
        }
        let now = (self.world.now)();
        let holder = self.store.holder(id).await?;
        Ok(holder.filter(|holder| match life(&holder.owner) {
            Life::Alive => true,
            Life::Dead => false,
            Life::Unknown => now.duration_since(holder.heartbeat_at) < EXPIRES_AFTER,
        }))
    }

    /// Loads a session with its legs, decisions and lineage.
    pub async fn view(&self, session: Session) -> Result<SessionView, EngineError> {
        let legs = self.store.legs(&session.id).await?;
        let carried = self.carried_by(&legs, &session).await?;
        let mut standings: Vec<(ProviderId, Standing)> = Vec::new();
        for leg in &legs {
            let standing = self.store.standing(&session.id, &leg.provider).await?;
            let told = standings.iter().any(|(agent, _)| *agent == leg.provider);
            if !standing.is_clean() && !told {
                standings.push((leg.provider.clone(), standing));
            }
        }
        Ok(SessionView {
            status: self.status(&session).await?,
            decisions: self.store.decisions(&session.id, DECISIONS).await?,
            holder: self.living_holder(&session.id).await?,
            lineage: self.store.lineage(&session.id).await?,
            origin: self.store.origin(&session.id).await?,
            carried,
            standings,
            legs,
            session,
        })
    }

    /// Returns the agent that answered a turn.
    ///
    /// A turn without an attempt was made outside segue and belongs to the first leg. A turn from before a fork ran on
    /// a leg of another session.
    pub(crate) async fn provider_of(
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
        let status = self.status(&session).await?;
        let legs = self.store.legs(&session.id).await?;
        let mut turns = Vec::new();
        for mut turn in self.store.turns(&session.id).await? {
            if turn.state == TurnState::Running && status == SessionStatus::Interrupted {
                turn.state = TurnState::Interrupted;
            }
            let messages = joined(self.store.messages(turn.id).await?);
            let provider = self.provider_of(&turn, &legs, &session).await?;
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
    pub async fn rename(&self, id: &SessionId, title: &Title) -> Result<(), EngineError> {
        Ok(self.store.rename(id, title).await?)
    }

    /// Changes the tags of a session, and returns the changed session.
    pub async fn retag(&self, id: &SessionId, retag: Retag) -> Result<Session, EngineError> {
        Ok(self.store.retag(id, retag).await?)
    }

    /// Returns all tags in use, with the number of sessions that have them.
    pub async fn tags(&self) -> Result<Vec<TagCount>, EngineError> {
        Ok(self.store.tags().await?)
    }

    /// Reverts a session to turn `to`. The turns after it stay on record.
    pub async fn revert(&self, session: &Session, to: i64) -> Result<Reverted, EngineError> {
        let (hold, mut decisions) = self.hold_idle(&session.id, Ahead::Else).await?;
        let outcome = async {
            let turns = self.store.turns(&session.id).await?;
            let count = count_of(&turns);
            plan_revert(count, to)?;
            let target = turns.iter().find(|turn| i64::from(turn.n) == to);
            let target = target.ok_or_else(|| StoreError::NoTurn(session.id.clone()))?;
            let dropped = turns.iter().filter(|turn| turn.n > target.n);
            let effects = self.effects_of(dropped, session).await?;
            let at = (self.world.now)();
            let session = self.store.revert(&hold.lease, target.id, at).await?;
            let session = self
                .follow_head(&hold.lease, session, &mut decisions)
                .await?;
            Ok(Reverted {
                session,
                turns_before: count,
                effects,
                set_aside: None,
                decisions,
            })
        }
        .await;
        hold.release().await;
        outcome
    }

    /// Undoes the last revert. Turns that were made since then are detached, and stay on record.
    pub async fn undo(&self, session: &Session) -> Result<Reverted, EngineError> {
        let (hold, mut decisions) = self.hold_idle(&session.id, Ahead::Else).await?;
        let outcome = async {
            let before = self.store.turns(&session.id).await?;
            let session = self.store.undo(&hold.lease, (self.world.now)()).await?;
            let after = self.store.turns(&session.id).await?;
            let left = |turn: &&Turn| !after.iter().any(|kept| kept.id == turn.id);
            let left: Vec<&Turn> = before.iter().filter(left).collect();
            let effects = self.effects_of(left.iter().copied(), &session).await?;
            let moves = self.store.lineage(&session.id).await?.moves;
            let set_aside = moves.last().filter(|_| !left.is_empty());
            let set_aside = set_aside.map(|last| SetAside {
                turns: u32::try_from(left.len()).unwrap_or(u32::MAX),
                by_move: last.n,
            });
            let session = self
                .follow_head(&hold.lease, session, &mut decisions)
                .await?;
            Ok(Reverted {
                session,
                turns_before: count_of(&before),
                effects,
                set_aside,
                decisions,
            })
        }
        .await;
        hold.release().await;
        outcome
    }

    /// Forks a session after turn `at`, by default the last turn that has ended. The fork belongs to `project`.
    pub async fn fork(
        &self,
        session: &Session,
        at: Option<i64>,
        project: &Project,
    ) -> Result<Forked, EngineError> {
        self.fork_moved(session, at, None, project).await
    }

    /// Forks a session like [`Engine::fork`]. With `before_move`, the turns are those that led to the head before that
    /// move.
    pub async fn fork_moved(
        &self,
        session: &Session,
        at: Option<i64>,
        before_move: Option<i64>,
        project: &Project,
    ) -> Result<Forked, EngineError> {
        let (session, decisions) = self.refreshed(session.clone()).await?;
        let (last, before_move) = match before_move {
            None => {
                let turns = self.store.turns(&session.id).await?;
                let mut ended = turns.iter().rev();
                let last = ended.find(|turn| turn.state != TurnState::Running);
                (last.map_or(0, |turn| turn.n), None)
            }
            Some(asked) => {
                let moves = self.store.lineage(&session.id).await?.moves;
                let found = moves.iter().find(|known| i64::from(known.n) == asked);
                let count = u32::try_from(moves.len()).unwrap_or(u32::MAX);
                let found = found.ok_or(EngineError::NoMove {
                    asked,
                    moves: count,
                })?;
                (found.from, Some(found.n))
            }
        };
        let turn = plan_fork(last, at)?;
        let title = session.title.marked("fork");
        let point = ForkPoint {
            session: session.id.clone(),
            turn,
            before_move,
        };
        loop {
            let new = self.new_session(project, &title, None, &session.provider);
            match self.store.fork(new, point.clone()).await {
                Err(StoreError::Exists(_)) => {}
                outcome => {
                    return Ok(Forked {
                        session: outcome?,
                        from: session.id,
                        left: session.purpose,
                        decisions,
                    });
                }
            }
        }
    }

    /// Deletes a session from the store. Native sessions are not deleted.
    pub async fn delete(&self, session: &Session) -> Result<Vec<Decision>, EngineError> {
        let (hold, taken_over) = self.hold(&session.id).await?;
        self.warm.end(&session.id).await;
        let deleted = self.store.delete(&hold.lease).await;
        hold.release().await;
        deleted?;
        self.forget_own_indexed(&session.id).await;
        Ok(taken_over.into_iter().collect())
    }

    /// Acquires the lease of a session, reconciles it with its native session, and closes an interrupted turn.
    pub(crate) async fn hold_idle(
        &self,
        id: &SessionId,
        ahead: Ahead,
    ) -> Result<(Hold, Vec<Decision>), EngineError> {
        let (hold, taken_over) = self.hold(id).await?;
        let tidied = async {
            let session = self.existing(id).await?;
            let (_, told) = self.bring_up_to_date(session, &hold, ahead).await?;
            let decisions: Vec<Decision> = taken_over.into_iter().chain(told).collect();
            self.note_all(&hold, &decisions).await?;
            Ok(decisions)
        }
        .await;
        match tidied {
            Ok(decisions) => Ok((hold, decisions)),
            Err(error) => {
                hold.release().await;
                Err(error)
            }
        }
    }
}
