//! Failures of turns, in a form that the user and a program can act on.

use jiff::Timestamp;

use crate::enum_names::named_enum;
use crate::hint::Hint;

named_enum! {
    /// Kind of a failure. Policies depend on it, and `--json` prints it.
    pub enum FailureClass {
        /// The agent's program could not be started.
        NotStarted => "not_started",
        /// The agent's program ended before its answer was complete.
        Crashed => "crashed",
        /// The agent sent no output for too long.
        TimedOut => "timed_out",
        /// The agent reported an error of its own.
        Agent => "agent_error",
        /// The agent's output could not be parsed.
        UnparsableOutput => "not_understood",
        /// The native session that segue asked the agent to resume does not exist for the agent.
        SessionUnknown => "session_unknown",
        /// The user's quota is used up until a certain time.
        Quota => "quota",
        /// The agent refused the prompt because of too many requests in a short time.
        RateLimited => "rate_limited",
        /// The prompt does not fit into the model's context.
        ContextTooLong => "context_too_long",
        /// The agent has no credentials, or its credentials were rejected.
        NotLoggedIn => "not_logged_in",
        /// The agent refuses to work in a folder that the user has not marked as trusted.
        UntrustedFolder => "untrusted_folder",
    }
}

/// A recorded failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Kind of the failure.
    pub class: FailureClass,
    /// Description in one line, with the agent's own message if it gave one.
    pub message: String,
    /// Advice for the user. `None` if segue has none.
    pub hint: Option<Hint>,
    /// End of the agent's standard error output. `None` if it is empty or was not captured.
    pub stderr: Option<String>,
    /// Time after which a retry makes sense. `None` if the agent did not report one.
    pub retry_at: Option<Timestamp>,
}

impl Failure {
    /// Creates a failure without a hint.
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

    /// Returns this failure with the given hint.
    #[must_use]
    pub fn with_hint(mut self, hint: Hint) -> Self {
        self.hint = Some(hint);
        self
    }
}
