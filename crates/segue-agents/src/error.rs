//! Errors of agents.

use std::path::PathBuf;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use segue_acp::AcpError;
use segue_core::hint::Hint;
use segue_core::session::{Failure, FailureClass};

use crate::Exit;
use crate::classify::{self, Refusal};

/// Name of the handshake in errors. Until it ends, segue does not know whether the program speaks the protocol.
pub(crate) const GREETING: &str = "initialize";

/// Failure of an agent to do what segue requested.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The program could not be started.
    #[error("cannot start {program}")]
    NotStarted {
        /// Program that segue tried to start.
        program: String,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The working directory does not exist.
    #[error("the directory {} is not there", .0.display())]
    NoDirectory(PathBuf),
    /// The program exited unexpectedly.
    #[error("the agent went away before it was done with {doing} ({exit})")]
    Crashed {
        /// Request that the agent did not finish.
        doing: &'static str,
        /// Exit status of the program.
        exit: Exit,
        /// End of the program's error output.
        stderr: String,
    },
    /// The program did not answer in time.
    #[error("the agent gave no answer to {doing} within {} s", .after.as_secs_f32())]
    TimedOut {
        /// Request that the agent did not answer.
        doing: &'static str,
        /// Time that segue waited.
        after: Duration,
        /// End of the program's error output.
        stderr: String,
    },
    /// No native session exists that the agent could resume.
    #[error("no native session can go on: {0}")]
    NothingToResume(String),
    /// The program answered with an error.
    #[error("the agent answered {doing} with an error: {}", .refusal.message)]
    Refused {
        /// Request that the agent refused.
        doing: &'static str,
        /// Error that the agent returned.
        refusal: Refusal,
        /// End of the program's error output.
        stderr: String,
    },
}

impl AgentError {
    /// Creates the error for a refusal of the agent.
    #[must_use]
    pub fn refused(doing: &'static str, refusal: Refusal) -> Self {
        Self::Refused {
            doing,
            refusal,
            stderr: String::new(),
        }
    }

    /// Returns the class of the failure.
    #[must_use]
    pub fn class(&self) -> FailureClass {
        match self {
            Self::NotStarted { .. } | Self::NoDirectory(_) => FailureClass::NotStarted,
            // A program that exits at once gives the reason on its error output.
            Self::Crashed { stderr, .. } => {
                classify::words(stderr).map_or(FailureClass::Crashed, |refusal| refusal.class)
            }
            Self::TimedOut { .. } => FailureClass::TimedOut,
            Self::NothingToResume(_) => FailureClass::SessionUnknown,
            Self::Refused { refusal, .. } => refusal.class,
        }
    }

    /// Returns `true` if another transport to the same program may work: the program could not be started, or it exited
    /// or timed out before it completed the handshake.
    pub(crate) fn is_about_the_way(&self) -> bool {
        match self {
            Self::NotStarted { .. } => true,
            Self::Crashed { doing, .. } | Self::TimedOut { doing, .. } => {
                let unexplained =
                    matches!(self.class(), FailureClass::Crashed | FailureClass::TimedOut);
                *doing == GREETING && unexplained
            }
            Self::NoDirectory(_) | Self::NothingToResume(_) | Self::Refused { .. } => false,
        }
    }

    /// Returns the failure for the session's record, with the agent's own message.
    #[must_use]
    pub fn failure(&self, now: Timestamp) -> Failure {
        let mut message = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            message.push_str(": ");
            message.push_str(&error.to_string());
            cause = error.source();
        }
        let stderr = self.stderr();
        let retry_at = self
            .retry_after()
            .and_then(|after| SignedDuration::try_from(after).ok())
            .and_then(|after| now.checked_add(after).ok());
        Failure {
            class: self.class(),
            message,
            hint: self.hint(),
            stderr: (!stderr.is_empty()).then(|| stderr.to_owned()),
            retry_at,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { refusal, .. } => refusal.retry_after,
            Self::Crashed { stderr, .. } => classify::words(stderr)?.retry_after,
            Self::NotStarted { .. }
            | Self::NoDirectory(_)
            | Self::NothingToResume(_)
            | Self::TimedOut { .. } => None,
        }
    }

    /// Returns a hint if this error permits a more specific one than its class.
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NoDirectory(_) => Some(
                "make it again, or branch off into the directory you are in with `segue session fork`".into(),
            ),
            Self::NotStarted { .. }
            | Self::Crashed { .. }
            | Self::TimedOut { .. }
            | Self::NothingToResume(_)
            | Self::Refused { .. } => None,
        }
    }

    /// Returns the end of the agent's error output.
    fn stderr(&self) -> &str {
        match self {
            Self::NotStarted { .. } | Self::NoDirectory(_) | Self::NothingToResume(_) => "",
            Self::Crashed { stderr, .. }
            | Self::TimedOut { stderr, .. }
            | Self::Refused { stderr, .. } => stderr,
        }
    }
}

impl From<AcpError> for Refusal {
    fn from(error: AcpError) -> Self {
        let (class, code, message) = match error {
            AcpError::UnknownSession { message } => {
                (Some(FailureClass::SessionUnknown), None, message)
            }
            AcpError::BadSessionId(error) => {
                (Some(FailureClass::NotUnderstood), None, error.to_string())
            }
            AcpError::NotOffered { message } => (Some(FailureClass::NotUnderstood), None, message),
            AcpError::Closed => (Some(FailureClass::Crashed), None, "it went away".to_owned()),
            AcpError::Refused { code, message } => (None, Some(code), message),
        };
        match class {
            Some(class) => Self::new(class, message),
            None => classify::answer(code, &message),
        }
    }
}
