//! Fields of a session's files that segue has no equivalent for, stored so that an export can write them again.

use jiff::Timestamp;
use segue_core::json::Json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json_fields::{format_iso_time, integer_field, parse_time};
use crate::{PortableMessage, PortableSession};

/// Stored fields of a session's files: those of each file that the session itself does not contain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExtraFields {
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) chat: Map<String, Value>,
    #[serde(rename = "lines", skip_serializing_if = "Vec::is_empty")]
    pub(crate) messages: Vec<ExtraMessageFields>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) checkpoint: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) context: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) agent: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) session: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) feature: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) task: Map<String, Value>,
    /// Time of the import; `None` if the session was not imported or is being imported.
    #[serde(skip)]
    pub(crate) imported_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExtraMessageFields {
    id: String,
    at: String,
    role: String,
    /// Checksum of the message's text.
    #[serde(default, rename = "mark")]
    text_checksum: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    #[serde(default, rename = "rest", skip_serializing_if = "Map::is_empty")]
    extra_fields: Map<String, Value>,
}

impl ExtraMessageFields {
    fn is_for_message(&self, message: &PortableMessage) -> bool {
        self.at == format_iso_time(message.at) && self.role == message.role.as_str()
    }

    /// Returns the role, the time and the checksum of the text.
    pub(crate) fn match_key(&self) -> (&str, String, String) {
        (&self.role, self.at.clone(), self.text_checksum.clone())
    }
}

impl PortableSession {
    /// Returns the fields to store at the import of the session.
    #[must_use]
    pub fn encode_extra_fields(&self) -> Json {
        let to_extra_fields = |message: &PortableMessage| ExtraMessageFields {
            id: message.id.clone(),
            at: format_iso_time(message.at),
            role: message.role.as_str().to_owned(),
            text_checksum: text_checksum(&message.text),
            tokens: message.tokens,
            extra_fields: message.extra_fields.clone(),
        };
        let extra_fields = ExtraFields {
            messages: self
                .compacted_messages
                .iter()
                .chain(&self.messages)
                .map(to_extra_fields)
                .collect(),
            ..self.extra_fields.clone()
        };
        let text = serde_json::to_string(&extra_fields).unwrap_or_default();
        Json::parse(text).unwrap_or_else(|_| Json::empty_object())
    }

    /// Restores the fields that were stored at the import, for the messages that still exist. Does nothing if `encoded`
    /// cannot be parsed.
    pub fn restore_extra_fields(&mut self, encoded: &Json, imported_at: Timestamp) {
        let Ok(stored) = serde_json::from_str::<ExtraFields>(encoded.as_str()) else {
            return;
        };
        let mut remaining = stored.messages.iter();
        for message in self.compacted_messages.iter_mut().chain(&mut self.messages) {
            // The session may contain messages that the files never had, but the order is the same.
            let mut following = remaining.clone();
            if let Some(fields) = following.find(|candidate| candidate.is_for_message(message)) {
                if !fields.id.is_empty() {
                    message.id.clone_from(&fields.id);
                }
                message.is_imported = true;
                message.tokens = fields.tokens;
                message.extra_fields.clone_from(&fields.extra_fields);
                remaining = following;
            }
        }
        self.restore_checkpoint_counts(&stored);
        self.extra_fields = ExtraFields {
            messages: Vec::new(),
            imported_at: Some(imported_at),
            ..stored
        };
    }

    /// Continues the version number and the token counts of the imported checkpoint.
    fn restore_checkpoint_counts(&mut self, stored: &ExtraFields) {
        let Some(checkpoint) = &mut self.checkpoint else {
            return;
        };
        let imported = &stored.checkpoint;
        let token_counts = imported.get("tokens").and_then(Value::as_object);
        let token_count = |name| token_counts.and_then(|counts| integer_field(counts, name));
        let version = integer_field(imported, "version").unwrap_or(0);
        if checkpoint.is_unchanged_since_import {
            checkpoint.version = version;
            checkpoint.tokens = token_count("checkpoint").unwrap_or(checkpoint.tokens);
            checkpoint.saved_tokens = token_count("totalSaved").unwrap_or(checkpoint.saved_tokens);
        } else {
            checkpoint.version += version.saturating_sub(1);
        }
        checkpoint.last_compaction_tokens = checkpoint
            .last_compaction_tokens
            .or(token_count("lastCompactionInput"));
        if let Some(created_at) = parse_time(imported.get("createdAt")) {
            checkpoint.created_at = created_at;
        }
    }
}

/// Returns the checksum of a text: 128-bit FNV-1a, because its result is the same on every machine and in every
/// version.
pub(crate) fn text_checksum(text: &str) -> String {
    let offset_basis = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    let prime = 0x0000_0000_0100_0000_0000_0000_0000_013b_u128;
    let bytes = text.bytes().map(u128::from);
    let hash = bytes.fold(offset_basis, |hash, byte| (hash ^ byte).wrapping_mul(prime));
    format!("{hash:032x}")
}
