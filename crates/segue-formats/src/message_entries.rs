//! Messages in the files of other programs: entries of a list, of which each program names the fields differently.

use std::borrow::Borrow;

use jiff::Timestamp;
use segue_core::session::Role;
use serde_json::{Map, Value};

use crate::PortableMessage;
use crate::json_fields::{describe_type, message_time, non_text_parts, string_field};

/// Content of a message, without its id and its time, which all programs name alike.
pub(crate) struct MessageContent {
    pub(crate) role: Role,
    pub(crate) text: String,
    pub(crate) tokens: Option<u64>,
    pub(crate) extra_fields: Map<String, Value>,
}

/// Function that reads the content of an entry. The error is the reason why it cannot be read.
pub(crate) type ContentParser = fn(&Map<String, Value>) -> Result<MessageContent, String>;

/// Reads the entries of a list of messages. An entry that cannot be read is omitted, with a remark. An entry without a
/// valid time gets that of the previous entry, or `start_time`. Remarks use the noun for an entry, and the name of the
/// list.
pub(crate) fn parse_messages<V: Borrow<Value>>(
    entries: impl Iterator<Item = Result<V, String>>,
    (noun, list): (&str, &str),
    start_time: Timestamp,
    parse_content: ContentParser,
    remarks: &mut Vec<String>,
) -> Vec<PortableMessage> {
    let parse_entry = |entry: Result<V, String>| {
        let value = entry?;
        let value = value.borrow();
        let object = value
            .as_object()
            .ok_or_else(|| format!("it is {}, not an object", describe_type(value)))?;
        let mut content = parse_content(object)?;
        let parts = non_text_parts(object, "content").map(|parts| ("parts".to_owned(), parts));
        content.extra_fields.extend(parts);
        let id = string_field(object, &["id"]).unwrap_or_default();
        Ok::<_, String>((id.to_owned(), message_time(object), content))
    };
    let mut last_time = start_time;
    let mut messages = Vec::new();
    for (n, entry) in (1..).zip(entries) {
        match parse_entry(entry) {
            Ok((id, time, content)) => {
                if let Err(reason) = &time {
                    remarks.push(format!(
                        "{noun} {n}{list} {reason}; used the time of the previous {noun}"
                    ));
                }
                let has_stated_time = time.is_ok();
                last_time = time.unwrap_or(last_time);
                messages.push(PortableMessage {
                    id,
                    at: last_time,
                    has_stated_time,
                    role: content.role,
                    text: content.text,
                    tokens: content.tokens,
                    extra_fields: content.extra_fields,
                    is_imported: true,
                });
            }
            Err(reason) => remarks.push(format!("{noun} {n}{list} was omitted: {reason}")),
        }
    }
    messages
}

/// Parses the role of a message, in the first of the named fields that is a string.
pub(crate) fn parse_role(object: &Map<String, Value>, names: &[&str]) -> Result<Role, String> {
    match string_field(object, names).ok_or("it has no role")? {
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        "system" => Ok(Role::System),
        role => Err(format!("unknown role {role:?}")),
    }
}
