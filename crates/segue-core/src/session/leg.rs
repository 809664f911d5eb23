//! Legs: the parts of a session that each run on one native session.

use jiff::Timestamp;

use crate::enum_names::named_enum;
use crate::id::{LegId, NativeId, ProviderId, TurnId};

named_enum! {
    /// Method by which segue opened a connection to an agent.
    pub enum OpenMode {
        /// The agent's process from an earlier turn was still running.
        Live => "live",
        /// The agent resumed its native session without a replay.
        Resumed => "resumed",
        /// The agent resumed its native session and replayed the messages in it.
        Loaded => "loaded",
        /// The native session is new and received a brief of the session.
        Briefed => "briefed",
        /// The native session is new, and the session has no earlier turns to brief it on.
        Fresh => "fresh",
    }
}

impl OpenMode {
    /// Returns `true` if the native session existed before this leg was opened.
    #[must_use]
    pub fn is_resumed(self) -> bool {
        matches!(self, Self::Live | Self::Resumed | Self::Loaded)
    }
}

named_enum! {
    /// Reason why a leg ended.
    pub enum LegEnd {
        /// The native session no longer exists for the agent, or the agent cannot open it.
        Lost => "lost",
        /// The agent could not resume the native session at that moment, although the native session is intact.
        Unavailable => "not_now",
        /// The head moved to a turn that is not the leg's tip.
        HeadMoved => "head_moved",
        /// The session was handed off to another provider.
        Handoff => "handoff",
        /// The native session's context is full, or larger than the configured limit.
        Full => "full",
        /// The agent failed too often in a row.
        Errors => "errors",
        /// The session was compacted, so that the next native session needs fewer tokens.
        Compacted => "compacted",
    }
}

/// A leg: the part of a session that runs on one native session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// Key in the store.
    pub id: LegId,
    /// Number within the session, from 1.
    pub number: u32,
    /// Provider of the native session.
    pub provider: ProviderId,
    /// Native session id. `None` until the agent has reported it.
    pub native_id: Option<NativeId>,
    /// Last turn that was sent to the native session. `None` until the first.
    pub tip: Option<TurnId>,
    /// Mark of the native record at which the newest attempt that has a mark ended. `None` if no attempt has one.
    pub mark: Option<String>,
    /// Failures in a row, from the health of the provider in this session. 0 once the leg has ended.
    pub consecutive_failures: u32,
    /// Tokens spent on this leg. `None` if unknown.
    pub total_tokens: Option<u64>,
    /// Tokens of the last request. `None` if unknown.
    pub context_tokens: Option<u64>,
    /// Whether the agent compacted its own context and has not received the reminder of the rules since then.
    pub lost_context: bool,
    /// Tokens in the native session by segue's own estimate. `None` if unknown.
    pub estimated_tokens: Option<u64>,
    /// Time at which the leg was opened.
    pub opened_at: Timestamp,
    /// Time and reason of the end. `None` while the leg is open.
    pub ended: Option<(Timestamp, LegEnd)>,
}
