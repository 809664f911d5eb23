//! Checkpoints and compaction.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use segue_core::checkpoint::{
    CheckpointItem, CheckpointReason, CheckpointVersion, ItemAuthor, ItemKind, LoopState,
};
use segue_core::id::{ProviderId, SessionId};
use serde::{Deserialize, Serialize};

/// A version of a checkpoint, without its items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedVersion {
    /// Number of the version in the session, from 1.
    pub version: u32,
    /// Position of the version.
    pub place: VersionPlace,
    /// Number of the last turn that the version summarises.
    pub covers: u32,
    /// Size of the version in tokens.
    pub tokens: u64,
    /// Number of tokens that the version replaces.
    pub replaced_tokens: u64,
    /// Author of the version.
    pub by: ItemAuthor,
    /// Reason for the version.
    pub why: CheckpointReason,
    /// Time at which the version was made.
    pub at: Timestamp,
}

/// Position of a version of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VersionPlace {
    /// The current version.
    InForce,
    /// A version that a later one replaced.
    Earlier,
    /// A version that covers turns that the session no longer contains.
    Elsewhere,
}

impl ListedVersion {
    /// Builds the entry of a version.
    #[must_use]
    pub fn new(version: &CheckpointVersion, place: VersionPlace) -> Self {
        Self {
            version: version.n,
            place,
            covers: version.covers,
            tokens: version.tokens,
            replaced_tokens: version.replaced,
            by: version.author,
            why: version.reason,
            at: version.at,
        }
    }
}

/// A version of a checkpoint, with its items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointDetails {
    /// The version.
    #[serde(flatten)]
    pub version: ListedVersion,
    /// The session.
    pub session_id: SessionId,
    /// Number of turns of the session.
    pub turns: u32,
    /// Number of tokens in the native session, or in the next brief if no native session can be resumed.
    pub held_tokens: u64,
    /// Maximum number of tokens in the native session.
    pub budget: u64,
    /// Number of tokens that the current version saves in total.
    pub total_saved: u64,
    /// Items of the version.
    pub items: Vec<ListedItem>,
    /// State of a loop of checks; null if there is none.
    #[serde(rename = "loop")]
    pub check_loop: Option<CheckLoop>,
}

/// A statement in a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedItem {
    /// ID of the item, the same in all versions.
    pub id: u32,
    /// Kind of the item.
    pub kind: ItemKind,
    /// Text of the item, on one line.
    pub text: String,
    /// Subject of the item, for example a path; null if it has none.
    pub subject: Option<String>,
    /// Number of the turn that the item comes from.
    pub turn: u32,
    /// Index of the message in that turn, from 0.
    pub message: u32,
    /// Author of the item.
    pub by: ItemAuthor,
    /// Whether the user pinned the item, so that compaction never drops it.
    pub pinned: bool,
}

impl From<&CheckpointItem> for ListedItem {
    fn from(item: &CheckpointItem) -> Self {
        Self {
            id: item.id,
            kind: item.kind,
            text: item.text.clone(),
            subject: item.subject.clone(),
            turn: item.turn,
            message: item.message_index,
            by: item.author,
            pinned: item.pinned,
        }
    }
}

/// State of a loop of checks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckLoop {
    /// Number of rounds of the loop.
    pub iteration: u32,
    /// Checks that passed.
    pub passed: Vec<String>,
    /// Checks that failed.
    pub failed: Vec<String>,
    /// Message of the last failure; null if no check failed.
    pub last_error: Option<String>,
}

impl From<&LoopState> for CheckLoop {
    fn from(state: &LoopState) -> Self {
        Self {
            iteration: state.iteration,
            passed: state.passed.clone(),
            failed: state.failed.clone(),
            last_error: state.last_error.clone(),
        }
    }
}

/// Difference between two versions of a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointDiff {
    /// The session.
    pub session_id: SessionId,
    /// Number of the first version.
    pub from: u32,
    /// Number of the second version.
    pub to: u32,
    /// Items that only the first version has.
    pub gone: Vec<ListedItem>,
    /// Items that differ.
    pub changed: Vec<ChangedItem>,
    /// Items that only the second version has.
    pub added: Vec<ListedItem>,
}

/// An item that differs in two versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedItem {
    /// Item of the first version.
    pub before: ListedItem,
    /// Item of the second version.
    pub after: ListedItem,
}

/// Result of a compaction, or its expected result with `--dry-run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompactionResult {
    /// The session.
    pub session_id: SessionId,
    /// Whether nothing was changed, because of `--dry-run`.
    pub dry_run: bool,
    /// Number of the new version; null with `--dry-run`, and if the session has no turns since the last version.
    pub version: Option<u32>,
    /// Number of the last turn that the checkpoint summarises; null if there is nothing to compact.
    pub covers: Option<u32>,
    /// Number of turns that no earlier version summarises.
    pub turns: u32,
    /// Size of the checkpoint in tokens; null if there is nothing to compact.
    pub tokens: Option<u64>,
    /// Number of tokens that the checkpoint replaces; null if there is nothing to compact.
    pub replaced_tokens: Option<u64>,
    /// Maximum size of the checkpoint in tokens; null if there is nothing to compact.
    pub room: Option<u64>,
    /// Number of items of each kind, without the kinds that have none.
    #[schemars(with = "BTreeMap<String, usize>")]
    pub items: BTreeMap<ItemKind, usize>,
    /// Result of a summariser; null if none ran.
    pub summary: Option<SummariserReport>,
}

/// Result of a summariser.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SummariserReport {
    /// Agent that was the summariser.
    pub provider: ProviderId,
    /// Number of the version with the additions; null if the summariser added nothing.
    pub version: Option<u32>,
    /// Size of that version in tokens; null if the summariser added nothing.
    pub tokens: Option<u64>,
    /// Description of the result, or the reason why there is none.
    pub told: String,
}
