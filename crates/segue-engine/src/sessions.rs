//! Everything about sessions that is not a turn.

use segue_agents::{Life, life};
use segue_core::{
    Decision, Leg, Message, Project, ProviderId, Session, SessionId, SessionStatus, Title,
    TitleSource, Turn, TurnState, plan_fork, plan_revert,
};
use segue_store::{Cursor, Filter, ForkPoint, Holder, Page, Retag, StoreError, TagCount};

use crate::hold::{EXPIRES_AFTER, Hold};
use crate::pieces::joined;
use crate::{Engine, EngineError};

/// How many decisions a view shows.
const DECISIONS: u32 = 20;

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

    /// Who is at work in a session, as far as can be told.
    pub(crate) async fn living_holder(
        &self,
        id: &SessionId,
    ) -> Result<Option<Holder>, EngineError> {
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
        Ok(SessionView {
            status: self.status(&session).await?,
            legs: self.store.legs(&session.id).await?,
            decisions: self.store.decisions(&session.id, DECISIONS).await?,
            holder: self.living_holder(&session.id).await?,
            session,
        })
    }

    /// Who answered a turn. One that was made without us, or before a fork, was the first agent's.
    pub(crate) async fn provider_of(
        &self,
        turn: &Turn,
        legs: &[Leg],
        session: &Session,
    ) -> Result<ProviderId, EngineError> {
        let attempts = self.store.attempts(turn.id).await?;
        let last = attempts.last().map(|attempt| attempt.leg);
        let leg = legs.iter().find(|leg| Some(leg.id) == last);
        let leg = leg.or_else(|| legs.first().filter(|_| last.is_none()));
        let provider = leg.map_or(&session.provider, |leg| &leg.provider);
        Ok(provider.clone())
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

    /// Gives a session the title a person chose.
    pub async fn rename(&self, id: &SessionId, title: &Title) -> Result<(), EngineError> {
        Ok(self.store.rename(id, title, (self.world.now)()).await?)
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
        let (hold, decisions) = self.hold_idle(&session.id).await?;
        let outcome = async {
            let turns = self.store.turns(&session.id).await?;
            let count = u32::try_from(turns.len()).unwrap_or(u32::MAX);
            plan_revert(count, to)?;
            let target = turns.iter().find(|turn| i64::from(turn.n) == to);
            let target = target.ok_or_else(|| StoreError::NoTurn(session.id.clone()))?;
            let at = (self.world.now)();
            let session = self.store.revert(&hold.lease, target.id, at).await?;
            Ok(Reverted {
                session,
                turns_before: count,
                decisions,
            })
        }
        .await;
        hold.release().await;
        outcome
    }

    /// Takes the last revert back.
    pub async fn undo(&self, session: &Session) -> Result<Reverted, EngineError> {
        let (hold, decisions) = self.hold_idle(&session.id).await?;
        let outcome = async {
            let turns_before = self.existing(&session.id).await?.turns;
            let session = self.store.undo(&hold.lease, (self.world.now)()).await?;
            Ok(Reverted {
                session,
                turns_before,
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
        let turns = self.store.turns(&session.id).await?;
        let last = turns
            .iter()
            .rev()
            .find(|turn| turn.state != TurnState::Running);
        let turn = plan_fork(last.map_or(0, |turn| turn.n), at)?;
        let title = fork_title(&session.title);
        let point = ForkPoint {
            session: session.id.clone(),
            turn,
        };
        loop {
            let new =
                self.new_session(project, &title, session.feature.as_ref(), &session.provider);
            match self.store.fork(new, point.clone()).await {
                Err(StoreError::Exists(_)) => {}
                outcome => {
                    return Ok(Forked {
                        session: outcome?,
                        from: session.id.clone(),
                    });
                }
            }
        }
    }

    /// Removes a session from the store. The provider's own session is not touched.
    pub async fn delete(&self, session: &Session) -> Result<Vec<Decision>, EngineError> {
        let (hold, taken_over) = self.hold(&session.id).await?;
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
    ) -> Result<(Hold, Vec<Decision>), EngineError> {
        let (hold, taken_over) = self.hold(id).await?;
        let tidied = async {
            let session = self.existing(id).await?;
            let recovered = self.recover(&session, &hold.lease).await?;
            let decisions: Vec<Decision> = taken_over.into_iter().chain(recovered).collect();
            for decision in &decisions {
                self.store
                    .note(&hold.lease, decision, (self.world.now)())
                    .await?;
            }
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

fn fork_title(title: &Title) -> Title {
    match title.source() {
        TitleSource::Prompt => title.clone(),
        source @ (TitleSource::Model | TitleSource::User) => {
            let text: String = title.as_str().chars().take(190).collect();
            Title::given(&format!("{text} (fork)"), source).unwrap_or_else(|_| title.clone())
        }
    }
}
