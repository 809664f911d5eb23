//! Actions that protect native sessions from damage by their own program.

use serde::{Deserialize, Serialize};

use crate::enum_names::named_enum;

/// An action that protected a native session, or a failure to do so.
///
/// Except for [`GuardAction::McpServerOmitted`], the native sessions are those of Gemini CLI, which deletes sessions
/// under some conditions. `short_id` is the part of the native id that the names of its files contain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum GuardAction {
    /// An MCP server was omitted, because `codex exec` cannot pass a variable with this name to the server.
    McpServerOmitted {
        /// Name of the server.
        server: String,
        /// Name of the variable.
        variable: String,
    },
    /// A session was copied, because Gemini CLI continues without segue and may delete it.
    CopySaved {
        /// Short id of the session.
        short_id: String,
    },
    /// A session could not be copied.
    CopyFailed {
        /// Short id of the session.
        short_id: String,
        /// Error of the operating system.
        error: String,
        /// Whether Gemini CLI may delete the session at its next start because of a duplicate.
        is_at_risk: bool,
    },
    /// A session was restored from a copy.
    SessionRestored {
        /// Short id of the session.
        short_id: String,
        /// Damage that was repaired.
        cause: RestoreCause,
    },
    /// A session could not be restored.
    RestoreFailed {
        /// Short id of the session.
        short_id: String,
        /// Error of the operating system.
        error: String,
    },
    /// An empty duplicate of a session was removed, because Gemini CLI would have deleted both.
    DuplicateRemoved {
        /// Short id of the session.
        short_id: String,
    },
    /// An empty duplicate of a session could not be removed.
    DuplicateNotRemoved {
        /// Short id of the session.
        short_id: String,
        /// Error of the operating system.
        error: String,
    },
    /// The sessions of the directory could not be protected, because of an error in segue itself.
    GuardFailed,
}

named_enum! {
    /// Damage of a session that was restored.
    pub enum RestoreCause {
        /// The session had been deleted by an unknown program.
        Deleted => "deleted",
        /// Gemini CLI had deleted the session.
        DeletedByAgent => "deleted_by_agent",
        /// Gemini CLI had deleted the session while it was in use.
        DeletedInUse => "deleted_in_use",
        /// Gemini CLI had removed all messages from the session.
        Emptied => "emptied",
        /// Gemini CLI had restarted the session without its messages.
        Restarted => "restarted",
    }
}
