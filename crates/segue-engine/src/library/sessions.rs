//! Sessions of segue: lists, views and transcripts.

use segue_core::id::{ProviderId, SessionId};
use segue_core::policy::ProviderHealth;
use segue_core::session::{
    Decision, Leg, Lineage, Message, Session, SessionSnapshot, SessionStatus, Turn, TurnState,
};
use segue_store::{LeaseHolder, PageRequest, SessionFilter, SessionOrigin, TagCount};

use crate::library::Library;
use crate::turn::message_chunks::merge_chunks;
use crate::{AccessError, Conversation};

/// Maximum number of decisions in a view.
const MAX_VIEW_DECISIONS: u32 = 1000;

/// Number of sessions in one query to the store.
const SESSION_PAGE_SIZE: u32 = 500;

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
    /// Returns all sessions that match a filter, newest first.
    pub async fn all_sessions(&self, filter: &SessionFilter) -> Result<Vec<Session>, AccessError> {
        let mut sessions = Vec::new();
        let mut page = PageRequest::first(SESSION_PAGE_SIZE);
        loop {
            let listing = self.context.store.list_sessions(filter, page.clone());
            let session_page = listing.await?;
            sessions.extend(session_page.sessions);
            if session_page.next.is_none() {
                return Ok(sessions);
            }
            page.after = session_page.next;
        }
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
        self.with_status(session).await
    }

    /// Determines the status of a session, and returns both as a [`Conversation`].
    pub(crate) async fn with_status(&self, session: Session) -> Result<Conversation, AccessError> {
        let status = self.context.leases.session_status(&session).await?;
        Ok(Conversation::Session(Box::new(session), status))
    }

    /// Loads a session with its legs, decisions and lineage.
    pub async fn session_view(&self, session: Session) -> Result<SessionView, AccessError> {
        let SessionSnapshot {
            legs, providers, ..
        } = self.context.require_snapshot(&session.id).await?;
        let (store, leases, id) = (&self.context.store, &self.context.leases, &session.id);
        Ok(SessionView {
            leg_turn_ranges: self.turn_ranges_by_leg(&legs, &session).await?,
            status: leases.session_status(&session).await?,
            decisions: store.decisions(id, MAX_VIEW_DECISIONS).await?,
            lease_holder: leases.live_lease_holder(id).await?,
            lineage: store.lineage(id).await?,
            origin: store.session_origin(id).await?,
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
        let store = &self.context.store;
        let attempts = store.attempts(turn.id).await?;
        let provider = match attempts.last() {
            None => legs.first().map(|leg| leg.provider.clone()),
            Some(last) => match legs.iter().find(|leg| leg.id == last.leg) {
                Some(leg) => Some(leg.provider.clone()),
                None => store.leg(last.leg).await?.map(|leg| leg.provider),
            },
        };
        Ok(provider.unwrap_or_else(|| session.provider.clone()))
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
            turns.push(TranscriptTurn {
                messages: merge_chunks(self.context.store.messages(turn.id).await?),
                provider: self.turn_provider(&turn, &legs, &session).await?,
                turn,
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
    async fn turn_ranges_by_leg(
        &self,
        legs: &[Leg],
        session: &Session,
    ) -> Result<Vec<Option<(u32, u32)>>, AccessError> {
        let mut ranges: Vec<Option<(u32, u32)>> = vec![None; legs.len()];
        for turn in self.context.store.turns(&session.id).await? {
            let attempts = self.context.store.attempts(turn.id).await?;
            let last_leg = attempts.last().map(|attempt| attempt.leg);
            let mut legs_with_ranges = legs.iter().zip(&mut ranges);
            if let Some((_, range)) = legs_with_ranges.find(|(leg, _)| Some(leg.id) == last_leg) {
                let first = range.map_or(turn.number, |(first, _)| first);
                *range = Some((first, turn.number));
            }
        }
        Ok(ranges)
    }
}
