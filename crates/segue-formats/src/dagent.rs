//! The dagent layout, which stores a feature's sessions in its worktree: `feature.json`, `nodes/<task>/task.json`, and
//! four files for each session.
//!
//! ```text
//! .dagent-worktrees/FEATURE/.dagent/
//!   feature.json                         the feature and the id of its active session
//!   sessions/chat_ID.json                messages after the checkpoint
//!            chat_ID.archive.jsonl       messages before it, one per line (of segue; other programs ignore it)
//!            checkpoint_ID.json          the checkpoint
//!            context_ID.json             purpose and project context of the session
//!            agent-description_ID.json   role of the agent
//!   nodes/TASK/task.json                 the task's states with their sessions
//!   nodes/TASK/sessions/…                files as in `sessions/`
//! ```
//!
//! Sessions without a feature are in `.dagent/` itself.

mod context;
mod read;
pub(crate) mod session_type;
mod summary;
#[cfg(test)]
mod tests;
mod warnings;
mod write;

pub use read::{DagentFolder, ParsedDagentFolder, parse_folder};
pub use write::render_files;

/// Kind of a session's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DagentFileKind {
    Chat,
    Archive,
    Checkpoint,
    Context,
    Agent,
    /// A file that only later versions of dagent write.
    Session,
}

impl DagentFileKind {
    /// Returns the prefixes and suffixes of the file names of this kind; the first pair is used for writing.
    fn name_patterns(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Chat => &[("chat_", ".json")],
            Self::Archive => &[("chat_", ".archive.jsonl")],
            Self::Checkpoint => &[("checkpoint_", ".json"), ("memory_", ".json")],
            Self::Context => &[("context_", ".json")],
            Self::Agent => &[("agent-description_", ".json")],
            Self::Session => &[("session_", ".json")],
        }
    }

    /// Returns the kind of the file with this name and the id of its session; `None` if it is not a session's file.
    fn parse_name(name: &str) -> Option<(Self, &str)> {
        // A name that ends with `.archive.jsonl` does not end with `.json`, so the two kinds of `chat_` file are
        // distinct.
        let kinds = [
            Self::Archive,
            Self::Chat,
            Self::Checkpoint,
            Self::Context,
            Self::Agent,
            Self::Session,
        ];
        kinds.into_iter().find_map(|kind| {
            let id = kind
                .name_patterns()
                .iter()
                .find_map(|(prefix, suffix)| name.strip_prefix(prefix)?.strip_suffix(suffix));
            id.filter(|id| !id.is_empty()).map(|id| (kind, id))
        })
    }

    /// Returns the name of a session's file of this kind.
    fn file_name(self, id: &str) -> String {
        let (prefix, suffix) = self.name_patterns().first().copied().unwrap_or_default();
        format!("{prefix}{id}{suffix}")
    }
}
