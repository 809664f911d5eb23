//! Two older files: `chat.json` with the messages about a feature, and `session.json` with the messages between an
//! agent and its supervisor about a task.

use jiff::Timestamp;
use segue_core::id::FeatureId;
use segue_core::scope::{Purpose, TaskId};
use segue_core::session::Role;
use serde_json::{Map, Value};

use crate::dagent::session_type::{DagentSessionType, StatedPurpose};
use crate::json_fields::{
    content_text, list_field, parse_object, parse_time, string_field, strip_byte_order_mark,
    without_fields,
};
use crate::message_entries::{ContentParser, MessageContent, parse_messages, parse_role};
use crate::{ExtraFields, ParsedSession, PortableSession};

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
    let object = match strip_byte_order_mark(content).trim() {
        "" => {
            remarks.push("the file is empty".to_owned());
            Map::new()
        }
        "null" => Map::new(),
        content => parse_object(content)?,
    };
    let (field, parse_entry): (&str, ContentParser) = match file {
        LegacyFile::Chat => ("entries", parse_chat_entry),
        LegacyFile::Session => ("messages", parse_session_entry),
    };
    let started = parse_time(object.get("startedAt"));
    let messages = parse_messages(
        list_field(&object, field)?.iter().map(Ok),
        ("entry", ""),
        started.unwrap_or(modified_at),
        parse_entry,
        remarks,
    );
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

/// Parses an entry `{role, content, timestamp}`, or `{type, text, timestamp}` of an earlier version.
fn parse_chat_entry(entry: &Map<String, Value>) -> Result<MessageContent, String> {
    let known_fields = ["id", "role", "type", "content", "text", "timestamp"];
    Ok(MessageContent {
        role: parse_role(entry, &["role", "type"])?,
        text: content_text(entry, &["content", "text"]).ok_or("it has no text")?,
        tokens: None,
        extra_fields: without_fields(entry, &known_fields),
    })
}

/// Parses an entry `{direction, type, content, timestamp}`.
fn parse_session_entry(entry: &Map<String, Value>) -> Result<MessageContent, String> {
    let role = match string_field(entry, &["direction"]).ok_or("it has no direction")? {
        "task_to_harness" => Role::Assistant,
        "harness_to_task" => Role::User,
        direction => return Err(format!("unknown direction {direction:?}")),
    };
    let mut extra_fields = without_fields(entry, &["id", "content", "timestamp"]);
    // The user took no part in this exchange.
    extra_fields.insert("internal".to_owned(), true.into());
    Ok(MessageContent {
        role,
        text: content_text(entry, &["content"]).ok_or("it has no text")?,
        tokens: None,
        extra_fields,
    })
}

#[cfg(test)]
mod tests;
