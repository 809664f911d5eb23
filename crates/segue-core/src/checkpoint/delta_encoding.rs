//! Versioned JSON encoding of the difference between two checkpoints, for the store and for exported files.

use serde::{Deserialize, Serialize};

use super::{CheckpointDelta, CheckpointItem, LoopState};
use crate::encoding::{decode_versioned, encode_versioned};

/// Format version that this build writes and reads.
const DELTA_FORMAT_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct EncodedDelta {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "gone")]
    removed_ids: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "set")]
    changed_items: Vec<CheckpointItem>,
    /// New state of the loop of checks. `None` if the state has not changed, or if the loop has ended.
    #[serde(skip_serializing_if = "Option::is_none", rename = "loop")]
    loop_state: Option<LoopState>,
    /// Whether the loop of checks has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "no_loop")]
    loop_ended: bool,
}

/// Error for text that is not an encoded difference.
#[derive(Debug, thiserror::Error)]
#[error("invalid checkpoint delta: {0}")]
pub struct DeltaError(String);

/// Encodes a difference as JSON.
#[must_use]
pub fn encode_delta(delta: &CheckpointDelta) -> String {
    let encoded = EncodedDelta {
        removed_ids: delta.removed_ids.clone(),
        changed_items: delta.changed_items.clone(),
        loop_state: delta.loop_state.clone().flatten(),
        loop_ended: delta.loop_state == Some(None),
    };
    encode_versioned(DELTA_FORMAT_VERSION, &encoded)
}

/// Decodes a difference. Fails if the text is not valid JSON of this format, if the version is not supported, or if the
/// kind or the author of an item is unknown.
pub fn decode_delta(text: &str) -> Result<CheckpointDelta, DeltaError> {
    let encoded: EncodedDelta = decode_versioned(DELTA_FORMAT_VERSION, text).map_err(DeltaError)?;
    let is_loop_changed = encoded.loop_ended || encoded.loop_state.is_some();
    Ok(CheckpointDelta {
        removed_ids: encoded.removed_ids,
        changed_items: encoded.changed_items,
        loop_state: is_loop_changed.then_some(encoded.loop_state),
    })
}
