//! Arguments of the MCP tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Arguments of `session_describe`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DescribeArguments {
    /// New title of the session.
    pub description: String,
}

/// Arguments of `session_history`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HistoryArguments {
    /// Session to read; the current session by default.
    pub session: Option<String>,
    /// Maximum number of turns, counted from the last one.
    pub last: Option<u32>,
    /// Number of the first turn.
    pub from: Option<u32>,
    /// Number of the last turn.
    pub to: Option<u32>,
    /// Number of characters to skip in the first turn.
    pub skip: Option<usize>,
    /// Includes thoughts, and shows long texts and tool output in full.
    pub full: Option<bool>,
}

/// Arguments of `session_search`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchArguments {
    /// Words to search for.
    pub query: String,
    /// Maximum number of matches.
    pub limit: Option<usize>,
    /// Searches the sessions of all projects.
    pub all_projects: Option<bool>,
}
