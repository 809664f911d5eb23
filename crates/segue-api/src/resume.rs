//! Resuming a session in the agent's own program.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use segue_core::id::{NativeId, ProviderId};
use serde::{Deserialize, Serialize};

/// Command that resumes a session in the agent's own program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResumeCommand {
    /// Agent of the session.
    pub provider: ProviderId,
    /// Agent's ID for the conversation.
    pub native_session_id: NativeId,
    /// Working directory.
    pub cwd: String,
    /// Path of the program.
    pub program: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Additional environment variables, by name.
    pub env: BTreeMap<String, String>,
    /// The complete command for a shell.
    pub line: String,
}
