//! What a session is for: its scope, the role of the agent in it, and the key by which it is found again.

mod sighting;
mod tags;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::id::{check_name, text_id};
use crate::{FeatureId, IdError};

pub use sighting::{Evidence, RECENT, Sighting, is_recent};
pub use tags::Tagged;

/// The name of a task that sessions are about; as free as that of a feature.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(String);

text_id!(TaskId);

impl TaskId {
    /// Parses a task's name; it is kept exactly as given.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        check_name("a task name", text, 200)?;
        Ok(Self(text.to_owned()))
    }
}

/// The name of a state that a task is in, such as `planning`, `in_dev` or `in_qa`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskState(String);

text_id!(TaskState);

impl TaskState {
    /// Parses a state's name; it is kept exactly as given.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        check_name("a state name", text, 64)?;
        Ok(Self(text.to_owned()))
    }
}

/// The name of what an agent is told to be, such as `dev` or `qa`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleName(String);

text_id!(RoleName);

impl RoleName {
    /// Parses a role's name; it is kept exactly as given.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        check_name("a role name", text, 64)?;
        Ok(Self(text.to_owned()))
    }
}

/// What a session is for, within its project.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The project as a whole.
    Project,
    /// A feature.
    Feature(FeatureId),
    /// A task in one of its states. Tasks of the same name in two features are two tasks.
    Task {
        /// The feature it belongs to, if any.
        feature: Option<FeatureId>,
        /// The task.
        task: TaskId,
        /// The state.
        state: TaskState,
    },
}

impl Scope {
    /// The feature that it is about, if any.
    #[must_use]
    pub fn feature(&self) -> Option<&FeatureId> {
        match self {
            Self::Project => None,
            Self::Feature(feature) => Some(feature),
            Self::Task { feature, .. } => feature.as_ref(),
        }
    }

    /// The task that it is about and its state, if any.
    #[must_use]
    pub fn task(&self) -> Option<(&TaskId, &TaskState)> {
        match self {
            Self::Project | Self::Feature(_) => None,
            Self::Task { task, state, .. } => Some((task, state)),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Project => write!(f, "the project"),
            Self::Feature(feature) => write!(f, "feature {feature}"),
            Self::Task {
                feature,
                task,
                state,
            } => {
                write!(f, "task {task} in state {state}")?;
                match feature {
                    Some(feature) => write!(f, " of feature {feature}"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// What a session is for, and what the agent is in it. A session without one is for nothing in particular, and only
/// goes on when it is named.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Purpose {
    /// What it is for.
    pub scope: Scope,
    /// What the agent is in it, if that was said.
    pub role: Option<RoleName>,
}

impl Purpose {
    /// A purpose without a role.
    #[must_use]
    pub fn of(scope: Scope) -> Self {
        Self { scope, role: None }
    }

    /// The part of the reuse key (project, scope, role, provider) that is not the project or the provider: sessions
    /// are stored and looked up by it. Two purposes have the same key only if they are the same, since no name
    /// contains a bracket or a slash.
    #[must_use]
    pub fn key(&self) -> String {
        let scope = tags::of_scope(&self.scope);
        let scope = scope.unwrap_or_else(|| "[Project]".to_owned());
        match tags::of_role(self.role.as_ref()) {
            Some(role) => format!("{scope} {role}"),
            None => scope,
        }
    }
}

impl From<Scope> for Purpose {
    fn from(scope: Scope) -> Self {
        Self::of(scope)
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.role {
            Some(role) => write!(f, "{} as {role}", self.scope),
            None => self.scope.fmt(f),
        }
    }
}
