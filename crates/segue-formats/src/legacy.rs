//! Two older files: `chat.json` with the messages about a feature, and `session.json` with the messages between an
//! agent and its supervisor about a task.

use jiff::Timestamp;
use segue_core::id::FeatureId;
use segue_core::scope::{Purpose, TaskId};
use segue_core::session::Role;
use serde_json::{Map, Value};

use crate::dagent::session_type::{DagentSessionType, StatedPurpose};
use crate::extra_fields::parse_role;
use crate::json_fields::{
    content_text, describe_type, message_time, non_text_parts, parse_time, string_field,
    strip_byte_order_mark, without_fields,
};
use crate::{ExtraFields, ParsedSession, PortableMessage, PortableSession};

/// Kind of an older file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LegacyFile {
    /// `chat.json`.
    Chat,
    /// `session.json`.
    Session,
}

impl LegacyFile {
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
        let session_type = match self {
            Self::Chat => DagentSessionType::PmFeature,
            Self::Session => DagentSessionType::DevTask,
        };
        let stated = StatedPurpose {
            session_type: Some(session_type),
            feature: feature.and_then(|name| FeatureId::parse(name).ok()),
            task: task.and_then(|name| TaskId::parse(name).ok()),
            ..StatedPurpose::default()
        };
        stated.into_purpose()
    }

    /// Returns the name of the field that contains the messages.
    fn entries_field(self) -> &'static str {
        match self {
            Self::Chat => "entries",
            Self::Session => "messages",
        }
    }

    fn parse_entry(
        self,
        entry: &Map<String, Value>,
        previous_time: Timestamp,
    ) -> Result<(PortableMessage, Option<String>), String> {
        match self {
            Self::Chat => parse_chat_entry(entry, previous_time),
            Self::Session => parse_session_entry(entry, previous_time),
        }
    }
}

/// Reads an older file. A file without messages gives a session without messages. `modified_at`, the time of the file,
/// replaces times that the file does not state.
#[must_use]
pub fn parse_legacy_file(
    file: LegacyFile,
    path: &str,
    content: &str,
    purpose: Option<Purpose>,
    modified_at: Timestamp,
) -> ParsedSession {
    let mut remarks = Vec::new();
    let session = parse_session(file, path, content, purpose, modified_at, &mut remarks);
    ParsedSession {
        name: path.to_owned(),
        path: path.to_owned(),
        session: session.map(Box::new),
        remarks,
    }
}

fn parse_session(
    file: LegacyFile,
    path: &str,
    content: &str,
    purpose: Option<Purpose>,
    modified_at: Timestamp,
    remarks: &mut Vec<String>,
) -> Result<PortableSession, String> {
    let object = parse_content(content, remarks)?;
    let no_entries = Vec::new();
    let field = file.entries_field();
    let entries = match object.get(field) {
        None | Some(Value::Null) => &no_entries,
        Some(Value::Array(entries)) => entries,
        Some(value) => {
            return Err(format!(
                "field `{field}` is {}, not a list",
                describe_type(value)
            ));
        }
    };
    let started = parse_time(object.get("startedAt"));
    let mut last_time = started.unwrap_or(modified_at);
    let mut messages = Vec::new();
    for (n, entry) in (1..).zip(entries) {
        let entry = entry
            .as_object()
            .ok_or_else(|| format!("it is {}, not an object", describe_type(entry)));
        match entry.and_then(|entry| file.parse_entry(entry, last_time)) {
            Ok((message, time_error)) => {
                remarks.extend(time_error.map(|reason| {
                    format!("entry {n} {reason}; used the time of the previous entry")
                }));
                last_time = message.at;
                messages.push(message);
            }
            Err(reason) => remarks.push(format!("entry {n} was omitted: {reason}")),
        }
    }
    let times = || messages.iter().map(|message| message.at);
    let created_at = started.or_else(|| times().min()).unwrap_or(modified_at);
    let ended = parse_time(object.get("completedAt"));
    let updated_at = times().chain(ended).max().unwrap_or(created_at);
    Ok(PortableSession {
        name: path.to_owned(),
        title: None,
        purpose,
        provider: None,
        tags: Vec::new(),
        created_at,
        updated_at: updated_at.max(created_at),
        compacted_messages: Vec::new(),
        checkpoint: None,
        role: None,
        context: None,
        extra_fields: ExtraFields {
            chat: without_fields(&object, &[field]),
            ..ExtraFields::default()
        },
        messages,
    })
}

/// Parses the object in a file; an empty file and `null` count as an empty object.
fn parse_content(content: &str, remarks: &mut Vec<String>) -> Result<Map<String, Value>, String> {
    let content = strip_byte_order_mark(content);
    if content.trim().is_empty() {
        remarks.push("the file is empty".to_owned());
        return Ok(Map::new());
    }
    match serde_json::from_str(content) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(value) => Err(format!(
            "expected an object, found {}",
            describe_type(&value)
        )),
        Err(error) => Err(format!("not valid JSON: {error}")),
    }
}

/// Parses an entry `{role, content, timestamp}`, or `{type, text, timestamp}` of an earlier version.
fn parse_chat_entry(
    entry: &Map<String, Value>,
    previous_time: Timestamp,
) -> Result<(PortableMessage, Option<String>), String> {
    let role = string_field(entry, &["role", "type"]).ok_or("it has no role")?;
    let role = parse_role(role).ok_or_else(|| format!("unknown role {role:?}"))?;
    let content = content_text(entry, &["content", "text"]).ok_or("it has no text")?;
    let extra_fields = without_fields(
        entry,
        &["id", "role", "type", "content", "text", "timestamp"],
    );
    Ok(build_message(
        entry,
        role,
        content,
        extra_fields,
        previous_time,
    ))
}

/// Parses an entry `{direction, type, content, timestamp}`.
fn parse_session_entry(
    entry: &Map<String, Value>,
    previous_time: Timestamp,
) -> Result<(PortableMessage, Option<String>), String> {
    let role = match string_field(entry, &["direction"]).ok_or("it has no direction")? {
        "task_to_harness" => Role::Assistant,
        "harness_to_task" => Role::User,
        direction => return Err(format!("unknown direction {direction:?}")),
    };
    let content = content_text(entry, &["content"]).ok_or("it has no text")?;
    let mut extra_fields = without_fields(entry, &["id", "content", "timestamp"]);
    // The user took no part in this exchange.
    extra_fields.insert("internal".to_owned(), true.into());
    Ok(build_message(
        entry,
        role,
        content,
        extra_fields,
        previous_time,
    ))
}

fn build_message(
    entry: &Map<String, Value>,
    role: Role,
    content: String,
    mut extra_fields: Map<String, Value>,
    previous_time: Timestamp,
) -> (PortableMessage, Option<String>) {
    let at = message_time(entry);
    extra_fields.extend(non_text_parts(entry, "content").map(|parts| ("parts".to_owned(), parts)));
    let message = PortableMessage {
        id: string_field(entry, &["id"]).unwrap_or_default().to_owned(),
        at: *at.as_ref().unwrap_or(&previous_time),
        has_stated_time: at.is_ok(),
        role,
        text: content,
        tokens: None,
        extra_fields,
        is_imported: true,
    };
    (message, at.err())
}

#[cfg(test)]
mod tests;
