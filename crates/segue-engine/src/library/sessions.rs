//! Sessions of segue: lists, views and transcripts.

use segue_core::id::{ProviderId, SessionId};
use segue_core::policy::ProviderHealth;
use segue_core::session::{
    Decision, Leg, Lineage, Message, Session, SessionSnapshot, SessionStatus, Turn, TurnState,
};
use segue_store::{LeaseHolder, PageCursor, PageRequest, SessionFilter, SessionOrigin, TagCount};

use crate::library::Library;
use crate::turn::message_chunks::merge_chunks;
use crate::{AccessError, Conversation};

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

impl Library {
    /// Returns the sessions that match a filter, newest first, with their status, and the position of the next page.
    pub async fn list_sessions(
        &self,
        filter: &SessionFilter,
        page: PageRequest,
    ) -> Result<ListedSessions, AccessError> {
        let session_page = self.context.store.list_sessions(filter, page).await?;
        let mut sessions = Vec::with_capacity(session_page.sessions.len());
        for session in session_page.sessions {
            let status = self.context.leases.session_status(&session).await?;
            sessions.push((session, status));
        }
        Ok((sessions, session_page.next))
    }

    /// Returns the status of a session. A turn that is marked as running without a live process was interrupted.
    pub async fn session_status(&self, session: &Session) -> Result<SessionStatus, AccessError> {
        self.context.leases.session_status(session).await
    }

    /// Returns the session with an id. Fails if it does not exist.
    pub async fn session(&self, id: &SessionId) -> Result<Session, AccessError> {
        Ok(self.context.require_session(id).await?)
    }

    /// Returns the session with an id as a [`Conversation`].
    pub async fn conversation(&self, id: &SessionId) -> Result<Conversation, AccessError> {
        let session = self.context.require_session(id).await?;
        let status = self.context.leases.session_status(&session).await?;
        Ok(Conversation::Session(Box::new(session), status))
    }

    /// Loads a session with its legs, decisions and lineage.
    pub async fn session_view(&self, session: Session) -> Result<SessionView, AccessError> {
        let SessionSnapshot {
            legs, providers, ..
        } = self.context.require_snapshot(&session.id).await?;
        let leg_turn_ranges = self.turn_ranges_by_leg(&legs, &session).await?;
        Ok(SessionView {
            status: self.context.leases.session_status(&session).await?,
            decisions: self
                .context
                .store
                .decisions(&session.id, MAX_VIEW_DECISIONS)
                .await?,
            lease_holder: self.context.leases.live_lease_holder(&session.id).await?,
            lineage: self.context.store.lineage(&session.id).await?,
            origin: self.context.store.session_origin(&session.id).await?,
            leg_turn_ranges,
            provider_health: providers.health,
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
    ) -> Result<ProviderId, AccessError> {
        let attempts = self.context.store.attempts(turn.id).await?;
        let last = attempts.last().map(|attempt| attempt.leg);
        let leg = match last {
            None => legs.first().cloned(),
            Some(last) => match legs.iter().find(|leg| leg.id == last) {
                Some(leg) => Some(leg.clone()),
                None => self.context.store.leg(last).await?,
            },
        };
        Ok(leg.map_or_else(|| session.provider.clone(), |leg| leg.provider))
    }

    /// Loads a session with all its messages.
    pub async fn transcript(&self, session: Session) -> Result<Transcript, AccessError> {
        let status = self.context.leases.session_status(&session).await?;
        let legs = self.context.store.legs(&session.id).await?;
        let mut turns = Vec::new();
        for mut turn in self.context.store.turns(&session.id).await? {
            if turn.state == TurnState::Running && status == SessionStatus::Interrupted {
                turn.state = TurnState::Interrupted;
            }
            let messages = merge_chunks(self.context.store.messages(turn.id).await?);
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

    /// Returns all tags in use, with the number of sessions that have them.
    pub async fn tags(&self) -> Result<Vec<TagCount>, AccessError> {
        Ok(self.context.store.tag_counts().await?)
    }

    /// Returns for each leg the first and the last turn on the path to the head that ran on it; `None` if no turn did.
    pub(crate) async fn turn_ranges_by_leg(
        &self,
        legs: &[Leg],
        session: &Session,
    ) -> Result<Vec<Option<(u32, u32)>>, AccessError> {
        let mut ranges: Vec<Option<(u32, u32)>> = vec![None; legs.len()];
        for turn in self.context.store.turns(&session.id).await? {
            let attempts = self.context.store.attempts(turn.id).await?;
            let Some(last) = attempts.last() else {
                continue;
            };
            let index = legs.iter().position(|leg| leg.id == last.leg);
            if let Some(turns) = index.and_then(|index| ranges.get_mut(index)) {
                let first = turns.map_or(turn.number, |(first, _)| first);
                *turns = Some((first, turn.number));
            }
        }
        Ok(ranges)
    }
}
