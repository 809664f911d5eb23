//! Purposes as the fields that a store records.

use segue_core::id::FeatureId;
use segue_core::scope::{Purpose, RoleName, Scope, TaskId, TaskState};

/// Fields of a purpose. All of them are `None` for the project as a whole, so a store also records whether a session has
/// a purpose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedPurpose {
    /// Feature of the session, or of its task.
    pub feature: Option<FeatureId>,
    /// Task of the session.
    pub task: Option<TaskId>,
    /// State of the task.
    pub task_state: Option<TaskState>,
    /// Role of the agent.
    pub role: Option<RoleName>,
}

impl RecordedPurpose {
    /// Returns the fields of a purpose.
    #[must_use]
    pub fn from_purpose(purpose: &Purpose) -> Self {
        let task = purpose.scope.task();
        Self {
            feature: purpose.scope.feature().cloned(),
            task: task.map(|(task, _)| task.clone()),
            task_state: task.map(|(_, state)| state.clone()),
            role: purpose.role.clone(),
        }
    }

    /// Returns the purpose with these fields.
    #[must_use]
    pub fn into_purpose(self) -> Purpose {
        let scope = match (self.feature, self.task, self.task_state) {
            (feature, Some(task), Some(state)) => Scope::Task {
                feature,
                task,
                state,
            },
            (Some(feature), ..) => Scope::Feature(feature),
            (None, ..) => Scope::Project,
        };
        Purpose {
            scope,
            role: self.role,
        }
    }
}
