//! Versions of a checkpoint as deltas.

use segue_core::checkpoint::{Checkpoint, CheckpointDelta, DeltaError, decode_delta, encode_delta};

/// Maximum number of versions in a chain of deltas. The next version is stored completely, which bounds the number of
/// deltas that a read applies.
const MAX_DELTA_CHAIN_LENGTH: u32 = 16;

/// Returns the number of deltas from the last complete version to the next one, if its base is a version with
/// `base_depth`. `None` if the next version must be stored completely.
#[must_use]
pub const fn next_delta_depth(base_depth: u32) -> Option<u32> {
    if base_depth + 1 < MAX_DELTA_CHAIN_LENGTH {
        Some(base_depth + 1)
    } else {
        None
    }
}

/// Encodes a version as the difference to its base, which is empty for a complete version.
#[must_use]
pub fn encode_checkpoint(base: &Checkpoint, checkpoint: &Checkpoint) -> String {
    encode_delta(&CheckpointDelta::between(base, checkpoint))
}

/// Applies the encoded delta of the next version to the content before it.
pub fn apply_encoded_delta(content: &Checkpoint, delta: &str) -> Result<Checkpoint, DeltaError> {
    Ok(decode_delta(delta)?.apply(content))
}
