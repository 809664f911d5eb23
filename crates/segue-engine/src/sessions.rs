//! Everything about sessions that is not a turn.

use segue_agents::is_alive;
use segue_core::{
    Decision, Leg, Message, Session, SessionId, SessionStatus, Title, TitleSource, Turn, TurnState,
    plan_revert,
};
use segue_store::{Cursor, Filter, ForkPoint, Holder, NewSession, Page, StoreError};

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
}

/// A session that was reverted, or whose revert was undone.
#[derive(Debug, Clone)]
pub struct Reverted {
    /// The session as it is now.
    pub session: Session,
    /// How many turns it had before.
    pub turns_before: u32,
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
    async fn status(&self, session: &Session) -> Result<SessionStatus, EngineError> {
        if session.head_state != Some(TurnState::Running) {
            return Ok(SessionStatus::Idle);
        }
        let holder = self.store.holder(&session.id).await?;
        Ok(match holder {
            Some(holder) if is_alive(&holder.owner) => SessionStatus::Running,
            Some(_) | None => SessionStatus::Interrupted,
        })
    }

    /// A session and what surrounds it.
    pub async fn view(&self, session: Session) -> Result<SessionView, EngineError> {
        Ok(SessionView {
            status: self.status(&session).await?,
            legs: self.store.legs(&session.id).await?,
            decisions: self.store.decisions(&session.id, DECISIONS).await?,
            holder: self.store.holder(&session.id).await?,
            session,
        })
    }

    /// All that was said in a session.
    pub async fn transcript(&self, session: Session) -> Result<Transcript, EngineError> {
        let status = self.status(&session).await?;
        let mut turns = Vec::new();
        for mut turn in self.store.turns(&session.id).await? {
            if turn.state == TurnState::Running && status == SessionStatus::Interrupted {
                turn.state = TurnState::Interrupted;
            }
            let messages = self.store.messages(turn.id).await?;
            turns.push(TranscriptTurn { turn, messages });
        }
        Ok(Transcript {
            status,
            legs: self.store.legs(&session.id).await?,
            session,
            turns,
        })
    }

    /// Gives a session the title a person chose.
    pub async fn rename(&self, id: &SessionId, title: &Title) -> Result<(), EngineError> {
        Ok(self.store.rename(id, title, (self.world.now)()).await?)
    }

    /// Makes turn `to` the last one. The turns after it stay on record.
    pub async fn revert(&self, session: &Session, to: i64) -> Result<Reverted, EngineError> {
        let hold = self.hold_idle(&session.id).await?;
        let outcome = async {
            let turns = self.store.turns(&session.id).await?;
            let count = u32::try_from(turns.len()).unwrap_or(u32::MAX);
            plan_revert(count, to)?;
            let target = turns
                .iter()
                .find(|turn| i64::from(turn.n) == to)
                .ok_or_else(|| StoreError::NoTurn(session.id.clone()))?;
            let session = self
                .store
                .revert(&hold.lease, target.id, (self.world.now)())
                .await?;
            Ok(Reverted {
                session,
                turns_before: count,
            })
        }
        .await;
        hold.release().await?;
        outcome
    }

    /// Takes the last revert back.
    pub async fn undo(&self, session: &Session) -> Result<Reverted, EngineError> {
        let hold = self.hold_idle(&session.id).await?;
        let turns_before = self.existing(&session.id).await?.turns;
        let outcome = self.store.undo(&hold.lease, (self.world.now)()).await;
        hold.release().await?;
        Ok(Reverted {
            session: outcome?,
            turns_before,
        })
    }

    /// Branches off after turn `at`, by default the last one that has ended.
    pub async fn fork(&self, session: &Session, at: Option<i64>) -> Result<Forked, EngineError> {
        let turns = self.store.turns(&session.id).await?;
        let last = turns
            .iter()
            .rev()
            .find(|turn| turn.state != TurnState::Running);
        let last = last.ok_or(segue_core::RevertError::NoTurns)?.n;
        let turn = match at {
            None => last,
            Some(asked) => u32::try_from(asked)
                .ok()
                .filter(|n| (1..=last).contains(n))
                .ok_or(segue_core::RevertError::NoSuchTurn { asked, turns: last })?,
        };
        let now = (self.world.now)();
        let title = match session.title.source() {
            TitleSource::Prompt => session.title.clone(),
            source @ (TitleSource::Model | TitleSource::User) => {
                let text: String = session.title.as_str().chars().take(190).collect();
                Title::given(&format!("{text} (fork)"), source)
                    .unwrap_or_else(|_| session.title.clone())
            }
        };
        let point = ForkPoint {
            session: session.id.clone(),
            turn,
        };
        loop {
            let new = NewSession {
                id: SessionId::at(now, (self.world.random)()),
                project: session.project.clone(),
                title: title.clone(),
                feature: session.feature.clone(),
                provider: session.provider.clone(),
                at: now,
            };
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
    pub async fn delete(&self, session: &Session) -> Result<(), EngineError> {
        let (hold, _) = self.hold(&session.id).await?;
        Ok(self.store.delete(&hold.lease).await?)
    }

    /// Claims a session and closes what was cut off in it.
    async fn hold_idle(&self, id: &SessionId) -> Result<crate::hold::Hold, EngineError> {
        let (hold, taken_over) = self.hold(id).await?;
        let session = self.existing(id).await?;
        let recovered = self.recover(&session, &hold.lease).await?;
        for decision in taken_over.into_iter().chain(recovered) {
            self.store.note(id, &decision, (self.world.now)()).await?;
        }
        Ok(hold)
    }
}
