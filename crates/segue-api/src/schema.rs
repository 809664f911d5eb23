//! JSON Schemas of the shapes, by name.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::archive::{ArchivableNative, ArchivedNative, ListedCopy, RestoredNative};
use crate::brief::{PreviewedBrief, SessionContext};
use crate::chat::{ChatEvent, ChatResult};
use crate::checkpoint::{CheckpointDetails, CheckpointDiff, CompactionResult, ListedVersion};
use crate::config::{
    ListedConfigFile, ListedProblem, ListedSetting, ListedTrust, TrustResult, TrustRevocation,
};
use crate::delete::{DeletionResult, ForgottenSession};
use crate::doctor::DoctorReport;
use crate::error::CommandError;
use crate::feed::FeedEvent;
use crate::index::{IndexSummary, RefreshedIndex};
use crate::resume::ResumeCommand;
use crate::revert::{RevertPreview, RevertResult};
use crate::role::ListedRole;
use crate::search::SearchMatch;
use crate::session::{ListedSession, SessionInfo, UsedTag};
use crate::stats::StatsReport;
use crate::transcript::SessionTranscript;
use crate::transfer::{ExportResult, ImportResult};

/// A shape with a schema.
#[derive(Debug, Clone, Copy)]
pub struct NamedSchema {
    /// Name for `segue schema`.
    pub name: &'static str,
    /// Meaning of the shape, and the commands that print it with `--json`.
    pub description: &'static str,
    build: fn() -> Schema,
    #[cfg(feature = "round-trip")]
    read_and_write: fn(Value) -> Result<Value, serde_json::Error>,
}

impl NamedSchema {
    const fn new<T>(name: &'static str, description: &'static str) -> Self
    where
        T: JsonSchema + Serialize + DeserializeOwned,
    {
        Self {
            name,
            description,
            build: build_schema::<T>,
            #[cfg(feature = "round-trip")]
            read_and_write: |output| serde_json::to_value(serde_json::from_value::<T>(output)?),
        }
    }

    /// Returns the JSON Schema (draft 2020-12).
    #[must_use]
    pub fn schema(&self) -> Schema {
        let mut schema = (self.build)();
        schema.insert("title".to_owned(), self.name.into());
        schema.insert("description".to_owned(), self.description.into());
        schema
    }

    /// Reads an output into its type and writes it again. The result equals the output if the type describes every
    /// field of it.
    #[cfg(feature = "round-trip")]
    pub fn read_and_write(&self, output: Value) -> Result<Value, serde_json::Error> {
        (self.read_and_write)(output)
    }
}

fn build_schema<T: JsonSchema>() -> Schema {
    // A program that reads the output can rely on every field that segue always writes.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with_transform(RecursiveTransform(word_null_as_json));
    settings.into_generator().into_root_schema_for::<T>()
}

/// Replaces `None` in the description of a schema, because the domain's types describe a missing value in Rust.
fn word_null_as_json(schema: &mut Schema) {
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description
            .replace(". `None`", ". Null")
            .replace("`None`", "null");
    }
}

/// All shapes, sorted by name.
pub const SCHEMAS: &[NamedSchema] = &[
    NamedSchema::new::<Vec<ArchivedNative>>(
        "archive",
        "Archived native sessions: `session archive`",
    ),
    NamedSchema::new::<Vec<ListedCopy>>(
        "archive-list",
        "Copies in the archive and the trash: `session archive --list`",
    ),
    NamedSchema::new::<Vec<ArchivableNative>>(
        "archive-plan",
        "Native sessions to archive: `session archive --dry-run`",
    ),
    NamedSchema::new::<ChatResult>(
        "chat",
        "Result of a turn: `chat`, `session resume` with a prompt, `session handoff --prompt`",
    ),
    NamedSchema::new::<ChatEvent>(
        "chat-event",
        "A line of `chat --events` and `session resume --events`",
    ),
    NamedSchema::new::<CheckpointDetails>(
        "checkpoint",
        "A version of a checkpoint: `session checkpoint`, and its changes",
    ),
    NamedSchema::new::<CheckpointDiff>(
        "checkpoint-diff",
        "Difference of two versions: `session checkpoint diff`",
    ),
    NamedSchema::new::<Vec<ListedVersion>>(
        "checkpoint-list",
        "Versions of a checkpoint: `session checkpoint list`",
    ),
    NamedSchema::new::<CompactionResult>(
        "compact",
        "Result or plan of a compaction: `session compact`",
    ),
    NamedSchema::new::<Vec<ListedProblem>>(
        "config-check",
        "Problems in the configuration: `config check`",
    ),
    NamedSchema::new::<Vec<ListedConfigFile>>("config-path", "Configuration files: `config path`"),
    NamedSchema::new::<Vec<ListedSetting>>("config-show", "Settings: `config show`"),
    NamedSchema::new::<SessionContext>(
        "context",
        "Project context of a session: `session context`",
    ),
    NamedSchema::new::<DeletionResult>("delete", "Result or plan of a deletion: `session delete`"),
    NamedSchema::new::<DoctorReport>("doctor", "Health of the store and the agents: `doctor`"),
    NamedSchema::new::<CommandError>("error", "Error of any command except `chat`"),
    NamedSchema::new::<FeedEvent>("event", "A change in the store: a line of `events`"),
    NamedSchema::new::<ExportResult>("export", "Result or plan of an export: `session export`"),
    NamedSchema::new::<ForgottenSession>("forget", "Deleted record of a session: `session forget`"),
    NamedSchema::new::<ImportResult>(
        "import",
        "Result or plan of an import: `session import`, `session migrate`",
    ),
    NamedSchema::new::<RefreshedIndex>(
        "index-refresh",
        "Work of a refresh: `index refresh`, `index rebuild`",
    ),
    NamedSchema::new::<IndexSummary>(
        "index-status",
        "Status of the session index: `index status`",
    ),
    NamedSchema::new::<PreviewedBrief>(
        "preview",
        "Brief for a new native session: `session preview`",
    ),
    NamedSchema::new::<RestoredNative>("restore", "A restored native session: `session restore`"),
    NamedSchema::new::<ResumeCommand>(
        "resume-print",
        "Command of the agent's own program: `session resume --print`",
    ),
    NamedSchema::new::<RevertResult>(
        "revert",
        "A session after a change of its head: `session revert`, `session undo`",
    ),
    NamedSchema::new::<RevertPreview>(
        "revert-plan",
        "Plan of a revert: `session revert --dry-run`",
    ),
    NamedSchema::new::<ListedRole>("role", "A role: `role show`"),
    NamedSchema::new::<Vec<ListedRole>>("role-list", "Roles: `role list`"),
    NamedSchema::new::<Vec<ListedSchema>>("schema-list", "Names of the schemas: `schema`"),
    NamedSchema::new::<Vec<SearchMatch>>("search", "Matching turns and sessions: `session search`"),
    NamedSchema::new::<ListedSession>(
        "session",
        "A session after a change: `session rename`, `tag`, `adopt`, `fork` and `handoff`",
    ),
    NamedSchema::new::<SessionInfo>("session-info", "Details of a session: `session info`"),
    NamedSchema::new::<Vec<ListedSession>>(
        "session-list",
        "Sessions and native sessions: `session list`",
    ),
    NamedSchema::new::<SessionTranscript>(
        "session-show",
        "Transcript of a session: `session show`, `session export --format json`",
    ),
    NamedSchema::new::<StatsReport>("stats", "Token usage and cost: `session stats`"),
    NamedSchema::new::<Vec<UsedTag>>("tag-list", "Tags in use: `session tag --list`"),
    NamedSchema::new::<TrustResult>("trust", "Trust in the project's file: `trust`"),
    NamedSchema::new::<Vec<ListedTrust>>("trust-list", "Trusted files: `trust --list`"),
    NamedSchema::new::<TrustRevocation>(
        "trust-revoke",
        "Result of revoking trust: `trust --revoke`",
    ),
];

/// Returns the shape with this name. `None` if it does not exist.
#[must_use]
pub fn find_schema(name: &str) -> Option<&'static NamedSchema> {
    SCHEMAS.iter().find(|schema| schema.name == name)
}

/// An entry of the list of schemas.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedSchema {
    /// Name of the schema.
    pub name: String,
    /// Meaning of the shape, and the commands that print it with `--json`.
    pub description: String,
}

impl From<&NamedSchema> for ListedSchema {
    fn from(schema: &NamedSchema) -> Self {
        Self {
            name: schema.name.to_owned(),
            description: schema.description.to_owned(),
        }
    }
}
