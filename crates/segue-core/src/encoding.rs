//! Encoding of message parts, decisions and hints on disk, with a version number.
//!
//! `{"v":1,"parts":[{"type":"text","text":"…"},…]}`. Decoding never fails: a part or a complete payload that cannot be
//! interpreted becomes [`Part::Unknown`] and is written back verbatim. Snapshot tests fix the shapes; a change of a
//! shape is a new version next to the old version.

mod decision_payload;

use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};
use serde_json::value::RawValue;

use crate::json::Json;
use crate::session::{InlineData, Part};

pub use decision_payload::{decode_decision, decode_hint, encode_decision, encode_hint};

/// Version that this build writes.
pub const PAYLOAD_VERSION: u32 = 1;

#[derive(Serialize)]
struct PartsPayload<'a> {
    v: u32,
    parts: Vec<PartShape<'a>>,
}

#[derive(Deserialize)]
struct RawPartsPayload<'a> {
    v: u32,
    #[serde(borrow)]
    parts: Vec<&'a RawValue>,
}

/// JSON form of a [`Part`], which `session show --json` also prints.
pub struct PartShape<'a>(pub &'a Part);

impl Serialize for PartShape<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Part::Text(text) => {
                let mut shape = begin_part(serializer, "text", 2)?;
                shape.serialize_field("text", text)?;
                shape.end()
            }
            Part::Thought(text) => {
                let mut shape = begin_part(serializer, "thought", 2)?;
                shape.serialize_field("text", text)?;
                shape.end()
            }
            Part::FunctionCall { id, name, args } => {
                let mut shape = begin_part(serializer, "function_call", 4)?;
                shape.serialize_field("id", id)?;
                shape.serialize_field("name", name)?;
                shape.serialize_field("args", args)?;
                shape.end()
            }
            Part::FunctionResponse {
                call_id,
                name,
                response,
                is_error,
            } => {
                let mut shape = begin_part(serializer, "function_response", 5)?;
                shape.serialize_field("call_id", call_id)?;
                shape.serialize_field("name", name)?;
                shape.serialize_field("response", response)?;
                shape.serialize_field("is_error", is_error)?;
                shape.end()
            }
            Part::InlineData(InlineData { mime_type, data }) => {
                let mut shape = begin_part(serializer, "inline_data", 3)?;
                shape.serialize_field("mime_type", mime_type)?;
                shape.serialize_field("data", data)?;
                shape.end()
            }
            Part::Unknown(json) => json.serialize(serializer),
        }
    }
}

fn begin_part<S: Serializer>(
    serializer: S,
    kind: &str,
    field_count: usize,
) -> Result<S::SerializeStruct, S::Error> {
    let mut shape = serializer.serialize_struct("Part", field_count)?;
    shape.serialize_field("type", kind)?;
    Ok(shape)
}

/// Encodes the parts of a message.
#[must_use]
pub fn encode_parts(parts: &[Part]) -> String {
    let payload = PartsPayload {
        v: PAYLOAD_VERSION,
        parts: parts.iter().map(PartShape).collect(),
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
        }) => parts.into_iter().map(decode_part).collect(),
        Ok(_) | Err(_) => vec![Part::Unknown(
            Json::parse(payload).unwrap_or_else(|_| Json::string(payload)),
        )],
    }
}

#[derive(Deserialize)]
struct PartHeader {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct TextShape {
    text: String,
}

#[derive(Deserialize)]
struct FunctionCallShape {
    id: String,
    name: String,
    args: Json,
}

#[derive(Deserialize)]
struct FunctionResponseShape {
    call_id: String,
    name: String,
    response: Json,
    is_error: bool,
}

#[derive(Deserialize)]
struct InlineDataShape {
    mime_type: String,
    data: Option<String>,
}

fn decode_part(raw: &RawValue) -> Part {
    decode_known_part(raw.get()).unwrap_or_else(|_| Part::Unknown(Json::from(raw)))
}

fn decode_known_part(text: &str) -> Result<Part, serde_json::Error> {
    let header: PartHeader = serde_json::from_str(text)?;
    Ok(match header.kind.as_str() {
        "text" => Part::Text(serde_json::from_str::<TextShape>(text)?.text),
        "thought" => Part::Thought(serde_json::from_str::<TextShape>(text)?.text),
        "function_call" => {
            let FunctionCallShape { id, name, args } = serde_json::from_str(text)?;
            Part::FunctionCall { id, name, args }
        }
        "function_response" => {
            let FunctionResponseShape {
                call_id,
                name,
                response,
                is_error,
            } = serde_json::from_str(text)?;
            Part::FunctionResponse {
                call_id,
                name,
                response,
                is_error,
            }
        }
        "inline_data" => {
            let InlineDataShape { mime_type, data } = serde_json::from_str(text)?;
            Part::InlineData(InlineData { mime_type, data })
        }
        _ => Part::Unknown(Json::from(serde_json::from_str::<&RawValue>(text)?)),
    })
}

#[cfg(test)]
mod tests;
