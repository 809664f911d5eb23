//! Arguments for the purpose of a session: `--feature`, `--task`, `--state`, `--role`.

use clap::Args;
use segue_core::id::FeatureId;
use segue_core::scope::{Purpose, RoleName, Scope, TaskId, TaskState};

/// What the session is for. The one that was for the same goes on, else one is made.
#[derive(Debug, Default, Args)]
pub(crate) struct ScopeArgs {
    /// Go on with the session of this feature (of the agent, with -p), or start it
    #[arg(long, value_name = "NAME", conflicts_with_all = ["resume", "continue_last"])]
    pub(crate) feature: Option<FeatureId>,

    /// Go on with the session of this task in its state, or start it; with --feature, of that feature's task
    #[arg(long, value_name = "NAME", requires = "state", conflicts_with_all = ["resume", "continue_last"])]
    pub(crate) task: Option<TaskId>,

    /// The state that the task is in, such as `planning`, `in_dev` or `in_qa`
    #[arg(long, value_name = "NAME", requires = "task")]
    pub(crate) state: Option<TaskState>,

    /// What the agent is in the session, such as `dev` or `qa`; each role has a session of its own
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
