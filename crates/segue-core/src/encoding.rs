//! Encoding of message parts, decisions and hints on disk, with a version number.
//!
//! `{"v":1,"parts":[{"type":"text","text":"…"},…]}`. Decoding never fails: a part or a complete payload that cannot be
//! interpreted becomes [`Part::Unknown`] and is written back verbatim. Snapshot tests fix the shapes; a change of a
//! shape is a new version next to the old version.

mod decision_payload;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::json::Json;
use crate::session::{InlineData, Part};

pub use decision_payload::{decode_decision, decode_hint, encode_decision, encode_hint};

/// Version that this build writes.
pub const PAYLOAD_VERSION: u32 = 1;

#[derive(Serialize)]
struct VersionedPayload<'a, T> {
    v: u32,
    #[serde(flatten)]
    value: &'a T,
}

#[derive(Deserialize)]
struct PayloadHeader {
    v: u32,
}

/// Encodes a value together with the version of its form.
pub(crate) fn encode_versioned<T: Serialize>(v: u32, value: &T) -> String {
    // Serialising strings, numbers and times into a `String` cannot fail.
    serde_json::to_string(&VersionedPayload { v, value }).unwrap_or_default()
}

/// Decodes a value that [`encode_versioned`] encoded with the same version. The error is a text for a message.
pub(crate) fn decode_versioned<T: DeserializeOwned>(v: u32, text: &str) -> Result<T, String> {
    let to_text = |error: serde_json::Error| error.to_string();
    let header: PayloadHeader = serde_json::from_str(text).map_err(to_text)?;
    if header.v != v {
        return Err(format!("version {} is not supported", header.v));
    }
    serde_json::from_str(text).map_err(to_text)
}

#[derive(Serialize)]
struct PartsPayload<'a> {
    v: u32,
    parts: &'a [Part],
}

#[derive(Deserialize)]
struct RawPartsPayload<'a> {
    v: u32,
    #[serde(borrow)]
    parts: Vec<&'a RawValue>,
}

/// Encodes the parts of a message.
#[must_use]
pub fn encode_parts(parts: &[Part]) -> String {
    let payload = PartsPayload {
        v: PAYLOAD_VERSION,
        parts,
    };
    // Serialising strings and valid JSON into a `String` cannot fail.
    serde_json::to_string(&payload).unwrap_or_default()
}

/// Decodes the parts of a message.
#[must_use]
pub fn decode_parts(payload: &str) -> Vec<Part> {
    match serde_json::from_str::<RawPartsPayload<'_>>(payload) {
        Ok(RawPartsPayload {
            v: PAYLOAD_VERSION,
            parts,
        }) => parts
            .into_iter()
            .map(|raw| decode_part(raw.get()))
            .collect(),
        Ok(_) | Err(_) => vec![unknown_part(payload)],
    }
}

/// Fields of all kinds of parts.
#[derive(Deserialize)]
struct PartFields {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    id: Option<String>,
    call_id: Option<String>,
    name: Option<String>,
    #[serde(default, deserialize_with = "deserialize_present")]
    args: Option<Json>,
    #[serde(default, deserialize_with = "deserialize_present")]
    response: Option<Json>,
    is_error: Option<bool>,
    mime_type: Option<String>,
    data: Option<String>,
}

/// Deserialises a field that is present, even if it is null.
fn deserialize_present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// Decodes a part of a message.
#[must_use]
pub fn decode_part(text: &str) -> Part {
    decode_known_part(text).unwrap_or_else(|| unknown_part(text))
}

fn unknown_part(text: &str) -> Part {
    Part::Unknown(Json::parse(text).unwrap_or_else(|_| Json::string(text)))
}

/// Decodes a part of a known kind; `None` for any other text.
fn decode_known_part(text: &str) -> Option<Part> {
    let fields: PartFields = serde_json::from_str(text).ok()?;
    Some(match fields.kind.as_str() {
        "text" => Part::Text(fields.text?),
        "thought" => Part::Thought(fields.text?),
        "function_call" => Part::FunctionCall {
            id: fields.id?,
            name: fields.name?,
            args: fields.args?,
        },
        "function_response" => Part::FunctionResponse {
            call_id: fields.call_id?,
            name: fields.name?,
            response: fields.response?,
            is_error: fields.is_error?,
        },
        "inline_data" => Part::InlineData(InlineData {
            mime_type: fields.mime_type?,
            data: fields.data,
        }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
