//! Automatic deletion of sessions by agents, according to their settings.
//!
//! Settings are read leniently: settings that can't be read count as missing.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::SignedDuration;
use serde_json::Value;

use crate::find_provider;

/// Directories in which settings are searched.
#[derive(Debug, Clone)]
pub struct SettingsDirs {
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
    Unlimited,
    /// The agent would delete sessions, but deletes none because it can't interpret its settings.
    Paused {
        /// Path of the invalid settings.
        path: PathBuf,
    },
    /// The agent deletes sessions outside of these limits.
    Limited(RetentionLimits),
}

/// Limits of the sessions that an agent retains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionLimits {
    /// Time since the last use during which a session is retained. `None` if there is no such limit.
    pub period: Option<SignedDuration>,
    /// Maximum number of sessions per project, of which the newest are retained. `None` if there is no such limit.
    pub max_sessions: Option<usize>,
    /// Path of the settings. `None` if the limits are the defaults.
    pub path: Option<PathBuf>,
    /// Source of a session's age.
    pub age_source: AgeSource,
}

/// Source of a session's age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgeSource {
    /// Modification time of the file.
    File,
    /// Time in the session's own records.
    Record,
}

/// Returns the rules by which an agent deletes sessions automatically. `None` if they are not known.
#[must_use]
pub fn provider_retention(provider: &str, dirs: &SettingsDirs) -> Option<Retention> {
    find_provider(provider).map(|descriptor| (descriptor.read_retention)(dirs))
}

/// Reads a file of settings. `None` if it is missing or can't be parsed.
pub(crate) fn read_settings(path: &Path) -> Option<Value> {
    let text = fs::read_to_string(path).ok()?;
    serde_json::from_str(&strip_comments(&text)).ok()
}

/// Removes comments from JSON.
fn strip_comments(text: &str) -> String {
    let mut stripped = String::with_capacity(text.len());
    let mut remaining = text.strip_prefix('\u{feff}').unwrap_or(text);
    while let Some(next) = remaining.chars().next() {
        let length = match next {
            '"' => quoted_length(remaining),
            '/' if remaining.starts_with("//") => {
                remaining = remaining
                    .find('\n')
                    .map_or("", |end| remaining.get(end..).unwrap_or(""));
                continue;
            }
            '/' if remaining.starts_with("/*") => {
                remaining = remaining.split_once("*/").map_or("", |(_, tail)| tail);
                continue;
            }
            character => character.len_utf8(),
        };
        let (chunk, after) = remaining
            .split_at_checked(length)
            .unwrap_or((remaining, ""));
        stripped.push_str(chunk);
        remaining = after;
    }
    stripped
}

/// Returns the length of the quoted string at the beginning of a text.
fn quoted_length(text: &str) -> usize {
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
