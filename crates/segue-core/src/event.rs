//! What happens during a turn, as it happens.

use crate::names::names;
use crate::{InlineData, Json, Usage};

/// Where a tool call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolStatus {
    /// Announced, perhaps waiting for permission.
    Pending,
    /// Running.
    InProgress,
    /// Done.
    Completed,
    /// Failed or refused.
    Failed,
}

names!(ToolStatus {
    Pending => "pending",
    InProgress => "in_progress",
    Completed => "completed",
    Failed => "failed",
});

impl ToolStatus {
    /// Whether nothing more will come of the call.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// A tool call as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The agent's id for it.
    pub id: String,
    /// What the agent calls it.
    pub name: String,
    /// The sort of tool: `read`, `edit`, `execute`, `search`, `think`, `fetch`, `other`.
    pub kind: String,
    /// Its arguments.
    pub args: Json,
    /// Where it stands.
    pub status: ToolStatus,
    /// What came of it, once it is over.
    pub output: Option<Json>,
    /// What it changes in files, as far as the agent shows it.
    pub diffs: Vec<Diff>,
}

/// A change to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    /// The file.
    pub path: String,
    /// The change as a unified diff, without the lines that name the file.
    pub patch: String,
}

/// One step of what the agent plans to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanStep {
    /// What it is.
    pub text: String,
    /// Where it stands.
    pub status: PlanStatus,
}

/// Where a planned step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanStatus {
    /// Not begun.
    Pending,
    /// Under way.
    InProgress,
    /// Done.
    Completed,
}

names!(PlanStatus {
    Pending => "pending",
    InProgress => "in_progress",
    Completed => "completed",
});

/// Why the agent stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// It was done.
    EndTurn,
    /// It hit a limit of its own (tokens, requests) and may not be done.
    Limit,
    /// It would not.
    Refusal,
    /// It was told to.
    Cancelled,
}

/// How a turn ended on the agent's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnEnd {
    /// Why the agent stopped.
    pub reason: StopReason,
    /// What the turn used.
    pub usage: Usage,
}

/// What an agent sends during a turn, in our own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEvent {
    /// Some words of the answer.
    Text(String),
    /// Some words of thinking.
    Thought(String),
    /// A picture or another file in the answer.
    Data(InlineData),
    /// A tool call was announced or changed; the whole of what is known of it.
    Tool(ToolCall),
    /// Figures, as far as the agent gave them.
    Usage(Usage),
    /// The agent named the session.
    Title(String),
    /// What the agent plans to do, the whole of it each time.
    Plan(Vec<PlanStep>),
    /// The agent made its own context smaller; what it knew in detail before, it may not know any more.
    Compacted,
    /// A kind of update this version does not know, kept verbatim.
    Unknown(Json),
    /// Something that was not the protocol at all; the agent goes on.
    Garbage(String),
}

impl AgentEvent {
    /// Whether the agent has begun to answer by it, so that the prompt may have had its effects.
    #[must_use]
    pub fn is_work(&self) -> bool {
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

/// What segue decided by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionKind {
    /// Which provider to use.
    Provider,
    /// Which session to go on with, where that is news.
    Session,
    /// A session goes on as it is wont to.
    Continued,
    /// How the conversation was opened.
    Opened,
    /// A turn that was cut off was closed.
    Recovered,
    /// Turns that were made in the agent's own program were taken in.
    Outside,
    /// A dead process's claim on the session was taken over.
    TakenOver,
    /// A permission request was answered.
    Permission,
    /// A native session was kept from harm by its own program, or put back.
    Protected,
    /// What a role knows of the project was gathered anew, or not all of it fits.
    Context,
    /// The agent made its own context smaller.
    Compacted,
    /// A native session is over by a limit, and the next prompt opens another one.
    Rotated,
    /// A prompt waits, since its agent failed or rests.
    BackedOff,
    /// Another agent goes on.
    HandedOver,
    /// A prompt was not let through.
    Stopped,
    /// Something odd that did not stop the turn.
    Oddity,
}

names!(DecisionKind {
    Provider => "provider",
    Session => "session",
    Continued => "continued",
    Opened => "opened",
    Recovered => "recovered",
    Outside => "outside",
    TakenOver => "taken_over",
    Permission => "permission",
    Protected => "protected",
    Context => "context",
    Compacted => "compacted",
    Rotated => "rotated",
    BackedOff => "backed_off",
    HandedOver => "handed_over",
    Stopped => "stopped",
    Oddity => "oddity",
});

/// An automatic decision: one line to the person, one entry in the session's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What was decided about.
    pub kind: DecisionKind,
    /// What was decided and why, in one line.
    pub text: String,
}

impl Decision {
    /// A decision in words.
    #[must_use]
    pub fn new(kind: DecisionKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }
}
