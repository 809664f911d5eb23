//! A session that is exported to or imported from another program.

use jiff::Timestamp;
use segue_core::agent::RoleDescription;
use segue_core::brief::CachedContext;
use segue_core::checkpoint::Checkpoint;
use segue_core::id::ProviderId;
use segue_core::scope::{HasPurpose, Purpose};
use segue_core::session::{Role, Tag, Title};
use serde_json::{Map, Value};

use crate::ExtraFields;
use crate::json_fields::format_iso_time;

/// A session that is exported or imported.
#[derive(Debug, Clone)]
pub struct PortableSession {
    /// Name of the session in the other program's files.
    pub name: String,
    /// Title; `None` if the files state none.
    pub title: Option<Title>,
    /// Purpose; `None` if the files state none.
    pub purpose: Option<Purpose>,
    /// Provider of the session; `None` if the files name none.
    pub provider: Option<ProviderId>,
    /// Tags that the user put on the session.
    pub tags: Vec<Tag>,
    /// Time at which the session was created.
    pub created_at: Timestamp,
    /// Time of the last change to the session.
    pub updated_at: Timestamp,
    /// Messages that the checkpoint covers, as far as they still exist.
    pub compacted_messages: Vec<PortableMessage>,
    /// Messages after the checkpoint.
    pub messages: Vec<PortableMessage>,
    /// Checkpoint with its token counts; `None` if the session has none.
    pub checkpoint: Option<PortableCheckpoint>,
    /// Role of the agent, for an export; `None` on import, and if no role is described.
    pub role: Option<RoleDescription>,
    /// Project context of the agent, for an export; `None` if it was not gathered.
    pub context: Option<CachedContext>,
    /// Fields of the session's files that segue has no equivalent for.
    pub extra_fields: ExtraFields,
}

impl PortableSession {
    /// Limits the times of the session to `now`, because a session that is dated in the future would be the latest one
    /// until then. The times of messages do not change. Returns a remark if a time of the session or of a message is in
    /// the future.
    pub fn limit_times_to(&mut self, now: Timestamp) -> Option<String> {
        let times = self
            .compacted_messages
            .iter()
            .chain(&self.messages)
            .map(|message| message.at);
        let session_times = [self.created_at, self.updated_at];
        let latest = times
            .chain(session_times)
            .max()
            .filter(|latest| *latest > now)?;
        self.created_at = self.created_at.min(now);
        self.updated_at = self.updated_at.min(now);
        let latest = format_iso_time(latest);
        Some(format!(
            "some times are in the future, up to {latest}; limited the session's times to now; message times are unchanged"
        ))
    }
}

impl HasPurpose for PortableSession {
    fn purpose(&self) -> Option<&Purpose> {
        self.purpose.as_ref()
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }

    fn updated_at(&self) -> Timestamp {
        self.updated_at
    }
}

/// A message, as text only.
#[derive(Debug, Clone, PartialEq)]
pub struct PortableMessage {
    /// Id of the message in the other program's files.
    pub id: String,
    /// Time of the message.
    pub at: Timestamp,
    /// Whether the file states the time. If `false`, the time is assumed.
    pub has_stated_time: bool,
    /// Author of the message.
    pub role: Role,
    /// Text of the message.
    pub text: String,
    /// Token count that the program which wrote the message stated.
    pub tokens: Option<u64>,
    /// Other fields of the message.
    pub extra_fields: Map<String, Value>,
    /// Whether the message was imported. If `false`, segue recorded it.
    pub is_imported: bool,
}

/// Name of the field that marks a message without text as a prompt.
pub(crate) const TEXTLESS_FIELD: &str = "wordless";

impl PortableMessage {
    /// Marks a message without text as a prompt, because a reader otherwise omits a message that has no text.
    #[must_use]
    pub fn with_textless_mark(mut self) -> Self {
        if self.text.trim().is_empty() {
            self.extra_fields
                .insert(TEXTLESS_FIELD.to_owned(), true.into());
        }
        self
    }

    /// Groups messages into turns. Each message of the user begins a turn.
    #[must_use]
    pub fn group_into_turns(messages: &[Self]) -> Vec<&[Self]> {
        let turns = messages.chunk_by(|_, next| next.role != Role::User);
        turns.collect()
    }
}

/// A checkpoint with its version, times and token counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortableCheckpoint {
    /// Content of the checkpoint.
    pub content: Checkpoint,
    /// Version number, from 1.
    pub version: u64,
    /// Time of the first version.
    pub created_at: Timestamp,
    /// Time of this version.
    pub updated_at: Timestamp,
    /// Tokens of the checkpoint.
    pub tokens: u64,
    /// Tokens that the last compaction read; `None` if no compaction is on record.
    pub last_compaction_tokens: Option<u64>,
    /// Tokens that all compactions saved in total.
    pub saved_tokens: u64,
    /// Whether the checkpoint was imported and is unchanged since then.
    pub is_unchanged_since_import: bool,
}

/// Result of reading one session.
#[derive(Debug, Clone)]
pub struct ParsedSession {
    /// Name of the session in the other program's files.
    pub name: String,
    /// Path of the session's file, or of the first of its files.
    pub path: String,
    /// The session, or the reason why it cannot be read.
    pub session: Result<Box<PortableSession>, String>,
    /// Values that were omitted or assumed, with the reason.
    pub remarks: Vec<String>,
}
