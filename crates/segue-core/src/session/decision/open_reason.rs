//! Reasons for the way in which a native session was opened.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::ProviderId;
use crate::number_format::{format_count, format_plural};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

/// Formats the turns that a checkpoint replaces, with their number of tokens.
#[must_use]
pub fn format_replaced_turns(turns: u32, tokens: u64, replaces_checkpoint: bool) -> String {
    let (turns, tokens) = (format_plural(turns, "turn"), format_count(tokens));
    if replaces_checkpoint {
        format!("{turns} and the previous checkpoint ({tokens} tokens)")
    } else {
        format!("{turns} ({tokens} tokens)")
    }
}

/// Formats the compaction for a message.
impl fmt::Display for CompactionSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "compacted {} into checkpoint {} ({} tokens)",
            format_replaced_turns(self.turns, self.replaced_tokens, self.replaces_checkpoint),
            self.checkpoint,
            format_count(self.tokens)
        )
    }
}

/// Formats the cause for a message, because errors contain it.
impl fmt::Display for NewNativeCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ProviderChanged { from, to } => return write!(f, "{to} took over from {from}"),
            Self::HandedBack { provider } => {
                return write!(f, "the session was handed back to {provider}");
            }
            Self::Compacted {
                compaction: Some(compaction),
            } => return compaction.fmt(f),
            Self::NotFound { message } => {
                return write!(f, "the agent did not find its native session: {message}");
            }
            Self::NewSession => "a new session",
            Self::NoNativeYet => "the session has no native session yet",
            Self::Full => "the last native session was full",
            Self::Compacted { compaction: None } => "earlier turns were compacted",
            Self::FailedTooOften => "the last native session failed too often in a row",
            Self::Lost => "the last native session is lost",
            Self::Unavailable => "the last native session could not be resumed at that time",
            Self::HeadMismatch => {
                "the last native session no longer matches the head of the session"
            }
            Self::HeadMoved => "the session was moved to another turn by a revert or an undo",
            Self::NeverUsed => "the last native session was never used",
            Self::NotResumed {
                is_temporary: false,
            } => "the agent could not resume its native session",
            Self::NotResumed { is_temporary: true } => {
                "the agent could not resume its native session at this time"
            }
        })
    }
}
