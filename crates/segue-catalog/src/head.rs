//! Metadata of a native session that is available without reading the complete session.

use jiff::Timestamp;
use segue_core::brief::Sent;
use segue_core::checkpoint::is_summariser;
use segue_core::id::NativeId;
use segue_core::session::Title;

use crate::{Found, ReadError, Reader};

/// Kind of a native session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A conversation with the user, or with a program that sends prompts for the user.
    Conversation,
    /// Work of an agent inside another conversation, or a session that summarises one.
    Subagent,
    /// A session without messages.
    Empty,
}

/// Head of a native session: the metadata that a list needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Id that the agent gave the session.
    pub id: NativeId,
    /// Kind of the session.
    pub kind: Kind,
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
    pub version: Option<String>,
}

/// Reads the head of a session. Marks a session that a summariser used as a sub-agent's, because the user does not
/// resume such a session.
pub(crate) fn head_of(reader: &dyn Reader, found: &Found) -> Result<Head, ReadError> {
    let mut head = reader.head(found)?;
    if head.first_prompt.as_deref().is_some_and(is_summariser) {
        head.kind = Kind::Subagent;
    }
    Ok(head)
}

/// Returns the error for a file without messages.
pub(crate) fn nothing_said(found: &Found) -> ReadError {
    let why = match found.size {
        0 => "it is empty",
        _ => "there is no conversation in it",
    };
    ReadError::not_a_session(&found.path, why)
}

impl Head {
    /// Creates a head with only an id and a time.
    #[must_use]
    pub fn new(id: NativeId, updated_at: Timestamp) -> Self {
        Self {
            id,
            kind: Kind::Empty,
            cwd: None,
            branch: None,
            created_at: None,
            updated_at,
            title: None,
            first_prompt: None,
            forked_from: None,
            version: None,
        }
    }
}

/// Maximum number of bytes of a first prompt in a head.
const KEPT: usize = 64 << 10;

/// Returns the part of a first prompt that a head contains.
pub(crate) fn opening(prompt: &str) -> String {
    let bare = Sent::without_brief(prompt);
    let end = bare.floor_char_boundary(KEPT);
    bare.get(..end).unwrap_or_default().to_owned()
}
