//! Arguments for the purpose of a session: `--feature`, `--task`, `--state`, `--role`.

use clap::Args;
use segue_core::id::FeatureId;
use segue_core::scope::{Purpose, RoleName, Scope, TaskId, TaskState};

/// Purpose of a session. segue resumes the session with the same purpose, or starts one.
#[derive(Debug, Default, Args)]
pub(crate) struct ScopeArgs {
    /// Resume the session of this feature (with -p: of that agent), or start one
    #[arg(long, value_name = "NAME", conflicts_with_all = ["resume", "continue_last"])]
    pub(crate) feature: Option<FeatureId>,

    /// Resume the session of this task in its state, or start one
    #[arg(long, value_name = "NAME", requires = "state", conflicts_with_all = ["resume", "continue_last"])]
    pub(crate) task: Option<TaskId>,

    /// State of the task, such as `planning`, `in_dev` or `in_qa`
    #[arg(long, value_name = "NAME", requires = "task")]
    pub(crate) state: Option<TaskState>,

    /// Role of the agent, such as `dev` or `qa`; each role has its own session
    #[arg(long, value_name = "NAME", conflicts_with_all = ["resume", "continue_last"])]
    pub(crate) role: Option<RoleName>,
}

impl ScopeArgs {
    /// Returns the most specific purpose of the options. `None` if no option is set.
    pub(crate) fn purpose(&self) -> Option<Purpose> {
        let scope = match (&self.feature, &self.task, &self.state) {
            (feature, Some(task), Some(state)) => Scope::Task {
                feature: feature.clone(),
                task: task.clone(),
                state: state.clone(),
            },
            (Some(feature), ..) => Scope::Feature(feature.clone()),
            (None, ..) if self.role.is_some() => Scope::Project,
            (None, ..) => return None,
        };
        Some(Purpose {
            scope,
            role: self.role.clone(),
        })
    }
}
