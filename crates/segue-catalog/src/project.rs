//! Project of a directory.

use std::fs;
use std::path::{Path, PathBuf};

use segue_core::Project;

/// Returns the path that identifies a project: the git directory that all worktrees of a repository share, or the
/// directory itself outside of git.
///
/// A missing directory belongs to the repository of its nearest existing parent, if there is one.
#[must_use]
pub fn project_key(cwd: &Path) -> PathBuf {
    let there = cwd.ancestors().find(|directory| directory.is_dir());
    let there = there.and_then(|directory| directory.canonicalize().ok());
    let common = there.as_deref().and_then(git_common_dir);
    match (common, there) {
        (Some(common), _) => common,
        (None, Some(there)) if cwd.is_dir() => there,
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

/// Returns the git directory that all worktrees of a repository share. `None` outside of git.
fn git_common_dir(cwd: &Path) -> Option<PathBuf> {
    let dot_git = cwd
        .ancestors()
        .map(|directory| directory.join(".git"))
        .find(|path| path.exists())?;
    if dot_git.is_dir() {
        return dot_git.canonicalize().ok();
    }
    // In a worktree, `.git` is a file that names the worktree's git directory, which in turn names the shared one.
    let pointer = fs::read_to_string(&dot_git).ok()?;
    let own = dot_git
        .parent()?
        .join(pointer.strip_prefix("gitdir:")?.trim());
    match fs::read_to_string(own.join("commondir")) {
        Ok(common) => own.join(common.trim()).canonicalize().ok(),
        Err(_) => own.canonicalize().ok(),
    }
}
