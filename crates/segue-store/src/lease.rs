//! The claim on a session: one turn at a time.

use jiff::{SignedDuration, Timestamp};
use segue_core::{ProcessMark, Session, SessionId, Turn};

/// The right to write to a session. Every write carries it; a newer one makes it worthless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// Counts the claims on the session; the highest one holds.
    pub epoch: u64,
}

/// Who holds a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The process that claimed it.
    pub owner: ProcessMark,
    /// The claim's number.
    pub epoch: u64,
    /// The agent it runs; its number is that of a process group.
    pub agent: Option<ProcessMark>,
    /// When it was claimed.
    pub since: Timestamp,
    /// When the holder last showed that it is alive.
    pub heartbeat_at: Timestamp,
    /// The number of the turn that is under way, if one is.
    pub turn: Option<u32>,
}

impl Holder {
    /// Whether the session is only kept open, by an agent that runs and waits for the next prompt.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.turn.is_none() && self.agent.is_some()
    }

    /// What it has to do with the session, in words that its process follows.
    pub(crate) fn has_it(&self) -> &'static str {
        if self.waits() { "open in" } else { "in use by" }
    }
}

/// A wish to claim a session.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// The session.
    pub session: SessionId,
    /// Who wishes.
    pub owner: ProcessMark,
    /// Now.
    pub at: Timestamp,
    /// A holder silent for this long has lost it.
    pub expires_after: SignedDuration,
    /// The claim that may be taken over because its owner is known to be dead.
    pub dead_epoch: Option<u64>,
}

/// A session that was made and claimed with its first turn.
#[derive(Debug)]
pub struct Started {
    /// The session.
    pub session: Session,
    /// The claim on it.
    pub lease: Lease,
    /// Its first turn.
    pub turn: Turn,
}

/// A claim that was granted.
#[derive(Debug)]
pub struct Granted {
    /// The new lease.
    pub lease: Lease,
    /// Who had it and never gave it back.
    pub taken_from: Option<Holder>,
}
