//! Reverts and undos.

use schemars::JsonSchema;
use segue_core::session::Effects;
use serde::{Deserialize, Serialize};

use crate::session::ListedSession;

/// Result of a revert or an undo.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RevertResult {
    /// The session after the change.
    #[serde(flatten)]
    pub session: ListedSession,
    /// Number of turns before the change.
    pub turns_before: u32,
    /// Effects of the dropped turns.
    #[serde(flatten)]
    pub effects: Effects,
    /// Turns that were made since the revert; only for an undo after such turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<AbandonedTurns>,
}

/// Turns that an undo drops, because they were made since the revert.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AbandonedTurns {
    /// Number of these turns.
    pub turns: u32,
    /// Number for `session fork --moved` that continues with these turns.
    pub by_move: u32,
}

/// Expected result of a revert.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RevertPreview {
    /// Always true.
    pub dry_run: bool,
    /// Number of turns before the revert.
    pub turns_before: u32,
    /// Number of turns after the revert.
    pub turns: u32,
    /// Turns that the revert drops, oldest first.
    pub dropped: Vec<PreviewedTurn>,
    /// Effects of the dropped turns.
    #[serde(flatten)]
    pub effects: Effects,
}

/// A turn that a revert drops.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreviewedTurn {
    /// Number of the turn.
    pub n: u32,
    /// Beginning of the prompt.
    pub title: String,
}
