//! Health of the store and of the agents on this machine.

use schemars::JsonSchema;
use segue_core::agent::Capabilities;
use serde::{Deserialize, Serialize};

/// Health of the store and of the agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DoctorReport {
    /// Version of segue.
    pub version: String,
    /// The store.
    pub store: StoreDiagnosis,
    /// The agents.
    pub providers: Vec<AgentDiagnosis>,
}

/// Health of the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreDiagnosis {
    /// Path of the store.
    pub path: String,
    /// Version of the store's format; null if the store could not be opened.
    pub format: Option<i64>,
    /// Number of sessions; null if the store could not be opened.
    pub sessions: Option<u64>,
    /// Whether the store has no problems.
    pub healthy: bool,
    /// Problems of the store.
    pub problems: Vec<String>,
}

/// State of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentDiagnosis {
    /// Name of the agent.
    pub name: String,
    /// Version of the agent; null if it is unknown.
    pub version: Option<String>,
    /// Path of the program; null if it was not found.
    pub path: Option<String>,
    /// Transports that work, in the order in which segue tries them.
    pub transports: Vec<String>,
    /// Capabilities of the first transport that works.
    pub capabilities: Capabilities,
    /// All transports.
    pub ways: Vec<TransportDiagnosis>,
    /// Number of native sessions; null if segue cannot read them.
    pub sessions: Option<usize>,
    /// Automatic deletion by the agent; null if its rules are unknown.
    pub retention: Option<RetentionDiagnosis>,
    /// Remark on the agent; null if there is none.
    pub note: Option<String>,
}

/// State of a transport of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransportDiagnosis {
    /// Name of the transport.
    pub name: String,
    /// Version of the agent; null if it is unknown.
    pub version: Option<String>,
    /// Capabilities of the transport; null if it does not work.
    pub capabilities: Option<Capabilities>,
    /// Problem of the transport; null if it works.
    pub problem: Option<String>,
}

/// Automatic deletion of native sessions by an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RetentionDiagnosis {
    /// Whether the agent deletes sessions automatically.
    pub deletes: bool,
    /// Number of days after which it deletes a session; null without such a limit.
    pub after_days: Option<i64>,
    /// Maximum number of sessions per project; null without such a limit.
    pub keeps_at_most: Option<usize>,
    /// File with the setting; null for the default.
    pub set_in: Option<String>,
    /// Number of days that this report looks ahead.
    pub within_days: i64,
    /// Number of sessions that the agent deletes within these days and of which the archive has no current copy.
    pub due: usize,
    /// Number of sessions that the agent deletes within these days and of which the archive has a current copy.
    pub due_but_archived: usize,
}
