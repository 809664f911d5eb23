//! Problems of a configuration and their location.

use std::fmt;
use std::path::{Path, PathBuf};

/// A problem of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    pub location: ProblemLocation,
    pub message: String,
    pub hint: Option<String>,
}

/// Location of a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemLocation {
    /// A position in a file. Lines and columns count from 1, columns in characters.
    Position {
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
pub struct ValueError {
    pub message: String,
    pub hint: Option<String>,
}

impl ValueError {
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
        }
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn into_problem(self, location: ProblemLocation) -> ConfigProblem {
        ConfigProblem {
            location,
            message: self.message,
            hint: self.hint,
        }
    }
}

impl ProblemLocation {
    /// Returns the file of the problem. `None` for a variable of the environment.
    pub fn file_path(&self) -> Option<&Path> {
        match self {
            Self::Position { path, .. } | Self::File(path) => Some(path),
            Self::Environment(_) => None,
        }
    }
}

impl fmt::Display for ProblemLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Position { path, line, column } => {
                write!(f, "{}:{line}:{column}", path.display())
            }
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
        }
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)
    }
}
