//! Copies of native sessions in the archive and in the trash.

use jiff::Timestamp;
use schemars::JsonSchema;
use segue_core::id::{NativeId, ProviderId, SessionId};
use serde::{Deserialize, Serialize};

/// A copy of a native session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedCopy {
    /// Agent of the session.
    pub provider: ProviderId,
    /// Agent's ID for the conversation.
    pub native_session_id: NativeId,
    /// Storage of the copy.
    pub kept: CopyStorage,
    /// Directory of the copy.
    pub path: String,
    /// Title of the session; null if the agent does not record one.
    pub title: Option<String>,
    /// Working directory; null if the agent does not record it.
    pub cwd: Option<String>,
    /// Number of turns; null if they could not be counted.
    pub turns: Option<u32>,
    /// Time at which the session began; null if the agent does not record it.
    pub created_at: Option<Timestamp>,
    /// Time of the last activity.
    pub updated_at: Timestamp,
    /// Time of the copy.
    pub copied_at: Timestamp,
    /// Size of the files in bytes.
    pub bytes: u64,
    /// Size of the compressed files in bytes.
    pub packed_bytes: u64,
    /// Paths of the files, relative to the agent's home directory.
    pub files: Vec<String>,
}

/// Storage of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CopyStorage {
    /// The archive.
    Archive,
    /// The trash, for copies of deleted sessions.
    Trash,
}

/// Result for a native session that was to be archived.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArchivedNative {
    /// The copy.
    #[serde(flatten)]
    pub copy: ListedCopy,
    /// Change of the archive.
    pub outcome: ArchiveChange,
}

/// Change of the archive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArchiveChange {
    /// The archive has a new copy.
    Archived,
    /// The copy was updated.
    Renewed,
    /// The archive already had a current copy.
    Already,
}

/// Expected result for a native session that would be archived.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArchivableNative {
    /// Agent of the session.
    pub provider: ProviderId,
    /// Agent's ID for the conversation.
    pub native_session_id: NativeId,
    /// Whether the archive already has a current copy.
    pub archived: bool,
}

/// Result of a restore.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RestoredNative {
    /// The native session, as `provider:native_session_id`.
    pub restored: String,
    /// Storage of the copy.
    pub from: CopyStorage,
    /// Files that were restored.
    pub files: Vec<String>,
    /// Files that existed already.
    pub unchanged: Vec<String>,
    /// Number of sessions that the agent itself imported.
    pub taken_back_by_agent: usize,
    /// Session of segue that uses the native session again; null if there is none.
    pub session_id: Option<SessionId>,
}
