//! Sessions: creation, lookup, titles and tags, forks and moves of the head.

use async_trait::async_trait;
use jiff::Timestamp;
use segue_core::agent::ProcessIdentity;
use segue_core::id::{SessionId, TurnId};
use segue_core::session::{Lineage, Message, RefCandidate, Session, SessionSnapshot, Title};

use crate::{
    ForkPoint, Lease, NewSession, PageRequest, Result, SessionFilter, SessionPage, SessionStamp,
    StartedSession, TagChange, TagCount,
};

/// Creation and deletion of sessions.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Creates a session without turns.
    async fn create_session(&self, new: NewSession) -> Result<Session>;
    /// Creates a session, acquires its lease and records its first prompt, in one operation.
    async fn start_session(
        &self,
        new: NewSession,
        owner: ProcessIdentity,
        prompt: &Message,
    ) -> Result<StartedSession>;
    /// Deletes a session with all data that no other session shares.
    async fn delete_session(&self, lease: &Lease) -> Result<()>;
    /// Returns a session. `None` if it does not exist.
    async fn session(&self, id: &SessionId) -> Result<Option<Session>>;
    /// Returns a session with everything that plans depend on, read at one moment. `None` if it does not exist.
    async fn session_snapshot(&self, id: &SessionId) -> Result<Option<SessionSnapshot>>;
}

/// Search for sessions.
#[async_trait]
pub trait SessionQueries: Send + Sync {
    /// Returns the sessions that match a filter, newest first, one page at a time.
    async fn list_sessions(&self, filter: &SessionFilter, page: PageRequest)
    -> Result<SessionPage>;
    /// Returns, for each session, the values that show whether it has changed.
    async fn session_stamps(&self) -> Result<Vec<SessionStamp>>;
    /// Returns the sessions that a typed reference may mean.
    async fn ref_candidates(&self, text: &str) -> Result<Vec<RefCandidate>>;
}

/// Titles and tags. A change of them is not an activity, so the session's time of last activity stays unchanged.
#[async_trait]
pub trait LabelStore: Send + Sync {
    /// Sets the title that the user chose.
    async fn rename_session(&self, id: &SessionId, title: &Title) -> Result<()>;
    /// Sets the title that the model proposes, unless the user chose a title.
    async fn suggest_title(&self, id: &SessionId, title: &Title) -> Result<()>;
    /// Changes the tags of a session.
    async fn change_tags(&self, id: &SessionId, change: TagChange) -> Result<Session>;
    /// Returns all tags that at least one session has, sorted.
    async fn tag_counts(&self) -> Result<Vec<TagCount>>;
}

/// Forks, and moves of the head that are not the next turn.
#[async_trait]
pub trait HeadStore: Send + Sync {
    /// Creates a session whose head is a turn of another session. The turns up to that turn are shared, not copied. The
    /// fork gets the tags of the other session.
    async fn fork_session(&self, new: NewSession, fork_point: ForkPoint) -> Result<Session>;
    /// Moves the head back to a turn that leads to it.
    async fn revert_head(&self, lease: &Lease, to: TurnId, at: Timestamp) -> Result<Session>;
    /// Moves the head to its position before the last revert that is not undone yet.
    async fn undo_revert(&self, lease: &Lease, at: Timestamp) -> Result<Session>;
    /// Returns the head moves of a session, and the sessions that were forked from it.
    async fn lineage(&self, id: &SessionId) -> Result<Lineage>;
}
