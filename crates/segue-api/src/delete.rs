//! Deletion of sessions.

use schemars::JsonSchema;
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::session::SkipReason;
use serde::{Deserialize, Serialize};

/// Result of a deletion, or its expected result with `--dry-run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeletionResult {
    /// ID of the session, or `provider:native_session_id`.
    pub deleted: String,
    /// Native sessions that are deleted with it.
    pub native: Vec<DeletedNative>,
    /// Native sessions that are not deleted.
    pub spared: Vec<SparedNative>,
    /// Whether nothing was deleted, because of `--dry-run`.
    pub dry_run: bool,
}

/// A native session that is deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeletedNative {
    /// Agent of the session.
    pub provider: ProviderId,
    /// Agent's ID for the conversation.
    pub native_session_id: NativeId,
    /// Method of the deletion.
    pub by: DeletionMethod,
    /// The agent's own command; null unless the method is `agent`.
    pub command: Option<String>,
    /// Paths of the files.
    pub files: Vec<String>,
    /// Path of the copy in the trash; null if there is none.
    pub copy: Option<String>,
    /// ID of a process that uses the session; null if none was found.
    pub in_use_by: Option<u32>,
}

/// Method of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeletionMethod {
    /// A command of the agent.
    Agent,
    /// Removal of the files.
    Files,
    /// Removal from the archive, because only the archive had the session.
    Archive,
    /// No method, because only the agent could delete the session and it is not installed.
    Nobody,
}

/// A native session that is not deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SparedNative {
    /// Agent of the session.
    pub provider: ProviderId,
    /// Agent's ID for the conversation.
    pub native_session_id: NativeId,
    /// Reason why the session is not deleted.
    pub why: String,
    /// Reason as fields.
    pub reason: SkipReason,
}

/// Result of `session forget`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForgottenSession {
    /// ID of the session.
    pub forgotten: SessionId,
}
