//! A session on its way from one program to another.

use jiff::Timestamp;
use segue_core::{
    Checkpoint, KeptContext, Linked, ProviderId, Purpose, Role, RoleDescription, Tag, Title,
};
use serde_json::{Map, Value};

use crate::Kept;
use crate::fields::iso;

/// A session on its way.
#[derive(Debug, Clone)]
pub struct Portable {
    /// What it is called there.
    pub name: String,
    /// Its title, where it has one.
    pub title: Option<Title>,
    /// What it is for.
    pub purpose: Option<Purpose>,
    /// Who carries it, where that is known.
    pub provider: Option<ProviderId>,
    /// The words a person put on it.
    pub tags: Vec<Tag>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When something last happened in it.
    pub updated_at: Timestamp,
    /// What was said that the checkpoint sums up, as far as it is still there.
    pub past: Vec<Line>,
    /// What was said since.
    pub lines: Vec<Line>,
    /// What it came to.
    pub recap: Option<Recap>,
    /// What the agent is told to be, where that is to be written.
    pub role: Option<RoleDescription>,
    /// What the agent is told of the project, where that was gathered.
    pub context: Option<KeptContext>,
    /// What was said of it in its files that has no place here.
    pub kept: Kept,
}

impl Portable {
    /// Has it be no newer than now, whatever its files say, and says so: what is dated ahead would be the latest session
    /// for as long. What was said keeps its times.
    pub fn bring_to(&mut self, now: Timestamp) -> Option<String> {
        let times = self.past.iter().chain(&self.lines).map(|line| line.at);
        let stated = [self.created_at, self.updated_at];
        let last = times.chain(stated).max().filter(|last| *last > now)?;
        self.created_at = self.created_at.min(now);
        self.updated_at = self.updated_at.min(now);
        let last = iso(last);
        Some(format!(
            "it is dated ahead, up to {last}; messages keep their times, and the session counts as touched now"
        ))
    }
}

impl Linked for Portable {
    fn purpose(&self) -> Option<&Purpose> {
        self.purpose.as_ref()
    }

    fn made_at(&self) -> Timestamp {
        self.created_at
    }

    fn touched_at(&self) -> Timestamp {
        self.updated_at
    }
}

/// One thing that was said, in words alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What it is called there.
    pub id: String,
    /// When it was said.
    pub at: Timestamp,
    /// Whether that is its own word, and not assumed.
    pub timed: bool,
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub words: String,
    /// How many tokens that is, by whoever wrote it.
    pub tokens: Option<u64>,
    /// What else is said of it.
    pub rest: Map<String, Value>,
    /// Whether it is from such files, and not ours.
    pub as_it_came: bool,
}

/// The field that says of a prompt that it has no words, and is to be a prompt nevertheless.
pub(crate) const WORDLESS: &str = "wordless";

impl Line {
    /// Says of a prompt without words that it is one: else whoever reads it takes it for nothing.
    #[must_use]
    pub fn told_though_wordless(mut self) -> Self {
        if self.words.trim().is_empty() {
            self.rest.insert(WORDLESS.to_owned(), true.into());
        }
        self
    }

    /// Lines by turns: what the user says begins one, and all that follows is part of it.
    #[must_use]
    pub fn turns(lines: &[Self]) -> Vec<&[Self]> {
        let turns = lines.chunk_by(|_, next| next.role != Role::User);
        turns.collect()
    }
}

/// A checkpoint with its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recap {
    /// What it says.
    pub checkpoint: Checkpoint,
    /// Its number, from 1.
    pub version: u64,
    /// When the first was made.
    pub created_at: Timestamp,
    /// When this one was made.
    pub updated_at: Timestamp,
    /// How many tokens it has.
    pub tokens: u64,
    /// How many tokens the last compaction read, if there was one here.
    pub replaced: Option<u64>,
    /// How many tokens all of them saved.
    pub saved: u64,
    /// Whether it is as it came from elsewhere.
    pub as_it_came: bool,
}

/// What became of reading one session.
#[derive(Debug, Clone)]
pub struct Read {
    /// What it is called there.
    pub name: String,
    /// The file it is in, or the first of them.
    pub path: String,
    /// The session, or why it can't be read.
    pub session: Result<Box<Portable>, String>,
    /// What was left out or assumed, and why.
    pub remarks: Vec<String>,
}
