//! How the session that a prompt is for was found, step by step.

use crate::names::names;

/// What was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// A session that was named.
    Id,
    /// The session of a task.
    Task,
    /// The session of a feature.
    Feature,
    /// The session of the project.
    Project,
    /// The native sessions on this machine.
    Catalog,
    /// The sessions of the working directory.
    Directory,
    /// What is configured.
    Configured,
    /// A session that is yet to be made.
    New,
    /// Who is to answer.
    Provider,
}

names!(StepKind {
    Id => "id",
    Task => "task",
    Feature => "feature",
    Project => "project",
    Catalog => "catalog",
    Directory => "directory",
    Configured => "configured",
    New => "new",
    Provider => "provider",
});

/// One step, with what came of it and why, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What was looked at.
    pub kind: StepKind,
    /// What came of it.
    pub text: String,
}

impl Step {
    /// A step in words.
    #[must_use]
    pub fn new(kind: StepKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }
}
