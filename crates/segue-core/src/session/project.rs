//! Projects, to which sessions belong.

/// A project: all worktrees of one repository, or one directory outside any repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Project {
    /// Path of the repository's common git directory, or the canonical working directory outside a repository.
    pub key: String,
    /// Canonical path of the working directory.
    pub cwd: String,
}
