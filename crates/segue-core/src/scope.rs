//! Purpose of a session: its scope, the role of its agent, and the key by which segue finds it for reuse.

mod feature_links;
mod native_match;
mod prompt_header;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{FeatureId, IdError};
use crate::id::{check_name, text_id};

pub use feature_links::{FeatureLinks, HasPurpose, TaskLinks, group_by_feature};
pub use native_match::{NATIVE_MATCH_WINDOW, NativeSummary, PurposeEvidence, is_recent};
pub use prompt_header::TaggedPrompt;

text_id! {
    /// Name of the task of a session. It has the same syntax as the name of a feature.
    pub struct TaskId => |text| check_name("a task name", text, 200)
}

text_id! {
    /// Name of a state of a task, such as `planning`, `in_dev` or `in_qa`.
    pub struct TaskState => |text| check_name("a state name", text, 64)
}

text_id! {
    /// Name of a role of an agent, such as `dev` or `qa`.
    pub struct RoleName => |text| check_name("a role name", text, 64)
}

/// Subject of a session within its project.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The complete project.
    Project,
    /// A feature.
    Feature(FeatureId),
    /// A task in one of its states. Tasks with the same name in two features are different tasks.
    Task {
        /// Feature that the task belongs to; `None` if it belongs to none.
        feature: Option<FeatureId>,
        /// Name of the task.
        task: TaskId,
        /// State of the task.
        state: TaskState,
    },
}

impl Scope {
    /// Returns the feature of the scope; `None` if it has none.
    #[must_use]
    pub fn feature(&self) -> Option<&FeatureId> {
        match self {
            Self::Project => None,
            Self::Feature(feature) => Some(feature),
            Self::Task { feature, .. } => feature.as_ref(),
        }
    }

    /// Returns the task of the scope and its state; `None` if it has none.
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

/// Scope of a session and role of its agent. A session without a purpose is resumed only if the user names it.
///
/// In JSON, the fields of a scope that it does not have are null.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "PurposeFields", into = "PurposeFields")]
pub struct Purpose {
    /// Scope of the session.
    pub scope: Scope,
    /// Role of the agent; `None` if the user specified none.
    pub role: Option<RoleName>,
}

/// JSON form of a [`Purpose`].
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct PurposeFields {
    /// Feature of the session, or of its task.
    feature: Option<FeatureId>,
    /// Task of the session.
    task: Option<TaskId>,
    /// State of the task.
    task_state: Option<TaskState>,
    /// Role of the agent.
    role: Option<RoleName>,
}

impl From<PurposeFields> for Purpose {
    fn from(fields: PurposeFields) -> Self {
        let scope = match (fields.feature, fields.task, fields.task_state) {
            (feature, Some(task), Some(state)) => Scope::Task {
                feature,
                task,
                state,
            },
            (Some(feature), _, _) => Scope::Feature(feature),
            (None, _, _) => Scope::Project,
        };
        Self {
            scope,
            role: fields.role,
        }
    }
}

impl From<Purpose> for PurposeFields {
    fn from(purpose: Purpose) -> Self {
        let (feature, task) = match purpose.scope {
            Scope::Project => (None, None),
            Scope::Feature(feature) => (Some(feature), None),
            Scope::Task {
                feature,
                task,
                state,
            } => (feature, Some((task, state))),
        };
        let (task, task_state) = task.unzip();
        Self {
            feature,
            task,
            task_state,
            role: purpose.role,
        }
    }
}

impl Purpose {
    /// Creates a purpose without a role.
    #[must_use]
    pub fn for_scope(scope: Scope) -> Self {
        Self { scope, role: None }
    }

    /// Returns the part of the reuse key (project, scope, role, provider) that consists of scope and role. Sessions are
    /// stored and looked up by it. Different purposes have different keys, because no name contains a bracket or a
    /// slash.
    #[must_use]
    pub fn key(&self) -> String {
        let scope = prompt_header::render_scope_tags(&self.scope);
        self.append_role_tag(scope.unwrap_or_else(|| "[Project]".to_owned()))
    }
}

impl From<Scope> for Purpose {
    fn from(scope: Scope) -> Self {
        Self::for_scope(scope)
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
