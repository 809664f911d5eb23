//! Turns: the result of a turn, and the events while it runs.

use schemars::JsonSchema;
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::json::Json;
use segue_core::session::{
    Decision, DecisionKind, Diff, OpenMode, OpenReason, PlanStep, ResolutionStep,
    ResolutionStepKind, ToolCall, ToolStatus, TurnState, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ErrorDetails;
use crate::text::{ShellActions, format_decision, format_resolution_step};

/// Result of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChatResult {
    /// Session of the turn. If the prompt was not saved: the intended session, or null.
    pub session_id: Option<SessionId>,
    /// Number of the turn in the session; null if the prompt was not saved, or was stopped before it was sent.
    pub turn: Option<u32>,
    /// Agent that received the prompt, or was to receive it.
    pub provider: Option<ProviderId>,
    /// Agent's ID for the conversation.
    pub native_session_id: Option<NativeId>,
    /// Number of the leg.
    pub leg: Option<u32>,
    /// Mode in which the native session was opened; null if no agent was started.
    pub opened: Option<OpenMode>,
    /// Reason for this mode.
    pub opened_why: Option<String>,
    /// Reason for this mode, as fields.
    pub opened_reason: Option<OpenReason>,
    /// Text of the answer. With `--events`, null if it is longer than 1 MiB.
    pub text: Option<String>,
    /// End of the turn.
    pub stop: ChatStop,
    /// Token counts from the agent.
    pub usage: Usage,
    /// Automatic decisions of segue, one line each.
    pub decisions: Vec<String>,
    /// Automatic decisions of segue, as fields.
    pub decision_details: Vec<DecisionLine>,
    /// Steps that selected the session; only with `--explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<Vec<ExplainedStep>>,
    /// Error that ended the turn; null if it succeeded.
    pub error: Option<ErrorDetails>,
}

/// End of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChatStop {
    /// The agent completed its answer.
    Finished,
    /// The turn was stopped.
    Cancelled,
    /// The turn failed.
    Failed,
}

impl From<TurnState> for ChatStop {
    fn from(state: TurnState) -> Self {
        match state {
            TurnState::Finished => Self::Finished,
            TurnState::Cancelled => Self::Cancelled,
            TurnState::Running | TurnState::Failed | TurnState::Interrupted => Self::Failed,
        }
    }
}

/// A step that selected the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Value")]
pub struct ExplainedStep {
    /// Subject of the step.
    pub step: ResolutionStepKind,
    /// Result and reason.
    pub text: String,
    /// Result as fields.
    #[serde(flatten)]
    pub result: ResolutionStep,
}

/// Reads the kind and the text twice, because a step that is known only as text has them as its fields.
impl TryFrom<Value> for ExplainedStep {
    type Error = serde_json::Error;

    fn try_from(json: Value) -> Result<Self, Self::Error> {
        Ok(Self {
            step: ResolutionStepKind::deserialize(&json["step"])?,
            text: String::deserialize(&json["text"])?,
            result: ResolutionStep::deserialize(&json)?,
        })
    }
}

impl From<&ResolutionStep> for ExplainedStep {
    fn from(step: &ResolutionStep) -> Self {
        Self {
            step: step.kind(),
            text: format_resolution_step(step),
            result: step.clone(),
        }
    }
}

/// A line of `chat --events`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ChatEvent {
    /// The prompt is on disk. Occurs again, with another turn, if turns were added while the prompt waited.
    Began {
        /// Session of the turn.
        session_id: SessionId,
        /// Number of the turn in the session.
        turn: u32,
    },
    /// Steps that selected the session, with `--explain`.
    Explained {
        /// The steps, in order.
        steps: Vec<ExplainedStep>,
    },
    /// An automatic decision of segue.
    Decision(DecisionLine),
    /// The agent is running, with an open native session.
    Opened {
        /// The agent.
        provider: ProviderId,
        /// Agent's ID for the conversation; null if the agent reports it later.
        native_session_id: Option<NativeId>,
        /// Number of the leg.
        leg: u32,
        /// Mode in which the native session was opened.
        opened: OpenMode,
    },
    /// The agent reported its ID for the conversation.
    Named {
        /// Agent's ID for the conversation.
        native_session_id: NativeId,
    },
    /// A part of the text of the answer.
    Text {
        /// Number of the message.
        message: u32,
        /// The part of the text.
        text: String,
    },
    /// A part of the agent's thoughts.
    Thought {
        /// Number of the message.
        message: u32,
        /// The part of the text.
        text: String,
    },
    /// The agent's plan, complete in each event.
    Plan {
        /// Steps of the plan, in order.
        steps: Vec<PlanStep>,
    },
    /// segue asked the agent to stop.
    Stopping,
    /// A tool call was announced or changed. A completed or failed call is on disk.
    Tool(ToolCallState),
    /// The agent requests a permission that the policy does not decide. segue denies it.
    PermissionRequest {
        /// The tool call.
        tool: ToolCallState,
        /// Names of the answers that the agent offers.
        options: Vec<String>,
    },
    /// All messages of the turn up to this one are on disk.
    Saved {
        /// Number of the message. The prompt is message 0.
        message: u32,
    },
    /// Token counts from the agent.
    Usage(Usage),
    /// The turn has ended and its record is on disk.
    Ended {
        /// Final state of the turn.
        state: TurnState,
    },
    /// Result of the turn, always the last event.
    Result(Box<ChatResult>),
}

/// An automatic decision of segue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Value")]
pub struct DecisionLine {
    /// Kind of the decision.
    pub kind: DecisionKind,
    /// Decision and its reason, in one line.
    pub text: String,
    /// Decision as fields.
    #[serde(flatten)]
    pub details: Decision,
}

/// Reads the kind and the text twice, because a decision that is known only as text has them as its fields.
impl TryFrom<Value> for DecisionLine {
    type Error = serde_json::Error;

    fn try_from(json: Value) -> Result<Self, Self::Error> {
        Ok(Self {
            kind: DecisionKind::deserialize(&json["kind"])?,
            text: String::deserialize(&json["text"])?,
            details: Decision::deserialize(&json)?,
        })
    }
}

impl From<&Decision> for DecisionLine {
    fn from(decision: &Decision) -> Self {
        Self {
            kind: decision.kind(),
            text: format_decision(decision, &ShellActions),
            details: decision.clone(),
        }
    }
}

/// A tool call, with the data that the agent has sent up to now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCallState {
    /// Agent's ID of the call.
    pub id: String,
    /// Agent's name for the call.
    pub name: String,
    /// Kind of the tool: `read`, `edit`, `execute`, `search`, `think`, `fetch`, `other`.
    pub kind: String,
    /// Status of the call.
    pub status: ToolStatus,
    /// Arguments of the call.
    pub args: Value,
    /// Result of the call; null until it has ended.
    pub output: Option<Value>,
    /// Changes to files, if the agent reports them.
    pub diffs: Vec<Diff>,
}

impl From<&ToolCall> for ToolCallState {
    fn from(call: &ToolCall) -> Self {
        // A parsed value has no line breaks, so that an event is one line.
        let parse = |json: &Json| serde_json::from_str(json.as_str()).unwrap_or_default();
        Self {
            id: call.id.clone(),
            name: call.name.clone(),
            kind: call.kind.clone(),
            status: call.status,
            args: parse(&call.args),
            output: call.output.as_ref().map(parse),
            diffs: call.diffs.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use segue_core::samples::{sample_decisions, sample_steps};
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::session::LoggedDecision;

    fn assert_round_trip<T>(value: &T)
    where
        T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        let json = serde_json::to_string(value).unwrap();
        assert_eq!(serde_json::from_str::<T>(&json).unwrap(), *value, "{json}");
    }

    #[test]
    fn every_decision_can_be_read_back_from_each_output_that_contains_it() {
        for decision in sample_decisions() {
            let line = DecisionLine::from(&decision);
            assert_round_trip(&line);
            assert_round_trip(&ChatEvent::Decision(line.clone()));
            assert_round_trip(&LoggedDecision {
                at: Timestamp::UNIX_EPOCH,
                decision: line,
            });
        }
    }

    #[test]
    fn every_step_can_be_read_back() {
        let steps = sample_steps();
        let steps: Vec<ExplainedStep> = steps.iter().map(ExplainedStep::from).collect();
        steps.iter().for_each(assert_round_trip);
        assert_round_trip(&ChatEvent::Explained { steps });
    }
}
