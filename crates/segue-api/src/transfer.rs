//! Export and import.

use jiff::Timestamp;
use schemars::JsonSchema;
use segue_core::id::{FeatureId, SessionId};
use segue_core::scope::{RoleName, TaskId, TaskState};
use serde::{Deserialize, Serialize};

use crate::error::SegueErrorClass;

/// Result of an export, or its expected result with `--dry-run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExportResult {
    /// Directory of the export.
    pub to: String,
    /// Whether nothing was written, because of `--dry-run`.
    pub dry_run: bool,
    /// Exported sessions.
    pub sessions: Vec<ExportedSession>,
    /// Files of the export.
    pub files: Vec<ExportedFile>,
}

/// An exported session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExportedSession {
    /// ID of the session.
    pub id: SessionId,
    /// Name of the session in the files.
    pub name: String,
    /// Exported content, which depends on the format.
    #[serde(flatten)]
    pub content: ExportedContent,
}

/// Exported content of a session.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ExportedContent {
    /// Content in the format `dagent`.
    Dagent {
        /// Number of messages after the checkpoint.
        messages: usize,
        /// Number of messages that the checkpoint covers.
        archived: usize,
        /// Number of omitted messages, because they have no text.
        left_out: usize,
        /// Version of the checkpoint; null if the session has none.
        checkpoint: Option<u64>,
    },
    /// Content in another format.
    Transcript {
        /// Number of turns.
        turns: u32,
    },
}

/// A file of an export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExportedFile {
    /// Path of the file.
    pub path: String,
    /// Change of the file.
    pub outcome: ExportedFileChange,
}

/// Change of a file by an export.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExportedFileChange {
    /// The file is new.
    Written,
    /// The file existed with another content.
    Replaced,
    /// The file existed with the same content.
    Unchanged,
}

/// Result of an import or a migration, or its expected result with `--dry-run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportResult {
    /// Directory or file of the import.
    pub from: String,
    /// Whether nothing was imported, because of `--dry-run`.
    pub dry_run: bool,
    /// Results for the sessions.
    pub entries: Vec<ImportedEntry>,
    /// Problems of the directory.
    pub remarks: Vec<String>,
    /// Number of sessions that were imported.
    pub imported: usize,
    /// Number of sessions that were present already.
    pub already: usize,
    /// Number of sessions that could not be read.
    pub failed: usize,
    /// Error if a session could not be read; otherwise null.
    pub error: Option<ImportFailure>,
}

/// Result for one session of an import.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportedEntry {
    /// Name of the session in the files; for an old file, its path.
    pub name: String,
    /// Path of the file.
    pub path: String,
    /// Outcome for the session.
    pub outcome: ImportedEntryOutcome,
    /// ID of the session; null if there is none.
    pub session_id: Option<SessionId>,
    /// Number of messages; null if the session could not be read.
    pub messages: Option<usize>,
    /// Version of the checkpoint; null if there is none.
    pub checkpoint: Option<u64>,
    /// Feature that the session is for.
    pub feature: Option<FeatureId>,
    /// Task that the session is for.
    pub task: Option<TaskId>,
    /// State of the task that the session is for.
    pub task_state: Option<TaskState>,
    /// Role of the agent in the session.
    pub role: Option<RoleName>,
    /// Time at which the session began; null if the session could not be read.
    pub created_at: Option<Timestamp>,
    /// Time of the last activity; null if the session could not be read.
    pub updated_at: Option<Timestamp>,
    /// Path of the copy of an old file; null if there is none.
    pub backup: Option<String>,
    /// Omitted or assumed values.
    pub remarks: Vec<String>,
    /// Reason for a failure; null if the session could be read.
    pub error: Option<String>,
}

/// Outcome of an import for one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImportedEntryOutcome {
    /// The session was imported.
    Imported,
    /// The session would be imported.
    WouldImport,
    /// The session was present already.
    Already,
    /// The session has no messages.
    Nothing,
    /// The session could not be read.
    Failed,
}

/// Error of an import.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportFailure {
    /// Kind of the error.
    pub class: SegueErrorClass,
    /// Message for people.
    pub message: String,
    /// Possible action of the user.
    pub hint: String,
}
