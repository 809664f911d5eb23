//! Project context: information on the project, the feature and the task, for an agent with a role.

mod encoding;
mod render;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use encoding::{ContextError, decode_context, encode_context};

/// Information on a project and on the work in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProjectContext {
    /// Layout of the project.
    pub structure: ProjectStructure,
    /// Documents that people wrote for agents and for each other, such as `CLAUDE.md`.
    pub documents: Vec<Document>,
    /// The newest commits, newest first.
    pub commits: Vec<Commit>,
    /// Information on the feature; `None` if it has no files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feature: Option<FeatureContext>,
    /// Information on the task; `None` if it has no files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskContext>,
    /// Sources that were not found or could not be read, one line each.
    pub notes: Vec<String>,
}

/// Layout of a project.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "ProjectLayout")
)]
pub struct ProjectStructure {
    /// Directories with sources.
    pub src_dirs: Vec<String>,
    /// Files that configure the project and its tools.
    pub config_files: Vec<String>,
    /// Whether the project has tests.
    pub has_tests: bool,
    /// Whether the project has documentation.
    pub has_docs: bool,
}

/// A file, or its beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Path of the file, relative to the project.
    pub name: String,
    /// Text of the file, or its beginning.
    pub text: String,
    /// Size of the complete file, in bytes.
    pub size: u64,
}

impl Document {
    /// Returns `true` if the text is only the beginning of the file.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        u64::try_from(self.text.len()).is_ok_and(|len| len < self.size)
    }
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "RecentCommit")
)]
pub struct Commit {
    /// First characters of the commit hash.
    pub hash: String,
    /// First line of the commit message.
    pub message: String,
    /// Author of the commit.
    pub author: String,
    /// Date of the commit, as git prints it.
    pub date: String,
}

/// Information on a feature.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FeatureContext {
    /// Name of the feature.
    pub name: String,
    /// Specification of the feature; `None` if it has none.
    pub spec: Option<Document>,
    /// Tasks of the feature.
    pub tasks: Vec<TaskSummary>,
    /// Number of tasks that `tasks` omits.
    pub more_tasks: u32,
}

/// A task in a list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "ListedTask")
)]
pub struct TaskSummary {
    /// ID of the task.
    pub id: String,
    /// Title of the task.
    pub title: String,
    /// Status of the task; `None` if it is unknown.
    pub status: Option<String>,
    /// Description of the work; `None` if there is none.
    pub description: Option<String>,
}

/// Information on the task of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "TaskDetails")
)]
pub struct TaskContext {
    /// Title of the task.
    pub title: String,
    /// Description of the work.
    pub description: String,
    /// Tasks that must be done before this one.
    pub dependencies: Vec<TaskSummary>,
    /// Tasks that wait for this one.
    pub dependents: Vec<TaskSummary>,
}

/// A source of a context, with a stamp that shows whether it has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextSource {
    /// Name or short description of the source.
    pub name: String,
    /// Value that stays equal as long as the source is unchanged.
    pub stamp: String,
}

/// A gathered context, as it is cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedContext {
    /// The context.
    pub context: ProjectContext,
    /// Sources of the context.
    pub sources: Vec<ContextSource>,
    /// Size of the rendered context, in tokens.
    pub tokens: u64,
    /// Time at which the context was gathered.
    pub at: Timestamp,
}

/// Returns the names of the sources that were changed, added or removed.
#[must_use]
pub fn changed_sources(before: &[ContextSource], now: &[ContextSource]) -> Vec<String> {
    let is_missing_in = |source: &&ContextSource, sources: &[ContextSource]| {
        !sources.iter().any(|candidate| candidate == *source)
    };
    let mut names: Vec<String> = Vec::new();
    let new_or_changed = now.iter().filter(|source| is_missing_in(source, before));
    let removed_or_changed = before.iter().filter(|source| is_missing_in(source, now));
    for source in new_or_changed.chain(removed_or_changed) {
        if !names.contains(&source.name) {
            names.push(source.name.clone());
        }
    }
    names
}

/// Returns the beginning of a text, at most `max_bytes` bytes. Cuts after a complete line if that leaves more than half
/// of `max_bytes`.
#[must_use]
pub fn excerpt(text: &str, max_bytes: usize) -> &str {
    if text.len() <= max_bytes {
        return text;
    }
    let beginning = &text[..text.floor_char_boundary(max_bytes)];
    match beginning.rfind('\n') {
        Some(end) if end > max_bytes / 2 => &beginning[..=end],
        _ => beginning,
    }
}

#[cfg(test)]
mod tests;
