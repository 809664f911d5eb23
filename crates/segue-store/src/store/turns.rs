//! Turns: their record as it grows, their history, and the sizes of their messages.

use async_trait::async_trait;
use jiff::Timestamp;
use segue_core::id::{LegId, ProviderId, SessionId, TurnId};
use segue_core::session::{Attempt, Failure, Message, Turn};

use crate::{
    ContextMeasurement, Lease, NewTurn, Result, SettleEffects, StoredTurn, TokenCount, TurnEnding,
    TurnEntry,
};

/// The record of a turn, from its prompt to its end.
#[async_trait]
pub trait TurnStore: Send + Sync {
    /// Records a prompt as the next turn, moves the head to it, and applies the rest of `new`, in one operation.
    async fn start_turn(&self, lease: &Lease, new: NewTurn) -> Result<Turn>;
    /// Records a message as a separate turn that has ended and was never sent, and moves the head to it.
    async fn add_message(&self, lease: &Lease, message: &Message) -> Result<Turn>;
    /// Adds an entry to a running turn.
    async fn append_entry(&self, lease: &Lease, turn: TurnId, entry: TurnEntry) -> Result<()>;
    /// Ends a turn and its last attempt, records their usage, and applies the consequences of the end, in one
    /// operation. The turn is immutable afterwards.
    async fn settle_turn(
        &self,
        lease: &Lease,
        turn: TurnId,
        ending: TurnEnding,
        effects: SettleEffects,
    ) -> Result<()>;
    /// Ends a turn that was never sent, and moves the head back to the turn before. The prompt stays on record but is
    /// not part of the history.
    async fn withdraw_turn(&self, lease: &Lease, turn: TurnId, at: Timestamp) -> Result<()>;
}

/// Attempts at a turn, each on one leg.
#[async_trait]
pub trait AttemptStore: Send + Sync {
    /// Records that the prompt is about to be sent on a leg. The turn becomes the tip of the leg.
    async fn begin_attempt(
        &self,
        lease: &Lease,
        turn: TurnId,
        leg: LegId,
        at: Timestamp,
    ) -> Result<()>;
    /// Ends the running attempt as failed. The turn stays open for another attempt.
    async fn fail_attempt(
        &self,
        lease: &Lease,
        turn: TurnId,
        failure: &Failure,
        at: Timestamp,
    ) -> Result<()>;
    /// Records the mark of the native record at which the last attempt at a turn ended. Does nothing if the turn has no
    /// attempt.
    async fn set_attempt_mark(&self, lease: &Lease, turn: TurnId, mark: &str) -> Result<()>;
    /// Returns the attempts at a turn.
    async fn attempts(&self, turn: TurnId) -> Result<Vec<Attempt>>;
}

/// Turns that lead to a turn, and their messages.
#[async_trait]
pub trait HistoryStore: Send + Sync {
    /// Returns the turns that lead to the head, oldest first.
    async fn turns(&self, id: &SessionId) -> Result<Vec<Turn>>;
    /// Returns the turns that lead to a turn, oldest first, including that turn.
    async fn turns_up_to(&self, turn: TurnId) -> Result<Vec<Turn>>;
    /// Returns the messages of a turn, the prompt first. A draft is returned as an incomplete message.
    async fn messages(&self, turn: TurnId) -> Result<Vec<Message>>;
    /// Returns the messages of the turns up to `head`, newest turn first. Returns complete turns until they fill a
    /// brief of `token_budget` tokens, or until no turn remains.
    async fn recent_turns(&self, head: TurnId, token_budget: u64) -> Result<Vec<StoredTurn>>;
    /// Returns the messages of the turns after number `n` up to `head`, newest turn first.
    async fn turns_after(&self, head: TurnId, n: u32) -> Result<Vec<StoredTurn>>;
}

/// Sizes of messages and requests.
#[async_trait]
pub trait TokenStore: Send + Sync {
    /// Sets the token counts of messages that have none. Messages of a turn that has not ended stay unchanged.
    async fn fill_token_counts(&self, counts: Vec<TokenCount>) -> Result<()>;
    /// Returns the newest turns of a provider for which both segue's estimate and the agent's count exist, newest
    /// first.
    async fn context_measurements(
        &self,
        provider: &ProviderId,
        limit: u32,
    ) -> Result<Vec<ContextMeasurement>>;
}
