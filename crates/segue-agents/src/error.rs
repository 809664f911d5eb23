//! What can go wrong with an agent.

use std::path::PathBuf;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use segue_acp::AcpError;
use segue_core::{Failure, FailureClass, Hint};

use crate::Exit;
use crate::classify::{self, Refusal};

/// What a program is doing until it has shown that it talks the way we do.
pub(crate) const GREETING: &str = "initialize";

/// Why an agent did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The program could not be started.
    #[error("cannot start {program}")]
    NotStarted {
        /// What was to be started.
        program: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The directory to work in does not exist.
    #[error("the directory {} is not there", .0.display())]
    NoDirectory(PathBuf),
    /// The program ended by itself.
    #[error("the agent went away before it was done with {doing} ({exit})")]
    Crashed {
        /// What it was asked to do.
        doing: &'static str,
        /// How it ended.
        exit: Exit,
        /// The end of what it wrote to its error output.
        stderr: String,
    },
    /// The program did not answer in time.
    #[error("the agent gave no answer to {doing} within {} s", .after.as_secs_f32())]
    TimedOut {
        /// What it was asked to do.
        doing: &'static str,
        /// How long it was waited for.
        after: Duration,
        /// The end of what it wrote to its error output.
        stderr: String,
    },
    /// There is nothing that it could be asked to go on with.
    #[error("no native session can go on: {0}")]
    NothingToResume(String),
    /// The program answered with an error.
    #[error("the agent answered {doing} with an error: {}", .refusal.message)]
    Refused {
        /// What it was asked to do.
        doing: &'static str,
        /// Its answer.
        refusal: Refusal,
        /// The end of what it wrote to its error output.
        stderr: String,
    },
}

impl AgentError {
    /// An answer of the agent that is an error.
    #[must_use]
    pub fn refused(doing: &'static str, refusal: Refusal) -> Self {
        Self::Refused {
            doing,
            refusal,
            stderr: String::new(),
        }
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn class(&self) -> FailureClass {
        match self {
            Self::NotStarted { .. } | Self::NoDirectory(_) => FailureClass::NotStarted,
            // A program that ends at once says why on its error output.
            Self::Crashed { stderr, .. } => {
                classify::words(stderr).map_or(FailureClass::Crashed, |refusal| refusal.class)
            }
            Self::TimedOut { .. } => FailureClass::TimedOut,
            Self::NothingToResume(_) => FailureClass::SessionUnknown,
            Self::Refused { refusal, .. } => refusal.class,
        }
    }

    /// Whether another way to talk to the same program may work: it could not be started, or did not get as far as
    /// greeting us.
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

    /// The failure as it goes on record, with the agent's own words.
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

    /// What to do next, where this error knows better than its class.
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

    /// The end of what the agent wrote to its error output.
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
