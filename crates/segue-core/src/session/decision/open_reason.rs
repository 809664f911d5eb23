//! Reasons for the way in which a native session was opened.

use serde::{Deserialize, Serialize};

use crate::id::ProviderId;

/// Reason for the way in which a native session was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OpenReason {
    /// The agent is still running.
    AgentRunning,
    /// The native session contains all earlier turns, so it was resumed.
    NativeComplete,
    /// The native session was branched off from another one, whose context it has.
    Branched {
        /// Provider of the native sessions.
        provider: ProviderId,
        /// Last turn that the branch contains.
        turn: u32,
        /// Whether the session is a fork. If it is not, a revert or an undo moved its head.
        is_fork: bool,
    },
    /// The native session is new.
    NewNative(NewNative),
}

/// A native session that was started without the context of another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NewNative {
    /// Reason why it was started.
    pub cause: NewNativeCause,
    /// Message of the agent that could not resume or branch a native session. `None` if there is none.
    pub agent_message: Option<String>,
    /// Whether its brief contains a checkpoint.
    pub has_checkpoint: bool,
    /// Number of turns, counted from the first one, that did not fit into its brief.
    pub omitted_turns: u32,
}

/// Reason why a new native session was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum NewNativeCause {
    /// The session is new.
    NewSession,
    /// The session has turns, but no native session yet.
    NoNativeYet,
    /// A different provider took over.
    ProviderChanged {
        /// Provider of the last native session.
        from: ProviderId,
        /// Provider of the new native session.
        to: ProviderId,
    },
    /// The session was handed off and is back at the provider.
    HandedBack {
        /// Provider of both native sessions.
        provider: ProviderId,
    },
    /// The last native session was full.
    Full,
    /// Earlier turns were compacted.
    Compacted {
        /// The compaction, if it was made for this prompt. `None` if it was made before.
        compaction: Option<CompactionSummary>,
    },
    /// The last native session failed too often in a row.
    FailedTooOften,
    /// The last native session is lost.
    Lost,
    /// The last native session could not be resumed at an earlier prompt.
    Unavailable,
    /// The last native session ended when the head moved.
    HeadMismatch,
    /// The head moved since the last prompt, by a revert or an undo.
    HeadMoved,
    /// The last native session was never used.
    NeverUsed,
    /// The agent could not resume its native session for this prompt.
    NotResumed {
        /// Whether the native session is intact and can be resumed later.
        is_temporary: bool,
    },
    /// The agent did not find its native session when it received the prompt.
    NotFound {
        /// Message of the failure.
        message: String,
    },
}

/// Compaction of a session into a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompactionSummary {
    /// Number of turns that the checkpoint replaces, without those of the previous checkpoint.
    pub turns: u32,
    /// Whether the checkpoint replaces a previous one as well.
    pub replaces_checkpoint: bool,
    /// Tokens that the checkpoint replaces.
    pub replaced_tokens: u64,
    /// Version of the checkpoint.
    pub checkpoint: u32,
    /// Tokens of the checkpoint.
    pub tokens: u64,
}
