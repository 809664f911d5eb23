//! Errors.

use jiff::Timestamp;
use schemars::JsonSchema;
use segue_core::hint::Hint;
use segue_core::session::{Failure, FailureClass};
use serde::{Deserialize, Serialize};

use crate::text::{ShellActions, format_hint};

/// Output of a command that fails, unless the command has an `error` field of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommandError {
    /// Description of the error.
    pub error: ErrorDetails,
}

/// Description of an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorDetails {
    /// Kind of the error.
    pub class: ErrorClass,
    /// Message for people.
    pub message: String,
    /// First of the `hints`; null if there are none.
    pub hint: Option<String>,
    /// Possible actions of the user.
    pub hints: Vec<String>,
    /// Hint of a failed turn, as fields; null for other errors.
    pub advice: Option<Hint>,
    /// End of the agent's standard error output; null if it is empty or unknown.
    pub stderr: Option<String>,
    /// Time of the next possible attempt; null if the agent did not report it.
    pub retry_at: Option<Timestamp>,
    /// Process that uses the session; null if that is not the error.
    pub held_by: Option<BlockingHolder>,
}

/// Kind of an error: a failure of an agent, or an error of segue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ErrorClass {
    /// Failure of an agent.
    Agent(FailureClass),
    /// Error of segue.
    Segue(SegueErrorClass),
}

/// Kind of an error of segue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SegueErrorClass {
    /// The arguments are not valid, or they match several sessions.
    Usage,
    /// A policy refused the prompt, which was not saved.
    Policy,
    /// Any other error.
    Failed,
}

/// Process that uses a session and thereby blocks a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockingHolder {
    /// Host of the process; null if the process is not one of segue.
    pub host: Option<String>,
    /// ID of the process.
    pub pid: u32,
    /// Time since which the process has used the session; null if the process is not one of segue.
    pub since: Option<Timestamp>,
}

impl From<&Failure> for ErrorDetails {
    fn from(failure: &Failure) -> Self {
        let hint = failure.hint.as_ref();
        let hint = hint.map(|hint| format_hint(hint, &ShellActions));
        Self {
            class: ErrorClass::Agent(failure.class),
            message: failure.message.clone(),
            hint: hint.clone(),
            hints: hint.into_iter().collect(),
            advice: failure.hint.clone(),
            stderr: failure.stderr.clone(),
            retry_at: failure.retry_at,
            held_by: None,
        }
    }
}
