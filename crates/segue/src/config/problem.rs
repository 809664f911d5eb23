//! Problems of a configuration and their location.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// A problem of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) place: Place,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// Location of a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// A position in a file. Lines and columns count from 1, columns in characters.
    At {
        path: PathBuf,
        line: usize,
        column: usize,
    },
    /// A complete file.
    File(PathBuf),
    /// A variable of the environment.
    Environment(String),
}

/// A problem of a value, without its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Wrong {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn at(self, place: Place) -> Problem {
        Problem {
            place,
            message: self.message,
            hint: self.hint,
        }
    }
}

impl Place {
    /// Returns the file of the problem. `None` for a variable of the environment.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::At { path, .. } | Self::File(path) => Some(path),
            Self::Environment(_) => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl From<&Problem> for CliError {
    fn from(problem: &Problem) -> Self {
        let error = Self::usage(problem.to_string());
        match &problem.hint {
            Some(hint) => error.hint(hint.as_str()),
            None => error,
        }
    }
}
