//! The change feed.

use jiff::Timestamp;
use schemars::JsonSchema;
use segue_core::id::SessionId;
use serde::{Deserialize, Serialize};

/// A change in the store. It names what changed and contains nothing of it; `session show` and `session info` print the
/// content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FeedEvent {
    /// Position of the change in the feed: an opaque text for `--since`.
    pub cursor: String,
    /// Time of the change.
    pub at: Timestamp,
    /// Kind of change.
    pub event: FeedEventKind,
    /// Session that changed.
    pub session_id: SessionId,
    /// ID of the turn: an opaque text that is the same in all events of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// Number of the turn in the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// Number of the message in the turn; the prompt is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<u32>,
    /// ID of the leg: an opaque text that is the same in all events of the leg.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leg_id: Option<String>,
    /// Number of the leg in the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leg: Option<u32>,
    /// Number of the version of the checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<u32>,
}

/// Kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeedEventKind {
    /// The session was created, also by a fork or an import.
    SessionCreated,
    /// The title, the tags or the agent of the session changed.
    SessionChanged,
    /// The session was deleted.
    SessionDeleted,
    /// A turn began, and its prompt is saved.
    TurnStarted,
    /// A turn ended.
    TurnEnded,
    /// A turn that was never sent was withdrawn.
    TurnWithdrawn,
    /// A message was saved.
    MessageSaved,
    /// The prompt is about to be sent.
    AttemptBegun,
    /// An attempt failed, and the turn continues.
    AttemptFailed,
    /// The session was reverted to the turn, or a revert was undone.
    HeadMoved,
    /// A version of the checkpoint was saved.
    CheckpointAdded,
    /// A native session was opened.
    LegOpened,
    /// The agent reported the ID of its native session, or compacted its context.
    LegChanged,
    /// A native session ended.
    LegEnded,
    /// An automatic decision was logged.
    DecisionLogged,
}
