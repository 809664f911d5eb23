//! Two older files: `chat.json` with the messages about a feature, and `session.json` with the messages between an
//! agent and its supervisor about a task.

use jiff::Timestamp;
use segue_core::id::FeatureId;
use segue_core::scope::{Purpose, TaskId};
use segue_core::session::Role;
use serde_json::{Map, Value};

use crate::dagent::session_type::{Kind, Said};
use crate::extra_fields::speaker;
use crate::json_fields::{kind, other_parts, stamp, text, time, unmarked, without, words};
use crate::{Kept, Line, Portable, Read};

/// Kind of an older file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldFile {
    /// `chat.json`.
    Chat,
    /// `session.json`.
    Session,
}

impl OldFile {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Chat, Self::Session];

    /// Returns the name of the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat.json",
            Self::Session => "session.json",
        }
    }

    /// Returns the purpose of the session in the file, from the feature and the task that the file's location shows.
    #[must_use]
    pub fn purpose(self, feature: Option<&str>, task: Option<&str>) -> Option<Purpose> {
        let kind = match self {
            Self::Chat => Kind::PmFeature,
            Self::Session => Kind::DevTask,
        };
        let said = Said {
            kind: Some(kind),
            feature: feature.and_then(|name| FeatureId::parse(name).ok()),
            task: task.and_then(|name| TaskId::parse(name).ok()),
            ..Said::default()
        };
        said.purpose()
    }

    /// Returns the name of the field that contains the messages.
    fn entries(self) -> &'static str {
        match self {
            Self::Chat => "entries",
            Self::Session => "messages",
        }
    }

    fn line(
        self,
        entry: &Map<String, Value>,
        last: Timestamp,
    ) -> Result<(Line, Option<String>), String> {
        match self {
            Self::Chat => chat_line(entry, last),
            Self::Session => session_line(entry, last),
        }
    }
}

/// Reads an older file. A file without messages gives a session without messages. `written_at`, the time of the file,
/// replaces times that the file does not state.
#[must_use]
pub fn read(
    file: OldFile,
    path: &str,
    content: &str,
    purpose: Option<Purpose>,
    written_at: Timestamp,
) -> Read {
    let mut remarks = Vec::new();
    let session = portable(file, path, content, purpose, written_at, &mut remarks);
    Read {
        name: path.to_owned(),
        path: path.to_owned(),
        session: session.map(Box::new),
        remarks,
    }
}

fn portable(
    file: OldFile,
    path: &str,
    content: &str,
    purpose: Option<Purpose>,
    written_at: Timestamp,
    remarks: &mut Vec<String>,
) -> Result<Portable, String> {
    let object = whole(content, remarks)?;
    let nothing = Vec::new();
    let name = file.entries();
    let entries = match object.get(name) {
        None | Some(Value::Null) => &nothing,
        Some(Value::Array(entries)) => entries,
        Some(other) => return Err(format!("{name} is {}, not a list", kind(other))),
    };
    let started = time(object.get("startedAt"));
    let mut last = started.unwrap_or(written_at);
    let mut lines = Vec::new();
    for (n, entry) in (1..).zip(entries) {
        let entry = entry
            .as_object()
            .ok_or_else(|| format!("is {}", kind(entry)));
        match entry.and_then(|entry| file.line(entry, last)) {
            Ok((line, untimed)) => {
                remarks.extend(
                    untimed
                        .map(|why| format!("entry {n} {why}; it is given that of the one before")),
                );
                last = line.at;
                lines.push(line);
            }
            Err(why) => remarks.push(format!("entry {n} {why}, and was left out")),
        }
    }
    let times = || lines.iter().map(|line| line.at);
    let created_at = started.or_else(|| times().min()).unwrap_or(written_at);
    let ended = time(object.get("completedAt"));
    let updated_at = times().chain(ended).max().unwrap_or(created_at);
    Ok(Portable {
        name: path.to_owned(),
        title: None,
        purpose,
        provider: None,
        tags: Vec::new(),
        created_at,
        updated_at: updated_at.max(created_at),
        past: Vec::new(),
        recap: None,
        role: None,
        context: None,
        kept: Kept {
            chat: without(&object, &[name]),
            ..Kept::default()
        },
        lines,
    })
}

/// Parses the object in a file; an empty file and `null` count as an empty object.
fn whole(content: &str, remarks: &mut Vec<String>) -> Result<Map<String, Value>, String> {
    let content = unmarked(content);
    if content.trim().is_empty() {
        remarks.push("the file is empty".to_owned());
        return Ok(Map::new());
    }
    match serde_json::from_str(content) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(other) => Err(format!("it holds {}, not an object", kind(&other))),
        Err(error) => Err(format!("it is not JSON: {error}")),
    }
}

/// Parses an entry `{role, content, timestamp}`, or `{type, text, timestamp}` of an earlier version.
fn chat_line(
    entry: &Map<String, Value>,
    last: Timestamp,
) -> Result<(Line, Option<String>), String> {
    let role = text(entry, &["role", "type"]).ok_or("does not say who speaks")?;
    let role = speaker(role).ok_or_else(|| format!("is of {role:?}, whom nobody knows"))?;
    let words = words(entry, &["content", "text"]).ok_or("has no text")?;
    let rest = without(
        entry,
        &["id", "role", "type", "content", "text", "timestamp"],
    );
    Ok(line(entry, role, words, rest, last))
}

/// Parses an entry `{direction, type, content, timestamp}`.
fn session_line(
    entry: &Map<String, Value>,
    last: Timestamp,
) -> Result<(Line, Option<String>), String> {
    let role = match text(entry, &["direction"]).ok_or("does not say who speaks")? {
        "task_to_harness" => Role::Assistant,
        "harness_to_task" => Role::User,
        other => return Err(format!("goes {other:?}, which nobody knows")),
    };
    let words = words(entry, &["content"]).ok_or("has no text")?;
    let mut rest = without(entry, &["id", "content", "timestamp"]);
    // The user took no part in this exchange.
    rest.insert("internal".to_owned(), true.into());
    Ok(line(entry, role, words, rest, last))
}

fn line(
    entry: &Map<String, Value>,
    role: Role,
    words: String,
    mut rest: Map<String, Value>,
    last: Timestamp,
) -> (Line, Option<String>) {
    let at = stamp(entry);
    rest.extend(other_parts(entry, "content").map(|parts| ("parts".to_owned(), parts)));
    let line = Line {
        id: text(entry, &["id"]).unwrap_or_default().to_owned(),
        at: *at.as_ref().unwrap_or(&last),
        timed: at.is_ok(),
        role,
        words,
        tokens: None,
        rest,
        as_it_came: true,
    };
    (line, at.err())
}

#[cfg(test)]
mod tests;
