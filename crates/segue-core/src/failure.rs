//! Why a turn failed, in words that a person and a program can act on.

use jiff::Timestamp;

use crate::Hint;
use crate::names::names;

/// The kind of a failure. Policy acts on it, and `--json` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// The agent's program could not be started.
    NotStarted,
    /// The agent's program ended before its answer was complete.
    Crashed,
    /// The agent said nothing for too long.
    TimedOut,
    /// The agent reported an error of its own.
    Agent,
    /// What the agent sent could not be understood.
    NotUnderstood,
    /// The agent does not know the conversation it was asked to go on with.
    SessionUnknown,
    /// What the user may spend is spent, until a certain time.
    Quota,
    /// Too much was asked in too short a time.
    RateLimited,
    /// What was sent does not fit into the model's context.
    ContextTooLong,
    /// The agent has no credentials, or none that are accepted.
    NotLoggedIn,
    /// The agent does not work in a folder that the user has not told it to trust.
    UntrustedFolder,
}

names!(FailureClass {
    NotStarted => "not_started",
    Crashed => "crashed",
    TimedOut => "timed_out",
    Agent => "agent_error",
    NotUnderstood => "not_understood",
    SessionUnknown => "session_unknown",
    Quota => "quota",
    RateLimited => "rate_limited",
    ContextTooLong => "context_too_long",
    NotLoggedIn => "not_logged_in",
    UntrustedFolder => "untrusted_folder",
});

/// A failure on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind it is.
    pub class: FailureClass,
    /// What happened, in one line, with the agent's own words where it gave some.
    pub message: String,
    /// What to do next, where we know.
    pub hint: Option<Hint>,
    /// The end of what the agent wrote to its error output.
    pub stderr: Option<String>,
    /// When it makes sense to try again, where the agent said so.
    pub retry_at: Option<Timestamp>,
}

impl Failure {
    /// A failure without a hint.
    #[must_use]
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            hint: None,
            stderr: None,
            retry_at: None,
        }
    }

    /// The same failure with a next step.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Hint>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
