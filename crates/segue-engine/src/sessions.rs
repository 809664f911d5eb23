//! Everything about sessions that is not a turn.

use segue_agents::{Life, life};
use segue_core::{
    Decision, Effects, Leg, Lineage, Message, Project, ProviderId, Purpose, Session, SessionId,
    SessionStatus, Standing, Title, Turn, TurnState, plan_fork, plan_revert,
};
use segue_store::{Cursor, Filter, ForkPoint, Holder, Origin, Page, Retag, StoreError, TagCount};

use crate::head::{SetAside, count_of};
use crate::hold::{EXPIRES_AFTER, Hold};
use crate::outside::Ahead;
use crate::pieces::joined;
use crate::{Conversation, Engine, EngineError};

/// How many decisions a view has.
const DECISIONS: u32 = 1000;

/// A page of sessions, each with where it stands, and where the next page starts.
pub type Listed = (Vec<(Session, SessionStatus)>, Option<Cursor>);

/// A session and what surrounds it.
#[derive(Debug, Clone)]
pub struct SessionView {
    /// The session.
    pub session: Session,
    /// Where it stands.
    pub status: SessionStatus,
    /// Its legs, oldest first.
    pub legs: Vec<Leg>,
    /// Its newest decisions, oldest first.
    pub decisions: Vec<(jiff::Timestamp, Decision)>,
    /// Who is at work in it.
    pub holder: Option<Holder>,
    /// Where its head has been, and which sessions began from it.
    pub lineage: Lineage,
    /// The turns that each leg carried, as far as they lead to the head: the first and the last, in the order of legs.
    pub carried: Vec<Option<(u32, u32)>>,
    /// How it fares with each of its agents that something is held against.
    pub standings: Vec<(ProviderId, Standing)>,
    /// Where it came from, if it did not begin here.
    pub origin: Option<Origin>,
}

/// A session and all that was said in it.
#[derive(Debug, Clone)]
pub struct Transcript {
    /// The session.
    pub session: Session,
    /// Where it stands.
    pub status: SessionStatus,
    /// Its legs, oldest first.
    pub legs: Vec<Leg>,
    /// Its turns, oldest first.
    pub turns: Vec<TranscriptTurn>,
}

/// A turn and what was said in it.
#[derive(Debug, Clone)]
pub struct TranscriptTurn {
    /// The turn; one that was cut off is shown as interrupted even before it is closed.
    pub turn: Turn,
    /// The messages, the prompt first.
    pub messages: Vec<Message>,
    /// Who answered, or was to.
    pub provider: ProviderId,
}

/// A session that was reverted, or whose revert was undone.
#[derive(Debug, Clone)]
pub struct Reverted {
    /// The session as it is now.
    pub session: Session,
    /// How many turns it had before.
    pub turns_before: u32,
    /// What the turns that do not count any more did to files, which stay as they are.
    pub effects: Effects,
    /// What an undo left behind.
    pub set_aside: Option<SetAside>,
    /// What segue decided by itself on the way.
    pub decisions: Vec<Decision>,
}

/// A session that was forked off.
#[derive(Debug, Clone)]
pub struct Forked {
    /// The new session.
    pub session: Session,
    /// The one it was forked from.
    pub from: SessionId,
    /// What that one is for, and the new one is not: it is still the one that is found by it.
    pub left: Option<Purpose>,
    /// What segue decided by itself on the way.
    pub decisions: Vec<Decision>,
}

impl Engine {
    /// The sessions that fit a filter, newest first, each with where it stands; and where the next page starts.
    pub async fn list(&self, filter: &Filter, page: Page) -> Result<Listed, EngineError> {
        let found = self.store.find(filter, page).await?;
        let mut sessions = Vec::with_capacity(found.sessions.len());
        for session in found.sessions {
            let status = self.status(&session).await?;
            sessions.push((session, status));
        }
        Ok((sessions, found.next))
    }

    /// A session, by its id.
    pub async fn session(&self, id: &SessionId) -> Result<Session, EngineError> {
        self.existing(id).await
    }

    /// A session, by its id, as one of all conversations.
    pub async fn conversation(&self, id: &SessionId) -> Result<Conversation, EngineError> {
        let session = self.existing(id).await?;
        let status = self.status(&session).await?;
        Ok(Conversation::Session(Box::new(session), status))
    }

    /// Where a session stands: a turn that runs without a living process was interrupted.
    pub async fn status(&self, session: &Session) -> Result<SessionStatus, EngineError> {
        if session.head_state != Some(TurnState::Running) {
            return Ok(SessionStatus::Idle);
        }
        if self.living_holder(&session.id).await?.is_some() {
            return Ok(SessionStatus::Running);
        }
        // The turn may have ended, and the claim on it, since the session was read.
        let now = self.store.session(&session.id).await?;
        let still_runs =
            now.is_some_and(|now| now.head == session.head && now.head_state == session.head_state);
        Ok(if still_runs {
            SessionStatus::Interrupted
        } else {
            SessionStatus::Idle
        })
    }

    /// Who is at work in a session, as far as can be told; an agent of ours that waits in it is in nobody's way here.
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

    /// A session and what surrounds it.
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

    /// Who answered a turn. One that was made without us was the first agent's; one from before a fork was answered on
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

    /// All that was said in a session.
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

    /// Gives a session the title a person chose. It does not become newer by it.
    pub async fn rename(&self, id: &SessionId, title: &Title) -> Result<(), EngineError> {
        Ok(self.store.rename(id, title).await?)
    }

    /// Changes the tags of a session.
    pub async fn retag(&self, id: &SessionId, retag: Retag) -> Result<Session, EngineError> {
        Ok(self.store.retag(id, retag).await?)
    }

    /// All tags that some session has, with how many have them.
    pub async fn tags(&self) -> Result<Vec<TagCount>, EngineError> {
        Ok(self.store.tags().await?)
    }

    /// Makes turn `to` the last one. The turns after it stay on record.
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

    /// Takes the last revert back. Turns that were made since are left behind, and stay on record.
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

    /// Branches off after turn `at`, by default the last one that has ended, to go on in `project`.
    pub async fn fork(
        &self,
        session: &Session,
        at: Option<i64>,
        project: &Project,
    ) -> Result<Forked, EngineError> {
        self.fork_moved(session, at, None, project).await
    }

    /// The same; with `before_move` the turns are those that led to the head before it moved.
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

    /// Removes a session from the store. The provider's own session is not touched.
    pub async fn delete(&self, session: &Session) -> Result<Vec<Decision>, EngineError> {
        let (hold, taken_over) = self.hold(&session.id).await?;
        self.warm.end(&session.id).await;
        let deleted = self.store.delete(&hold.lease).await;
        hold.release().await;
        deleted?;
        self.forget_own_indexed(&session.id).await;
        Ok(taken_over.into_iter().collect())
    }

    /// Claims a session and closes what was cut off in it.
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
