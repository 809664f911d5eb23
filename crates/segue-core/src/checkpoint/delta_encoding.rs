//! Versioned JSON encoding of the difference between two checkpoints, for the store and for exported files.

use serde::{Deserialize, Serialize};

use super::{CheckpointDelta, CheckpointItem, ItemAuthor, ItemKind, LoopState};

/// Format version that this build writes and reads.
const DELTA_FORMAT_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct EncodedDelta {
    #[serde(rename = "v")]
    version: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "gone")]
    removed_ids: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "set")]
    changed_items: Vec<EncodedItem>,
    /// New state of the loop of checks. `None` if the state has not changed, or if the loop has ended.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "loop")]
    loop_state: Option<EncodedLoopState>,
    /// Whether the loop of checks has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "no_loop")]
    loop_ended: bool,
}

#[derive(Serialize, Deserialize)]
struct EncodedItem {
    id: u32,
    kind: String,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    turn: u32,
    #[serde(rename = "message")]
    message_index: u32,
    #[serde(rename = "by")]
    author: String,
    weight: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pinned: bool,
}

#[derive(Serialize, Deserialize)]
struct EncodedLoopState {
    iteration: u32,
    passed: Vec<String>,
    failed: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

/// Error for text that is not an encoded difference.
#[derive(Debug, thiserror::Error)]
#[error("invalid checkpoint delta: {0}")]
pub struct DeltaError(String);

/// Encodes a difference as JSON.
#[must_use]
pub fn encode_delta(delta: &CheckpointDelta) -> String {
    let encode_item = |item: &CheckpointItem| EncodedItem {
        id: item.id,
        kind: item.kind.as_str().to_owned(),
        text: item.text.clone(),
        subject: item.subject.clone(),
        turn: item.turn,
        message_index: item.message_index,
        author: item.author.as_str().to_owned(),
        weight: item.weight,
        pinned: item.pinned,
    };
    let encode_loop_state = |state: &LoopState| EncodedLoopState {
        iteration: state.iteration,
        passed: state.passed.clone(),
        failed: state.failed.clone(),
        last_error: state.last_error.clone(),
    };
    let (loop_state, loop_ended) = match &delta.loop_state {
        None => (None, false),
        Some(None) => (None, true),
        Some(Some(state)) => (Some(encode_loop_state(state)), false),
    };
    let encoded = EncodedDelta {
        version: DELTA_FORMAT_VERSION,
        removed_ids: delta.removed_ids.clone(),
        changed_items: delta.changed_items.iter().map(encode_item).collect(),
        loop_state,
        loop_ended,
    };
    // Serialising strings and numbers into a `String` cannot fail.
    serde_json::to_string(&encoded).unwrap_or_default()
}

/// Decodes a difference. Fails if the text is not valid JSON of this format, if the version is not supported, or if the
/// kind or the author of an item is unknown.
pub fn decode_delta(text: &str) -> Result<CheckpointDelta, DeltaError> {
    let encoded: EncodedDelta =
        serde_json::from_str(text).map_err(|error| DeltaError(error.to_string()))?;
    if encoded.version != DELTA_FORMAT_VERSION {
        return Err(DeltaError(format!(
            "version {} is not supported",
            encoded.version
        )));
    }
    let decode_item = |item: EncodedItem| -> Result<CheckpointItem, DeltaError> {
        let unknown_name =
            |field: &str, name: &str| DeltaError(format!("unknown {field} {name:?} of an item"));
        Ok(CheckpointItem {
            id: item.id,
            kind: ItemKind::from_name(&item.kind)
                .ok_or_else(|| unknown_name("kind", &item.kind))?,
            text: item.text,
            subject: item.subject,
            turn: item.turn,
            message_index: item.message_index,
            author: ItemAuthor::from_name(&item.author)
                .ok_or_else(|| unknown_name("author", &item.author))?,
            weight: item.weight,
            pinned: item.pinned,
        })
    };
    let loop_state = encoded.loop_state.map(|state| LoopState {
        iteration: state.iteration,
        passed: state.passed,
        failed: state.failed,
        last_error: state.last_error,
    });
    Ok(CheckpointDelta {
        removed_ids: encoded.removed_ids,
        changed_items: encoded
            .changed_items
            .into_iter()
            .map(decode_item)
            .collect::<Result<_, _>>()?,
        loop_state: match (loop_state, encoded.loop_ended) {
            (None, false) => None,
            (state, _) => Some(state),
        },
    })
}
