//! Project of a directory.

use std::fs;
use std::path::{Path, PathBuf};

use segue_core::session::Project;

/// Returns the path that identifies a project: the git directory that all worktrees of a repository share, or the
/// directory itself outside of git.
///
/// A missing directory belongs to the repository of its nearest existing parent, if there is one.
#[must_use]
pub fn project_key(cwd: &Path) -> PathBuf {
    let existing_dir = cwd.ancestors().find(|directory| directory.is_dir());
    let existing_dir = existing_dir.and_then(|directory| directory.canonicalize().ok());
    let common = existing_dir.as_deref().and_then(git_common_dir);
    match (common, existing_dir) {
        (Some(common), _) => common,
        (None, Some(existing_dir)) if cwd.is_dir() => existing_dir,
        (None, _) => cwd.to_owned(),
    }
}

/// Returns the project of a working directory. `None` if its path is not valid UTF-8, because projects are stored by
/// name.
#[must_use]
pub fn project_at(cwd: &Path) -> Option<Project> {
    let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    Some(Project {
        key: project_key(&cwd).to_str()?.to_owned(),
        cwd: cwd.to_str()?.to_owned(),
    })
}

/// Returns the top of the git work tree that contains a directory. `None` outside of git.
#[must_use]
pub fn work_tree_root(cwd: &Path) -> Option<&Path> {
    cwd.ancestors()
        .find(|directory| is_work_tree_root(directory))
}

/// Returns `true` if a directory is the top of a git work tree.
///
/// Git ignores a `.git` directory without `HEAD`, and so does segue. Codex's sandbox creates an empty one in `/tmp`
/// while a command runs.
#[must_use]
pub fn is_work_tree_root(directory: &Path) -> bool {
    let dot_git = directory.join(".git");
    dot_git.is_file() || dot_git.join("HEAD").symlink_metadata().is_ok()
}

/// Returns the git directory that all worktrees of a repository share. `None` outside of git.
fn git_common_dir(cwd: &Path) -> Option<PathBuf> {
    let dot_git = work_tree_root(cwd)?.join(".git");
    if dot_git.is_dir() {
        return dot_git.canonicalize().ok();
    }
    // In a worktree, `.git` is a file that names the worktree's git directory, which in turn names the shared one.
    let pointer = fs::read_to_string(&dot_git).ok()?;
    let worktree_git_dir = dot_git
        .parent()?
        .join(pointer.strip_prefix("gitdir:")?.trim());
    match fs::read_to_string(worktree_git_dir.join("commondir")) {
        Ok(common) => worktree_git_dir.join(common.trim()).canonicalize().ok(),
        Err(_) => worktree_git_dir.canonicalize().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_git_directory_is_not_a_repository() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let inner = top.join("inner");
        fs::create_dir_all(inner.join(".git")).unwrap();
        fs::create_dir(top.join(".git")).unwrap();
        assert_eq!(project_key(&inner), inner);
        fs::write(top.join(".git/HEAD"), "ref: refs/heads/main").unwrap();
        assert_eq!(work_tree_root(&inner), Some(top.as_path()));
        assert_eq!(project_key(&inner), top.join(".git"));
    }
}
