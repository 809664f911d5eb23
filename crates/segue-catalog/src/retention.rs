//! Automatic deletion of sessions by agents, and the sessions that are due next.
//!
//! Settings are read leniently: settings that can't be read count as missing.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{NativeSession, claude, gemini};

/// Directories in which settings are searched.
#[derive(Debug, Clone)]
pub struct Places {
    /// Home directory of the agent.
    pub home: PathBuf,
    /// Directory in which the agent would be started.
    pub project: PathBuf,
    /// Root directory of the machine's settings, by default `/`.
    pub root: PathBuf,
}

/// Automatic deletion of sessions by an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retention {
    /// The agent deletes no sessions.
    Never,
    /// The agent would delete sessions, but deletes none because it can't interpret its settings.
    Paused {
        /// Path of the invalid settings.
        path: PathBuf,
    },
    /// The agent deletes sessions outside of these limits.
    Limited(Limits),
}

/// Limits of the sessions that an agent retains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Time since the last use during which a session is retained. `None` if there is no such limit.
    pub period: Option<SignedDuration>,
    /// Maximum number of sessions per project, of which the newest are retained. `None` if there is no such limit.
    pub most: Option<usize>,
    /// Path of the settings. `None` if the limits are the defaults.
    pub path: Option<PathBuf>,
    /// Source of a session's age.
    pub by: Age,
}

/// Source of a session's age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// Modification time of the file.
    File,
    /// Time in the session's own records.
    Record,
}

/// Returns the rules by which an agent deletes sessions automatically. `None` if they are not known.
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
    /// Returns the sessions that the agent will have deleted at the time `by` if they are not used, each with the time
    /// at which its retention period ends.
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
            // The session for which the agent is started counts as one of the retained sessions.
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

/// Reads a file of settings. `None` if it is missing or can't be parsed.
pub(crate) fn settings(path: &Path) -> Option<Value> {
    let text = fs::read_to_string(path).ok()?;
    serde_json::from_str(&without_comments(&text)).ok()
}

/// Removes comments from JSON.
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

/// Returns the length of the quoted string at the beginning of a text.
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
