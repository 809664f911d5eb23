//! What can go wrong with an agent.

use std::path::PathBuf;
use std::time::Duration;

use segue_acp::AcpError;
use segue_core::{Failure, FailureClass};

use crate::Exit;

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
    /// The program answered with an error.
    #[error("the agent answered {doing} with an error")]
    Refused {
        /// What it was asked to do.
        doing: &'static str,
        /// Its answer.
        #[source]
        source: AcpError,
        /// The end of what it wrote to its error output.
        stderr: String,
    },
}

impl AgentError {
    /// The failure as it goes on record, with the agent's own words.
    #[must_use]
    pub fn failure(&self) -> Failure {
        let class = match self {
            Self::NotStarted { .. } | Self::NoDirectory(_) => FailureClass::NotStarted,
            Self::Crashed { .. } => FailureClass::Crashed,
            Self::TimedOut { .. } => FailureClass::TimedOut,
            Self::Refused { source, .. } => match source {
                AcpError::UnknownSession { .. } => FailureClass::SessionUnknown,
                AcpError::BadSessionId(_) | AcpError::NotOffered { .. } => {
                    FailureClass::NotUnderstood
                }
                AcpError::Closed => FailureClass::Crashed,
                AcpError::Refused { .. } => FailureClass::Agent,
            },
        };
        let mut message = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            message.push_str(": ");
            message.push_str(&error.to_string());
            cause = error.source();
        }
        let stderr = self.stderr();
        Failure {
            class,
            message,
            hint: self.hint(),
            stderr: (!stderr.is_empty()).then(|| stderr.to_owned()),
        }
    }

    /// What to do next, where this error knows better than its class.
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoDirectory(_) => Some(
                "make it again, or branch off into the directory you are in with `segue session fork`".to_owned(),
            ),
            Self::NotStarted { .. } | Self::Crashed { .. } | Self::TimedOut { .. } | Self::Refused { .. } => None,
        }
    }

    /// The end of what the agent wrote to its error output.
    fn stderr(&self) -> &str {
        match self {
            Self::NotStarted { .. } | Self::NoDirectory(_) => "",
            Self::Crashed { stderr, .. }
            | Self::TimedOut { stderr, .. }
            | Self::Refused { stderr, .. } => stderr,
        }
    }
}
