//! Queries for sessions, and their results.

use jiff::Timestamp;
use segue_core::id::{FeatureId, ProviderId, SessionId, TurnId};
use segue_core::scope::{Purpose, RoleName, TaskId};
use segue_core::session::{Message, Session, Tag, TurnState};

/// Filter for sessions. Every field that is set must match.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// Key of the session's project.
    pub project: Option<String>,
    /// Working directory of the session.
    pub cwd: Option<String>,
    /// Current provider of the session.
    pub provider: Option<ProviderId>,
    /// Exact purpose of the session. A narrower purpose does not match.
    pub purpose: Option<Purpose>,
    /// Feature of the session, or of its task.
    pub feature: Option<FeatureId>,
    /// Task of the session, in any state.
    pub task: Option<TaskId>,
    /// Role of the agent in the session.
    pub role: Option<RoleName>,
    /// Tags, all of which the session must have.
    pub tags: Vec<Tag>,
    /// Earliest time of the last activity in the session.
    pub since: Option<Timestamp>,
}

impl SessionFilter {
    /// Creates a filter for the sessions of a project.
    #[must_use]
    pub fn in_project(key: &str) -> Self {
        Self {
            project: Some(key.to_owned()),
            ..Self::default()
        }
    }

    /// Returns `true` if only sessions of segue can match, because native sessions have no purpose and no tags.
    #[must_use]
    pub fn is_own_sessions_only(&self) -> bool {
        self.purpose.is_some()
            || self.feature.is_some()
            || self.task.is_some()
            || self.role.is_some()
            || !self.tags.is_empty()
    }
}

/// A tag with its number of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagCount {
    /// Name of the tag.
    pub tag: Tag,
    /// Number of sessions that have the tag.
    pub sessions: u64,
}

/// Position in the order of sessions, just after the session with these values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageCursor {
    /// Time of the last activity in the last session of the previous page.
    pub updated_at: Timestamp,
    /// Id of that session.
    pub id: SessionId,
}

/// Selection of a page of results.
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// End of the previous page. `None` for the first page.
    pub after: Option<PageCursor>,
    /// Maximum number of sessions.
    pub limit: u32,
}

impl PageRequest {
    /// Selects the first page.
    #[must_use]
    pub fn first(limit: u32) -> Self {
        Self { after: None, limit }
    }
}

/// A page of sessions.
#[derive(Debug, Clone)]
pub struct SessionPage {
    /// Sessions, newest first.
    pub sessions: Vec<Session>,
    /// Start of the next page. `None` if no sessions remain.
    pub next: Option<PageCursor>,
}

impl SessionPage {
    /// Creates a page from at most one session more than `limit`, which shows that a next page exists.
    #[must_use]
    pub fn from_sessions(mut sessions: Vec<Session>, limit: u32) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = sessions.len() > limit;
        sessions.truncate(limit);
        let next = sessions.last().filter(|_| has_more).map(|last| PageCursor {
            updated_at: last.updated_at,
            id: last.id.clone(),
        });
        Self { sessions, next }
    }
}

/// Values that show whether a session has changed: its head, its title and the time of its last activity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStamp {
    /// Id of the session.
    pub id: SessionId,
    /// Time of the last activity.
    pub updated_at: Timestamp,
    /// Last turn of the session. `None` before the first prompt.
    pub head: Option<TurnId>,
    /// Title of the session.
    pub title: String,
}

/// Messages of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTurn {
    /// Key of the turn.
    pub turn: TurnId,
    /// Number of the turn.
    pub number: u32,
    /// State of the turn.
    pub state: TurnState,
    /// Messages in order, the prompt first.
    pub messages: Vec<Message>,
}

/// Size of the last request of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextMeasurement {
    /// Tokens in the native session by segue's own estimate.
    pub estimated_tokens: u64,
    /// Tokens that the agent reported.
    pub context_tokens: u64,
    /// Size of the model's context window in tokens. `None` if the agent did not report it.
    pub context_window: Option<u64>,
}
