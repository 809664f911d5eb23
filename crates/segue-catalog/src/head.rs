//! What can be told of a native session without reading it whole.

use jiff::Timestamp;
use segue_core::{NativeId, Sent, Title, is_summariser};

use crate::{Found, ReadError, Reader};

/// What a native session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A conversation with a person, or with the program that prompts in their place.
    Conversation,
    /// What an agent did inside another conversation, or to sum one up.
    Subagent,
    /// Nothing was said in it yet.
    Empty,
}

/// The head of a native session: enough for a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// What the agent calls it.
    pub id: NativeId,
    /// What it is.
    pub kind: Kind,
    /// The directory it works in, as the agent wrote it.
    pub cwd: Option<String>,
    /// The branch that was checked out.
    pub branch: Option<String>,
    /// When it began.
    pub created_at: Option<Timestamp>,
    /// When something last happened in it, as far as its end tells; else when its file was written.
    pub updated_at: Timestamp,
    /// What it is called.
    pub title: Option<Title>,
    /// The first thing that a person asked, under the tags it may begin with: its first 64 KiB, without a brief.
    pub first_prompt: Option<String>,
    /// The session it branched off from.
    pub forked_from: Option<String>,
    /// Which version of the agent began it.
    pub version: Option<String>,
}

/// The head of a session as its reader tells it, but for one that was held to sum another up: nobody goes on with that.
pub(crate) fn head_of(reader: &dyn Reader, found: &Found) -> Result<Head, ReadError> {
    let mut head = reader.head(found)?;
    if head.first_prompt.as_deref().is_some_and(is_summariser) {
        head.kind = Kind::Subagent;
    }
    Ok(head)
}

/// Why a file in which nothing is said is no conversation.
pub(crate) fn nothing_said(found: &Found) -> ReadError {
    let why = match found.size {
        0 => "it is empty",
        _ => "there is no conversation in it",
    };
    ReadError::not_a_session(&found.path, why)
}

impl Head {
    /// A session of which nothing else is known yet.
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

/// How much of a first prompt is kept.
const KEPT: usize = 64 << 10;

/// What a head keeps of a first prompt.
pub(crate) fn opening(prompt: &str) -> String {
    let bare = Sent::without_brief(prompt);
    let end = bare.floor_char_boundary(KEPT);
    bare.get(..end).unwrap_or_default().to_owned()
}
