//! A turn: one prompt and everything that follows until the agent stops.

use jiff::Timestamp;

use crate::enum_names::named_enum;
use crate::id::{LegId, TurnId};
use crate::session::{Failure, Usage};

named_enum! {
    /// State of a turn, or of an attempt at it.
    pub enum TurnState {
        /// In progress, or interrupted and not closed yet.
        Running => "running",
        /// The agent reported that it was done.
        Finished => "finished",
        /// The user or a policy stopped the turn.
        Cancelled => "cancelled",
        /// The turn ended in an error.
        Failed => "failed",
        /// The process ended before the turn did. A later process found the turn and closed it.
        Interrupted => "interrupted",
    }
}

/// A turn. Like a commit, it has one parent and is immutable once it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Key in the store.
    pub id: TurnId,
    /// Turn before this turn. `None` for the first turn of a session.
    pub parent: Option<TurnId>,
    /// Number of turns that lead to this turn, including itself. This is the number that the user sees.
    pub number: u32,
    /// State of the turn.
    pub state: TurnState,
    /// Tokens that the turn used.
    pub usage: Usage,
    /// Reason for the failure. `None` if the turn did not fail.
    pub failure: Option<Failure>,
    /// Whether the prompt was ever sent to an agent.
    pub sent: bool,
    /// Whether the turn was made outside segue, in the agent's own program.
    pub made_outside: bool,
    /// Time at which the prompt was recorded.
    pub started_at: Timestamp,
    /// Time at which the turn ended. `None` while it is running.
    pub ended_at: Option<Timestamp>,
}

impl Turn {
    /// Returns `true` if the turn was added to the record without an agent: it is finished and was never sent.
    #[must_use]
    pub fn is_added(&self) -> bool {
        self.state == TurnState::Finished && !self.sent
    }
}

/// A try at a turn, on one leg. A failed attempt stays on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Number within the turn, from 1.
    pub number: u32,
    /// Leg on which the attempt was made.
    pub leg: LegId,
    /// State of the attempt.
    pub state: TurnState,
    /// Reason for the failure. `None` if the attempt did not fail.
    pub failure: Option<Failure>,
    /// Mark of the native record at which the attempt ended, in the catalog's text form. `None` if the native session
    /// cannot be read.
    pub mark: Option<String>,
    /// Time just before the prompt was sent.
    pub started_at: Timestamp,
    /// Time at which the attempt ended. `None` while it is running.
    pub ended_at: Option<Timestamp>,
}
