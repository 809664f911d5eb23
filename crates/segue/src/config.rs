//! The configuration, and its problems as errors of commands.

use std::error::Error;
use std::path::Path;

pub(crate) use segue_config::*;

use crate::error::CliError;
use crate::terminal::format_plural;

/// Returns the directory whose `segue.toml` applies: the top of the git work tree, or `cwd` outside of git.
pub(crate) fn project_root(cwd: &Path) -> &Path {
    segue_catalog::work_tree_root(cwd).unwrap_or(cwd)
}

/// Returns the first problem, as the error of a command that needs a valid configuration.
pub(crate) fn validation_error(loaded: &LoadedConfig) -> Option<CliError> {
    let first_problem = loaded.problems.first()?;
    let error = CliError::from(first_problem);
    Some(match loaded.problems.len() - 1 {
        0 => error,
        remaining => error.with_hint(format!(
            "run `segue config check` to list {}",
            format_plural(remaining as u64, "more problem")
        )),
    })
}

impl From<&ConfigProblem> for CliError {
    fn from(problem: &ConfigProblem) -> Self {
        let error = Self::usage(problem.to_string());
        match &problem.hint {
            Some(hint) => error.with_hint(hint.as_str()),
            None => error,
        }
    }
}

impl From<TrustStoreError> for CliError {
    fn from(error: TrustStoreError) -> Self {
        let cli_error = Self::failed(error.to_string());
        let cli_error = match error.source() {
            Some(cause) => cli_error.with_cause(cause),
            None => cli_error,
        };
        match error {
            TrustStoreError::Damaged(..) => {
                cli_error.with_hint("move it away; projects then need your trust again")
            }
            TrustStoreError::Read(..) | TrustStoreError::Write(..) => cli_error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_root_is_the_top_of_the_work_tree() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("project");
        std::fs::create_dir_all(root.join(".git")).unwrap();
        std::fs::create_dir_all(root.join("deep")).unwrap();
        std::fs::write(root.join(".git/HEAD"), "ref: refs/heads/main").unwrap();
        assert_eq!(project_root(&root.join("deep")), root);
        std::fs::remove_dir_all(root.join(".git")).unwrap();
        assert_eq!(project_root(&root.join("deep")), root.join("deep"));
        std::fs::write(root.join(".git"), "gitdir: /other").unwrap();
        assert_eq!(project_root(&root.join("deep")), root);
    }
}
