//! What a piece of work belongs to.

/// A project: all worktrees of one repository, or one directory outside any repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Project {
    /// The repository's common git directory, or else the canonical working directory.
    pub key: String,
    /// The directory the work is done in, canonical.
    pub cwd: String,
}
