//! Finding sessions.

use jiff::Timestamp;
use segue_core::{
    FeatureId, Message, ProviderId, Purpose, RoleName, Session, SessionId, Tag, TaskId, TurnId,
    TurnState,
};

/// Which sessions; every field that is set must fit.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of the project with this key.
    pub project: Option<String>,
    /// Working in this directory.
    pub cwd: Option<String>,
    /// Carried by this provider now.
    pub provider: Option<ProviderId>,
    /// For exactly this, and nothing narrower.
    pub purpose: Option<Purpose>,
    /// About this feature, or a task of it.
    pub feature: Option<FeatureId>,
    /// About this task, in any state.
    pub task: Option<TaskId>,
    /// In which the agent has this role.
    pub role: Option<RoleName>,
    /// With all of these tags.
    pub tags: Vec<Tag>,
    /// Touched at or after this time.
    pub since: Option<Timestamp>,
}

impl Filter {
    /// Whether only sessions of segue's own can fit: what a native session is for, only segue knows.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.purpose.is_some()
            || self.feature.is_some()
            || self.task.is_some()
            || self.role.is_some()
            || !self.tags.is_empty()
    }
}

/// A tag and how many sessions have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagCount {
    /// The tag.
    pub tag: Tag,
    /// How many sessions have it.
    pub sessions: u64,
}

/// A place in the order of sessions: just after this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// When the last session of the page before was touched.
    pub updated_at: Timestamp,
    /// Its id.
    pub id: SessionId,
}

/// Which part of the answer.
#[derive(Debug, Clone)]
pub struct Page {
    /// Where the page before ended.
    pub after: Option<Cursor>,
    /// How many sessions at most.
    pub limit: u32,
}

impl Page {
    /// The first page.
    #[must_use]
    pub fn first(limit: u32) -> Self {
        Self { after: None, limit }
    }
}

/// One page of sessions.
#[derive(Debug, Clone)]
pub struct Found {
    /// The sessions, newest first.
    pub sessions: Vec<Session>,
    /// Where to go on, if there are more.
    pub next: Option<Cursor>,
}

/// What tells whether a session has changed: another head, another title, or touched at another time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The session.
    pub id: SessionId,
    /// When it was last touched.
    pub updated_at: Timestamp,
    /// Its last turn.
    pub head: Option<TurnId>,
    /// What it is called.
    pub title: String,
}

/// What was said in a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The turn.
    pub turn: TurnId,
    /// Its number.
    pub n: u32,
    /// Where it stands.
    pub state: TurnState,
    /// The messages by number, the prompt first.
    pub messages: Vec<Message>,
}

/// How large the last request of a turn was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// By our own count of what the native session holds.
    pub estimate: u64,
    /// By the agent.
    pub context_tokens: u64,
    /// How much the model's context can hold, where the agent said so.
    pub context_window: Option<u64>,
}
