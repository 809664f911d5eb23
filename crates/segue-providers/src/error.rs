//! Errors of agents.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use segue_acp::AcpError;
use segue_core::hint::Hint;
use segue_core::session::{Failure, FailureClass};

use crate::Exit;
use crate::error_class::{self, AgentRefusal};

/// Name of the handshake in errors. Until it ends, segue cannot tell whether the program speaks the protocol.
pub(crate) const HANDSHAKE_OPERATION: &str = "initialize";

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
    #[error("directory {} does not exist", .0.display())]
    DirectoryMissing(PathBuf),
    /// The program exited unexpectedly.
    #[error("the agent stopped before it completed {operation} ({exit})")]
    Crashed {
        /// Request that the agent did not finish.
        operation: &'static str,
        /// Exit status of the program.
        exit: Exit,
        /// End of the program's error output.
        stderr: String,
    },
    /// The program did not answer in time.
    #[error("the agent did not respond to {operation} within {} s", .after.as_secs_f32())]
    TimedOut {
        /// Request that the agent did not answer.
        operation: &'static str,
        /// Time that segue waited.
        after: Duration,
        /// End of the program's error output.
        stderr: String,
    },
    /// No native session exists that the agent could resume.
    #[error("no native session can be resumed: {0}")]
    NoResumableSession(String),
    /// The program answered with an error.
    #[error("the agent answered {operation} with an error: {}", .refusal.message)]
    Refused {
        /// Request that the agent refused.
        operation: &'static str,
        /// Error that the agent returned.
        refusal: AgentRefusal,
        /// End of the program's error output.
        stderr: String,
    },
}

impl AgentError {
    /// Creates the error for a program that cannot be started.
    pub(crate) fn not_started(program: &Path, source: std::io::Error) -> Self {
        Self::NotStarted {
            program: program.display().to_string(),
            source,
        }
    }

    /// Creates the error for a refusal of the agent.
    #[must_use]
    pub fn from_refusal(operation: &'static str, refusal: AgentRefusal) -> Self {
        Self::Refused {
            operation,
            refusal,
            stderr: String::new(),
        }
    }

    /// Returns the class of the failure.
    #[must_use]
    pub fn class(&self) -> FailureClass {
        match self {
            Self::NotStarted { .. } | Self::DirectoryMissing(_) => FailureClass::NotStarted,
            // A program that exits at once gives the reason on its error output.
            Self::Crashed { stderr, .. } => error_class::classify_text(stderr)
                .map_or(FailureClass::Crashed, |refusal| refusal.class),
            Self::TimedOut { .. } => FailureClass::TimedOut,
            Self::NoResumableSession(_) => FailureClass::SessionUnknown,
            Self::Refused { refusal, .. } => refusal.class,
        }
    }

    /// Returns `true` if another transport to the same program may work: the program could not be started, or it exited
    /// or timed out before it completed the handshake.
    pub(crate) fn is_transport_failure(&self) -> bool {
        match self {
            Self::NotStarted { .. } => true,
            Self::Crashed { operation, .. } | Self::TimedOut { operation, .. } => {
                let is_unexplained =
                    matches!(self.class(), FailureClass::Crashed | FailureClass::TimedOut);
                *operation == HANDSHAKE_OPERATION && is_unexplained
            }
            Self::DirectoryMissing(_) | Self::NoResumableSession(_) | Self::Refused { .. } => false,
        }
    }

    /// Returns the failure for the session's record, with the agent's own message.
    #[must_use]
    pub fn to_failure(&self, now: Timestamp) -> Failure {
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
            .and_then(|delay| SignedDuration::try_from(delay).ok())
            .and_then(|delay| now.checked_add(delay).ok());
        Failure {
            class: self.class(),
            message,
            // The other classes have a hint of their own.
            hint: matches!(self, Self::DirectoryMissing(_)).then_some(Hint::RecreateDirectory),
            stderr: (!stderr.is_empty()).then(|| stderr.to_owned()),
            retry_at,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { refusal, .. } => refusal.retry_after,
            Self::Crashed { stderr, .. } => error_class::classify_text(stderr)?.retry_after,
            Self::NotStarted { .. }
            | Self::DirectoryMissing(_)
            | Self::NoResumableSession(_)
            | Self::TimedOut { .. } => None,
        }
    }

    /// Returns the end of the agent's error output.
    fn stderr(&self) -> &str {
        match self {
            Self::NotStarted { .. } | Self::DirectoryMissing(_) | Self::NoResumableSession(_) => "",
            Self::Crashed { stderr, .. }
            | Self::TimedOut { stderr, .. }
            | Self::Refused { stderr, .. } => stderr,
        }
    }
}

impl From<AcpError> for AgentRefusal {
    fn from(error: AcpError) -> Self {
        match error {
            AcpError::UnknownSession { message } => {
                Self::new(FailureClass::SessionUnknown, message)
            }
            AcpError::BadSessionId(error) => {
                Self::new(FailureClass::UnparsableOutput, error.to_string())
            }
            AcpError::NotOffered { message } => Self::new(FailureClass::UnparsableOutput, message),
            AcpError::Closed => Self::new(FailureClass::Crashed, "the agent closed the connection"),
            AcpError::Refused { code, message } => {
                error_class::classify_error(Some(code), &message)
            }
        }
    }
}
