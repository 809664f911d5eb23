//! Metadata of a native session that is available without reading the complete session.

use jiff::Timestamp;
use segue_core::brief::FirstPrompt;
use segue_core::id::NativeId;
use segue_core::session::Title;

/// Kind of a native session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NativeSessionKind {
    /// A conversation with the user, or with a program that sends prompts for the user.
    Conversation,
    /// Work of an agent inside another conversation, or a session that summarises one.
    Subagent,
    /// A session without messages.
    Empty,
}

/// Head of a native session: the metadata that a list needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHead {
    /// Id that the agent gave the session.
    pub id: NativeId,
    /// Kind of the session.
    pub kind: NativeSessionKind,
    /// Working directory, as the agent wrote it.
    pub cwd: Option<String>,
    /// Branch that was checked out.
    pub branch: Option<String>,
    /// Time at which the session began.
    pub created_at: Option<Timestamp>,
    /// Time of the last activity according to the end of the file, or else of the last write to the file.
    pub updated_at: Timestamp,
    /// Title of the session.
    pub title: Option<Title>,
    /// First prompt of the user without a brief: its first 64 KiB, including the tags with which it may begin.
    pub first_prompt: Option<String>,
    /// Session from which this one was forked.
    pub forked_from: Option<String>,
    /// Version of the agent that created the session.
    pub agent_version: Option<String>,
}

impl SessionHead {
    /// Creates a head with only an id and a time.
    #[must_use]
    pub fn new(id: NativeId, updated_at: Timestamp) -> Self {
        Self {
            id,
            kind: NativeSessionKind::Empty,
            cwd: None,
            branch: None,
            created_at: None,
            updated_at,
            title: None,
            first_prompt: None,
            forked_from: None,
            agent_version: None,
        }
    }
}

/// Maximum number of bytes of a first prompt in a head.
const MAX_FIRST_PROMPT_BYTES: usize = 64 << 10;

/// Returns the part of a first prompt that a head contains.
pub(crate) fn truncate_first_prompt(prompt: &str) -> String {
    let without_brief = FirstPrompt::strip_brief(prompt);
    let end = without_brief.floor_char_boundary(MAX_FIRST_PROMPT_BYTES);
    without_brief.get(..end).unwrap_or_default().to_owned()
}
