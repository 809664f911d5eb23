//! Resolution steps: the steps by which the session for a prompt is found.

use crate::enum_names::names;

/// Subject of a resolution step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResolutionStepKind {
    /// The session that the user named.
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
    /// The default that is configured for the provider.
    Configured,
    /// A new session.
    New,
    /// The provider that answers.
    Provider,
}

names!(ResolutionStepKind {
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

/// A resolution step, with its result and reason in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolutionStep {
    /// Subject of the step.
    pub kind: ResolutionStepKind,
    /// Result and reason.
    pub text: String,
}

impl ResolutionStep {
    /// Creates a resolution step.
    #[must_use]
    pub fn new(kind: ResolutionStepKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }
}
