//! Search results.

use jiff::Timestamp;
use schemars::JsonSchema;
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::session::Role;
use serde::{Deserialize, Serialize};

use crate::session::ListedStatus;

/// A turn that matches a search, or a session of which only the title or the filters match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchMatch {
    /// ID of the session; null for a native session, which `provider:native_session_id` identifies.
    pub id: Option<SessionId>,
    /// Agent of the session.
    pub provider: ProviderId,
    /// Agent's ID for the conversation.
    pub native_session_id: Option<NativeId>,
    /// Number of the turn, for `session show --turn`; null if only the title or the filters match.
    pub turn: Option<u32>,
    /// Author of the quoted text; null if `turn` is null.
    pub role: Option<Role>,
    /// Time at which the turn ended; null if it is unknown.
    pub at: Option<Timestamp>,
    /// About 160 characters around the match. Empty if the turn can no longer be read, null if `turn` is null.
    pub snippet: Option<String>,
    /// Relevance of the session, higher is better; null unless the results are sorted by it.
    pub score: Option<f64>,
    /// Number of turns of the session that contain all words.
    pub found_in_turns: usize,
    /// Title of the session; null if the agent does not record one.
    pub title: Option<String>,
    /// Project of the session; null if the agent does not record it.
    pub project: Option<String>,
    /// Working directory; null if the agent does not record it.
    pub cwd: Option<String>,
    /// Tags of the session, sorted.
    pub tags: Vec<String>,
    /// Status of the session.
    pub status: ListedStatus,
    /// Time of the last activity in the session.
    pub updated_at: Timestamp,
}
