//! The stretch of a session that one native session carries.

use jiff::Timestamp;

use crate::names::names;
use crate::{LegId, NativeId, ProviderId, TurnId};

/// How a conversation with an agent was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// Its process was still running.
    Live,
    /// The agent went on without replaying.
    Resumed,
    /// The agent went on and replayed what it knew.
    Loaded,
    /// A new native session that was told the story so far.
    Briefed,
    /// A new native session with nothing to be told.
    Fresh,
}

names!(Opened {
    Live => "live",
    Resumed => "resumed",
    Loaded => "loaded",
    Briefed => "briefed",
    Fresh => "fresh",
});

impl Opened {
    /// Whether the native session existed before.
    #[must_use]
    pub fn goes_on(self) -> bool {
        matches!(self, Self::Live | Self::Resumed | Self::Loaded)
    }
}

/// Why a leg is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LegEnd {
    /// The agent no longer knows the native session, or it can't be opened.
    Lost,
    /// The agent could not go on with the native session just then, with which nothing is wrong.
    NotNow,
    /// The head was moved to a turn the native session is not at.
    HeadMoved,
    /// Another provider took over.
    Handoff,
    /// Its context has no room left, or holds more than it may.
    Full,
    /// Its agent failed too often in a row.
    Errors,
    /// What it knows was summed up, so that the next one needs less.
    Compacted,
}

names!(LegEnd {
    Lost => "lost",
    NotNow => "not_now",
    HeadMoved => "head_moved",
    Handoff => "handoff",
    Full => "full",
    Errors => "errors",
    Compacted => "compacted",
});

/// A leg of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// Its key.
    pub id: LegId,
    /// Its number within the session, from 1.
    pub n: u32,
    /// The agent that carries it.
    pub provider: ProviderId,
    /// What the agent calls the conversation; none until it has said so.
    pub native_id: Option<NativeId>,
    /// The last turn the native session has been sent; none until the first.
    pub tip: Option<TurnId>,
    /// The native record that the last attempt on it ended at, as far as one was noted.
    pub mark: Option<String>,
    /// Failures in a row, as the standing of its agent has them; none once it has ended.
    pub consecutive_failures: u32,
    /// Spend on this leg, where known.
    pub total_tokens: Option<u64>,
    /// The size of the last request, where known.
    pub context_tokens: Option<u64>,
    /// Whether its agent made its own context smaller, and was not told since what must not be forgotten.
    pub forgot: bool,
    /// What its native session was told and said, by our own count; none where that is not known.
    pub held_tokens: Option<u64>,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When and why it ended; none while it can go on.
    pub ended: Option<(Timestamp, LegEnd)>,
}
