//! The layout that keeps a feature's sessions beside its worktree: `feature.json`, `nodes/<task>/task.json`, and four
//! files for each session.
//!
//! ```text
//! .dagent-worktrees/FEATURE/.dagent/
//!   feature.json                         the feature, and its active session
//!   sessions/chat_ID.json                what was said since the checkpoint
//!            chat_ID.archive.jsonl       what was said before, a line each (ours; others do not look at it)
//!            checkpoint_ID.json          what that came to
//!            context_ID.json             what the session is for
//!            agent-description_ID.json   what the agent is told to be
//!   nodes/TASK/task.json                 the task's states with their sessions
//!   nodes/TASK/sessions/…                the same files
//! ```
//!
//! What is about no feature is in `.dagent/` itself.

pub(crate) mod kind;
mod odd;
mod read;
mod shape;
mod summary;
mod surroundings;
#[cfg(test)]
mod tests;
mod write;

pub use read::{Folder, Reading, read};
pub use write::write;

/// What a file holds of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum File {
    Chat,
    Archive,
    Checkpoint,
    Context,
    Agent,
    /// Only later versions of that program have it.
    Session,
}

impl File {
    /// How names of such files begin and end; the first one is written.
    fn names(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Chat => &[("chat_", ".json")],
            Self::Archive => &[("chat_", ".archive.jsonl")],
            Self::Checkpoint => &[("checkpoint_", ".json"), ("memory_", ".json")],
            Self::Context => &[("context_", ".json")],
            Self::Agent => &[("agent-description_", ".json")],
            Self::Session => &[("session_", ".json")],
        }
    }

    /// What a file with this name holds, and of which session.
    fn of(name: &str) -> Option<(Self, &str)> {
        // A name ends with `.archive.jsonl` or with `.json`, never with both.
        let all = [
            Self::Archive,
            Self::Chat,
            Self::Checkpoint,
            Self::Context,
            Self::Agent,
            Self::Session,
        ];
        all.into_iter().find_map(|file| {
            let id = file
                .names()
                .iter()
                .find_map(|(begins, ends)| name.strip_prefix(begins)?.strip_suffix(ends));
            id.filter(|id| !id.is_empty()).map(|id| (file, id))
        })
    }

    /// The name of the file of a session.
    fn name(self, id: &str) -> String {
        let (begins, ends) = self.names().first().copied().unwrap_or_default();
        format!("{begins}{id}{ends}")
    }
}
