//! Events of a turn while it runs.

use serde::{Deserialize, Serialize};

use crate::enum_names::named_enum;
use crate::json::Json;
use crate::session::{InlineData, Usage};

named_enum! {
    /// Status of a tool call.
    pub enum ToolStatus {
        /// Announced, and possibly waiting for permission.
        Pending => "pending",
        /// Running.
        InProgress => "in_progress",
        /// Finished successfully.
        Completed => "completed",
        /// Failed or refused.
        Failed => "failed",
    }
}

impl ToolStatus {
    /// Returns `true` if the call has ended and no update will follow.
    #[must_use]
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// A tool call, with the data that the agent has sent up to now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// Agent's id of the call.
    pub id: String,
    /// Agent's name for the call.
    pub name: String,
    /// Kind of the tool: `read`, `edit`, `execute`, `search`, `think`, `fetch`, `other`.
    pub kind: String,
    /// Arguments of the call.
    pub args: Json,
    /// Status of the call.
    pub status: ToolStatus,
    /// Result of the call. `None` until it has ended.
    pub output: Option<Json>,
    /// Changes to files, if the agent reports them.
    pub diffs: Vec<Diff>,
}

/// A change to a file by a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "FileDiff")
)]
pub struct Diff {
    /// Path of the file.
    pub path: String,
    /// Change as a unified diff, without the lines that name the file.
    pub patch: String,
}

/// A step of an agent's plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "PlannedStep")
)]
pub struct PlanStep {
    /// Description of the step.
    pub text: String,
    /// Status of the step.
    pub status: PlanStatus,
}

named_enum! {
    /// Status of a step of a plan.
    pub enum PlanStatus {
        /// Not started.
        Pending => "pending",
        /// In progress.
        InProgress => "in_progress",
        /// Done.
        Completed => "completed",
    }
}

/// Reason why the agent stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The agent was done.
    EndTurn,
    /// The agent reached a limit of its own (tokens, requests) and may not be done.
    Limit,
    /// The agent refused to answer.
    Refusal,
    /// The turn was cancelled.
    Cancelled,
}

/// End of a turn as the agent reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnEnd {
    /// Reason why the agent stopped.
    pub reason: StopReason,
    /// Tokens that the turn used.
    pub usage: Usage,
}

/// An event that an agent sends during a turn, in a form that is the same for all agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEvent {
    /// A chunk of the answer's text.
    Text(String),
    /// A chunk of a thought.
    Thought(String),
    /// An image or another file in the answer.
    Data(InlineData),
    /// A tool call that was announced or updated. Contains all data of the call, not only the change.
    Tool(ToolCall),
    /// Token counts, as far as the agent reported them.
    Usage(Usage),
    /// Title that the agent gave to the session.
    Title(String),
    /// The agent's complete plan, each time it changes.
    Plan(Vec<PlanStep>),
    /// The agent compacted its own context, so it may have lost details.
    Compacted,
    /// An update of a kind that this version cannot interpret, stored verbatim.
    Unknown(Json),
    /// Output that is not part of the protocol. The agent continues.
    Garbage(String),
}

impl AgentEvent {
    /// Returns `true` if the event shows that the agent has started to answer, so that the prompt may have had effects.
    #[must_use]
    pub fn is_agent_activity(&self) -> bool {
        match self {
            Self::Text(_)
            | Self::Thought(_)
            | Self::Data(_)
            | Self::Tool(_)
            | Self::Plan(_)
            | Self::Unknown(_) => true,
            Self::Usage(_) | Self::Title(_) | Self::Compacted | Self::Garbage(_) => false,
        }
    }
}
