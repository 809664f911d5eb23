//! Versioned JSON encoding of the difference between two checkpoints, as it is written to disk.

use serde::{Deserialize, Serialize};

use super::{CheckpointDelta, CheckpointItem, ItemAuthor, ItemKind, LoopState};

/// Format version that this build writes and reads.
const DELTA_FORMAT_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct DeltaShape {
    v: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "gone")]
    removed_ids: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "set")]
    changed_items: Vec<ItemShape>,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "loop")]
    loop_state: Option<LoopShape>,
    /// Whether the loop of checks has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    no_loop: bool,
}

#[derive(Serialize, Deserialize)]
struct ItemShape {
    id: u32,
    kind: String,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    turn: u32,
    message: u32,
    #[serde(rename = "by")]
    author: String,
    weight: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pinned: bool,
}

#[derive(Serialize, Deserialize)]
struct LoopShape {
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
    let item = |item: &CheckpointItem| ItemShape {
        id: item.id,
        kind: item.kind.as_str().to_owned(),
        text: item.text.clone(),
        subject: item.subject.clone(),
        turn: item.turn,
        message: item.message_index,
        author: item.author.as_str().to_owned(),
        weight: item.weight,
        pinned: item.pinned,
    };
    let state = delta.loop_state.as_ref();
    let shape = DeltaShape {
        v: DELTA_FORMAT_VERSION,
        removed_ids: delta.removed_ids.clone(),
        changed_items: delta.changed_items.iter().map(item).collect(),
        loop_state: state.cloned().flatten().map(|state| LoopShape {
            iteration: state.iteration,
            passed: state.passed,
            failed: state.failed,
            last_error: state.last_error,
        }),
        no_loop: matches!(state, Some(None)),
    };
    // Serialising strings and numbers into a `String` cannot fail.
    serde_json::to_string(&shape).unwrap_or_default()
}

/// Decodes a difference. Fails if the text is not valid JSON of this format, or if its version, the kind or the author
/// of an item is unknown.
pub fn decode_delta(text: &str) -> Result<CheckpointDelta, DeltaError> {
    let shape: DeltaShape =
        serde_json::from_str(text).map_err(|error| DeltaError(error.to_string()))?;
    if shape.v != DELTA_FORMAT_VERSION {
        return Err(DeltaError(format!("version {} is not supported", shape.v)));
    }
    let item = |item: ItemShape| -> Result<CheckpointItem, DeltaError> {
        let unknown = |name: &str| DeltaError(format!("unknown name {name:?}"));
        Ok(CheckpointItem {
            id: item.id,
            kind: ItemKind::from_name(&item.kind).ok_or_else(|| unknown(&item.kind))?,
            text: item.text,
            subject: item.subject,
            turn: item.turn,
            message_index: item.message,
            author: ItemAuthor::from_name(&item.author).ok_or_else(|| unknown(&item.author))?,
            weight: item.weight,
            pinned: item.pinned,
        })
    };
    let loop_state = shape.loop_state.map(|state| LoopState {
        iteration: state.iteration,
        passed: state.passed,
        failed: state.failed,
        last_error: state.last_error,
    });
    Ok(CheckpointDelta {
        removed_ids: shape.removed_ids,
        changed_items: shape
            .changed_items
            .into_iter()
            .map(item)
            .collect::<Result<_, _>>()?,
        loop_state: match (loop_state, shape.no_loop) {
            (None, false) => None,
            (state, _) => Some(state),
        },
    })
}
