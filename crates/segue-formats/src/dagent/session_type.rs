//! Session types of dagent: each combines a role and a scope.

use segue_core::id::FeatureId;
use segue_core::scope::{Purpose, RoleName, Scope, TaskId, TaskState};

/// A session type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DagentSessionType {
    PmFeature,
    DevTask,
    QaTask,
    Harness,
    Merge,
}

impl DagentSessionType {
    const ALL: [Self; 5] = [
        Self::PmFeature,
        Self::DevTask,
        Self::QaTask,
        Self::Harness,
        Self::Merge,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::PmFeature => "pm-feature",
            Self::DevTask => "dev-task",
            Self::QaTask => "qa-task",
            Self::Harness => "harness",
            Self::Merge => "merge",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|session_type| session_type.as_str() == name)
    }

    /// Returns the role of the agent in a session of this type.
    pub(crate) fn role(self) -> &'static str {
        match self {
            Self::PmFeature => "pm",
            Self::DevTask => "dev",
            Self::QaTask => "qa",
            Self::Harness => "harness",
            Self::Merge => "merge",
        }
    }

    /// Returns the session type that is closest to a purpose.
    pub(crate) fn for_purpose(purpose: Option<&Purpose>) -> Self {
        let role = purpose.and_then(|purpose| purpose.role.as_ref());
        let task = purpose.and_then(|purpose| purpose.scope.task());
        match (role.map(RoleName::as_str), task) {
            (Some("harness"), _) => Self::Harness,
            (Some("merge"), _) => Self::Merge,
            (Some("qa"), Some(_)) => Self::QaTask,
            (None, Some((_, state))) if state.as_str() == "in_qa" => Self::QaTask,
            (_, Some(_)) => Self::DevTask,
            (_, None) => Self::PmFeature,
        }
    }
}

/// Values in a session's files that describe its purpose.
#[derive(Debug, Clone, Default)]
pub(crate) struct StatedPurpose {
    pub(crate) session_type: Option<DagentSessionType>,
    pub(crate) role: Option<RoleName>,
    pub(crate) feature: Option<FeatureId>,
    pub(crate) task: Option<TaskId>,
    pub(crate) state: Option<TaskState>,
}

impl StatedPurpose {
    /// Combines the values to a purpose; `None` if the files state neither feature, task nor role.
    pub(crate) fn into_purpose(self) -> Option<Purpose> {
        let type_role = || RoleName::parse(self.session_type?.role()).ok();
        let role = self.role.clone().or_else(type_role);
        let scope = match (self.feature, self.task) {
            (feature, Some(task)) => {
                let state = self.state.or_else(|| default_task_state(role.as_ref()));
                state.map(|state| Scope::Task {
                    feature,
                    task,
                    state,
                })
            }
            (Some(feature), None) => Some(Scope::Feature(feature)),
            (None, None) => role.is_some().then_some(Scope::Project),
        };
        scope.map(|scope| Purpose { scope, role })
    }
}

/// Returns the default state of a task on which an agent with this role works.
fn default_task_state(role: Option<&RoleName>) -> Option<TaskState> {
    let state = match role.map(RoleName::as_str) {
        Some("pm") => "planning",
        Some("qa") => "in_qa",
        Some("merge") => "ready_for_merge",
        Some(_) | None => "in_dev",
    };
    TaskState::parse(state).ok()
}
