//! The context: what an agent in a role is told of the project, the feature and the task it works for.

mod stored;
mod written;

use jiff::Timestamp;

pub use stored::{ContextError, decode_context, encode_context};

/// What is known of a project and of what is to be done in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Context {
    /// What is where.
    pub structure: Structure,
    /// What people wrote down for agents and each other, such as `CLAUDE.md`.
    pub documents: Vec<Document>,
    /// The newest commits, newest first.
    pub commits: Vec<Commit>,
    /// The feature, as far as there are files of it.
    pub feature: Option<FeatureContext>,
    /// The task, likewise.
    pub task: Option<TaskContext>,
    /// What is missing that was looked for, or could not be read, a line each.
    pub notes: Vec<String>,
}

/// What is where in a project.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Structure {
    /// Directories with sources.
    pub src_dirs: Vec<String>,
    /// Files that configure the project and its tools.
    pub config_files: Vec<String>,
    /// Whether there are tests.
    pub has_tests: bool,
    /// Whether there is documentation.
    pub has_docs: bool,
}

/// A file that is told, or its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its name, as seen from the project.
    pub name: String,
    /// What it says, as far as it is told.
    pub text: String,
    /// How long the whole of it is, in bytes.
    pub size: u64,
}

impl Document {
    /// Whether only its beginning is told.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        u64::try_from(self.text.len()).is_ok_and(|told| told < self.size)
    }
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The first seven characters of its name.
    pub hash: String,
    /// Its first line.
    pub message: String,
    /// Who made it.
    pub author: String,
    /// When, as git tells it.
    pub date: String,
}

/// A feature.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeatureContext {
    /// What it is called.
    pub name: String,
    /// What is wanted.
    pub spec: Option<Document>,
    /// Its tasks.
    pub tasks: Vec<TaskSummary>,
    /// How many more there are than are told.
    pub more_tasks: u32,
}

/// A task, in short.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskSummary {
    /// Its id.
    pub id: String,
    /// What it is called.
    pub title: String,
    /// Where it stands.
    pub status: Option<String>,
    /// What is to be done.
    pub description: Option<String>,
}

/// The task that a session is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskContext {
    /// What it is called.
    pub title: String,
    /// What is to be done.
    pub description: String,
    /// What has to be done before.
    pub dependencies: Vec<TaskSummary>,
    /// What waits for it.
    pub dependents: Vec<TaskSummary>,
}

/// Where a part of a context comes from, and what tells whether it has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// What it is, in a word or by its name.
    pub name: String,
    /// The same as long as it is the same.
    pub stamp: String,
}

/// A context as it was gathered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptContext {
    /// What it says.
    pub context: Context,
    /// What it was gathered from.
    pub sources: Vec<Source>,
    /// How many tokens it takes to tell it.
    pub tokens: u64,
    /// When it was gathered.
    pub at: Timestamp,
}

/// The names of those sources that have changed, come or gone.
#[must_use]
pub fn changed_sources(before: &[Source], now: &[Source]) -> Vec<String> {
    let differs =
        |source: &&Source, others: &[Source]| !others.iter().any(|other| other == *source);
    let mut names: Vec<String> = Vec::new();
    let news = now.iter().filter(|source| differs(source, before));
    let gone = before.iter().filter(|source| differs(source, now));
    for source in news.chain(gone) {
        if !names.contains(&source.name) {
            names.push(source.name.clone());
        }
    }
    names
}

/// The beginning of a text, whole lines of it where that is possible, of so many bytes at most.
#[must_use]
pub fn excerpt(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let begin = &text[..text.floor_char_boundary(most)];
    match begin.rfind('\n') {
        Some(end) if end > most / 2 => &begin[..=end],
        _ => begin,
    }
}

#[cfg(test)]
mod tests;
