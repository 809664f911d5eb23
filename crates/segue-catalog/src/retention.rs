//! What agents delete by themselves, and what is next.
//!
//! Their settings are read leniently: what can't be read says nothing.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{NativeSession, claude, gemini};

/// Where settings are looked for.
#[derive(Debug, Clone)]
pub struct Places {
    /// The agent's home.
    pub home: PathBuf,
    /// The directory that it would be started in.
    pub project: PathBuf,
    /// The settings of the whole machine are below this, usually `/`.
    pub root: PathBuf,
}

/// Whether an agent deletes sessions by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retention {
    /// It does not.
    Never,
    /// It would, but does not understand how long to keep them, and so deletes nothing.
    Paused {
        /// Where that is said.
        path: PathBuf,
    },
    /// It does.
    Limited(Limits),
}

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Sessions that were used within this time; none if it does not matter.
    pub period: Option<SignedDuration>,
    /// So many of each project, the newest; none if it does not matter.
    pub most: Option<usize>,
    /// Where that is said; none if it is the default.
    pub path: Option<PathBuf>,
    /// What tells how old a session is.
    pub by: Age,
}

/// What tells how old a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// The time of its file.
    File,
    /// What it says itself.
    Record,
}

/// What an agent deletes by itself; none if that is not known.
#[must_use]
pub fn of(provider: &str, places: &Places) -> Option<Retention> {
    match provider {
        "claude" => Some(claude::retention(places)),
        "gemini" => Some(gemini::retention(places)),
        "codex" | "opencode" => Some(Retention::Never),
        _ => None,
    }
}

impl Limits {
    /// The sessions that the agent will delete by then if nobody uses them, and when each can go.
    #[must_use]
    pub fn due<'a>(
        &self,
        sessions: &'a [NativeSession],
        by: Timestamp,
    ) -> Vec<(&'a NativeSession, Option<Timestamp>)> {
        let age = |session: &NativeSession| match self.by {
            Age::File => session.found.modified,
            Age::Record => session.head.updated_at,
        };
        let mut newest_first: Vec<&NativeSession> = sessions.iter().collect();
        newest_first.sort_by_key(|session| Reverse(age(session)));
        let mut seen: HashMap<&Path, usize> = HashMap::new();
        let mut due = Vec::new();
        for session in newest_first {
            let project = session.found.path.parent().unwrap_or(Path::new(""));
            let rank = seen.entry(project).or_default();
            let ends = self
                .period
                .and_then(|period| age(session).checked_add(period).ok());
            // The session that an agent is started for is one of those that it keeps.
            let too_many = self
                .most
                .is_some_and(|most| *rank >= most.saturating_sub(1));
            *rank += 1;
            if too_many || ends.is_some_and(|ends| ends <= by) {
                due.push((session, ends));
            }
        }
        due
    }
}

/// A file of settings; none if it is not there or can't be read.
pub(crate) fn settings(path: &Path) -> Option<Value> {
    let text = fs::read_to_string(path).ok()?;
    serde_json::from_str(&without_comments(&text)).ok()
}

/// JSON without the comments that people put into it.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    while let Some(next) = rest.chars().next() {
        let length = match next {
            '"' => end_of_text(rest),
            '/' if rest.starts_with("//") => {
                rest = rest
                    .find('\n')
                    .map_or("", |end| rest.get(end..).unwrap_or(""));
                continue;
            }
            '/' if rest.starts_with("/*") => {
                rest = rest.split_once("*/").map_or("", |(_, rest)| rest);
                continue;
            }
            other => other.len_utf8(),
        };
        let (this, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        plain.push_str(this);
        rest = after;
    }
    plain
}

/// The length of a text in quotes at the beginning.
fn end_of_text(text: &str) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests;
