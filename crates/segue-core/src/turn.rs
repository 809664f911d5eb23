//! One user prompt and all that follows until the agent stops.

use jiff::Timestamp;

use crate::names::names;
use crate::{Failure, LegId, TurnId, Usage};

/// Where a turn, or an attempt at it, stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnState {
    /// Under way, or cut off and not closed yet.
    Running,
    /// The agent said it was done.
    Finished,
    /// The user or a policy stopped it.
    Cancelled,
    /// It ended in an error.
    Failed,
    /// The process went away before the end; found and closed later.
    Interrupted,
}

names!(TurnState {
    Running => "running",
    Finished => "finished",
    Cancelled => "cancelled",
    Failed => "failed",
    Interrupted => "interrupted",
});

/// A turn: like a commit, it has one parent and is immutable once it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Its key.
    pub id: TurnId,
    /// The turn before it.
    pub parent: Option<TurnId>,
    /// How many turns lead to it, itself included: its number for people.
    pub n: u32,
    /// Where it stands.
    pub state: TurnState,
    /// What it used.
    pub usage: Usage,
    /// Why it failed, where it did.
    pub failure: Option<Failure>,
    /// Whether its prompt was ever handed to an agent.
    pub sent: bool,
    /// Whether it was made without us, in the agent's own program.
    pub outside: bool,
    /// When the prompt was written down.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl Turn {
    /// Whether it was added to the record without an agent: it has ended well, and was sent to nobody.
    #[must_use]
    pub fn is_added(&self) -> bool {
        self.state == TurnState::Finished && !self.sent
    }
}

/// One try at a turn, on one leg. A failed one stays on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Its number within the turn, from 1.
    pub n: u32,
    /// The leg it was made on.
    pub leg: LegId,
    /// Where it stands.
    pub state: TurnState,
    /// Why it failed, where it did.
    pub failure: Option<Failure>,
    /// The native record that it ended at, as the catalog writes it; none where nothing can be read.
    pub mark: Option<String>,
    /// When the prompt was about to be sent.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}
