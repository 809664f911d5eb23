//! Interface of a session store, and the test suite that every store must pass.
//!
//! [`Store`] has few operations. Each is meaningful and atomic: it happens completely and is on disk when it returns,
//! or it did not happen. This crate does not depend on SQL. A store is correct if it passes `contract` (behind the
//! feature of that name).

mod error;
mod import;
mod input;
mod lease;
mod query;

#[cfg(feature = "contract")]
pub mod contract;

use async_trait::async_trait;
use jiff::Timestamp;
use segue_core::agent::ProcessIdentity;
use segue_core::brief::CachedContext;
use segue_core::checkpoint::{Checkpoint, CheckpointVersion};
use segue_core::id::{LegId, NativeId, ProviderId, SessionId, TurnId};
use segue_core::policy::{Cooldown, ProviderHealth};
use segue_core::session::{
    Attempt, Decision, Failure, Leg, LegEnd, Lineage, Message, RefCandidate, Session,
    SessionSnapshot, Title, Turn,
};

pub use error::{BoxError, StoreError};
pub use import::{ImportedCheckpoint, ImportedSession, SessionOrigin};
pub use input::{
    AdoptedSession, AdoptedTurn, CompactionCommit, ContextLossState, Draft, DraftKind, ForkPoint,
    NativeUpdate, NewCheckpoint, NewLeg, NewSession, NewTurn, SettleEffects, TagChange, TokenCount,
    TurnEnding, TurnEntry, TurnTokens,
};
pub use lease::{Lease, LeaseGrant, LeaseHolder, LeaseRequest, StartedSession};
pub use query::{
    ContextMeasurement, PageCursor, PageRequest, SessionFilter, SessionPage, SessionStamp,
    StoredTurn, TagCount,
};

/// Result of a store operation.
pub type Result<T> = std::result::Result<T, StoreError>;

/// A store of sessions.
///
/// Requirements for an implementation:
///
/// - An operation that returned `Ok` survives a power failure. Leases are exempt, because no process that owns a lease
///   survives it either.
/// - An operation that returned an error changed nothing.
/// - A write with a [`Lease`] fails with [`StoreError::LeaseLost`] unless that lease is the newest of its session.
///   Operations that the user may do at any time, such as renaming, need no lease.
/// - The store waits for other writers; the caller does not.
/// - A read never waits for a writer.
#[async_trait]
pub trait Store: Send + Sync {
    // Sessions.

    /// Creates a session without turns.
    async fn create_session(&self, new: NewSession) -> Result<Session>;
    /// Creates a session, acquires its lease and records its first prompt, in one operation.
    async fn start_session(
        &self,
        new: NewSession,
        owner: ProcessIdentity,
        prompt: &Message,
    ) -> Result<StartedSession>;
    /// Creates a session from a native session, with all its turns, and acquires its lease. The tip of its leg is the
    /// last turn. Fails with [`StoreError::NativeAttached`] if another session uses the native session.
    async fn adopt_native_session(
        &self,
        new: NewSession,
        owner: ProcessIdentity,
        native: AdoptedSession,
    ) -> Result<Lease>;
    /// Creates a session from the data of another program, with all its turns. Fails with
    /// [`StoreError::PurposeTaken`] if a session of the same project was already imported under the same name, unless
    /// `imported.distinct_from` lists it.
    async fn import_session(
        &self,
        new: NewSession,
        owner: ProcessIdentity,
        imported: ImportedSession,
    ) -> Result<Session>;
    /// Returns the origin of an imported session. `None` if the session was not imported.
    async fn session_origin(&self, id: &SessionId) -> Result<Option<SessionOrigin>>;
    /// Creates a session whose head is a turn of another session. The turns up to that turn are shared, not copied. The
    /// fork gets the tags of the other session.
    async fn fork_session(&self, new: NewSession, fork_point: ForkPoint) -> Result<Session>;
    /// Sets the title that the user chose. This is not an activity, so the session's time of last activity stays
    /// unchanged.
    async fn rename_session(&self, id: &SessionId, title: &Title) -> Result<()>;
    /// Sets the title that the model proposes, unless the user chose a title. The time of last activity stays
    /// unchanged.
    async fn suggest_title(&self, id: &SessionId, title: &Title) -> Result<()>;
    /// Changes the tags of a session. The time of last activity stays unchanged.
    async fn change_tags(&self, id: &SessionId, change: TagChange) -> Result<Session>;
    /// Returns all tags that at least one session has, sorted.
    async fn tag_counts(&self) -> Result<Vec<TagCount>>;
    /// Deletes a session with all data that no other session shares.
    async fn delete_session(&self, lease: &Lease) -> Result<()>;
    /// Returns a session. `None` if it does not exist.
    async fn session(&self, id: &SessionId) -> Result<Option<Session>>;
    /// Returns a session with everything that plans depend on, read at one moment. `None` if it does not exist.
    async fn session_snapshot(&self, id: &SessionId) -> Result<Option<SessionSnapshot>>;
    /// Returns the sessions that match a filter, newest first, one page at a time.
    async fn list_sessions(&self, filter: &SessionFilter, page: PageRequest)
    -> Result<SessionPage>;
    /// Returns, for each session, the values that show whether it has changed.
    async fn session_stamps(&self) -> Result<Vec<SessionStamp>>;
    /// Returns the sessions that a typed reference may mean.
    async fn ref_candidates(&self, text: &str) -> Result<Vec<RefCandidate>>;
    /// Returns those of `natives` on which any session has ever run.
    async fn attached_natives(
        &self,
        natives: &[(ProviderId, NativeId)],
    ) -> Result<Vec<(ProviderId, NativeId)>>;

    // Turns.

    /// Records a prompt as the next turn, moves the head to it, and applies the rest of `new`, in one operation.
    async fn start_turn(&self, lease: &Lease, new: NewTurn) -> Result<Turn>;
    /// Records a prompt as the next turn, and moves the head to it.
    async fn begin_turn(&self, lease: &Lease, prompt: &Message) -> Result<Turn> {
        self.start_turn(lease, NewTurn::from(prompt.clone())).await
    }
    /// Records a message as a separate turn that has ended and was never sent, and moves the head to it.
    async fn add_message(&self, lease: &Lease, message: &Message) -> Result<Turn>;
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
    /// Ends a turn without consequences.
    async fn finish_turn(&self, lease: &Lease, turn: TurnId, ending: TurnEnding) -> Result<()> {
        self.settle_turn(lease, turn, ending, SettleEffects::default())
            .await
    }
    /// Ends a turn that was never sent, and moves the head back to the turn before. The prompt stays on record but is
    /// not part of the history.
    async fn withdraw_turn(&self, lease: &Lease, turn: TurnId, at: Timestamp) -> Result<()>;
    /// Records the mark of the native record at which the last attempt at a turn ended. Does nothing if the turn has no
    /// attempt.
    async fn set_attempt_mark(&self, lease: &Lease, turn: TurnId, mark: &str) -> Result<()>;
    /// Applies what a native session contains and the record does not, in one operation.
    async fn apply_native_update(&self, lease: &Lease, update: NativeUpdate) -> Result<Session>;
    /// Creates a session from turns that a native session contains after the tip of a leg (or after the turn to which
    /// it was rewound), because the head of the leg's session has moved off that path. The new session continues on the
    /// native session, and the leg ends.
    async fn fork_native_update(
        &self,
        lease: &Lease,
        new: NewSession,
        owner: ProcessIdentity,
        update: NativeUpdate,
    ) -> Result<Session>;
    /// Returns the turns that lead to the head, oldest first.
    async fn turns(&self, id: &SessionId) -> Result<Vec<Turn>>;
    /// Returns the turns that lead to a turn, oldest first, including that turn.
    async fn turns_up_to(&self, turn: TurnId) -> Result<Vec<Turn>>;
    /// Returns the messages of a turn, the prompt first. A draft is returned as an incomplete message.
    async fn messages(&self, turn: TurnId) -> Result<Vec<Message>>;
    /// Returns the attempts at a turn.
    async fn attempts(&self, turn: TurnId) -> Result<Vec<Attempt>>;

    // Tokens.

    /// Returns the messages of the turns up to `head`, newest turn first. Returns complete turns until they fill a
    /// brief of `token_budget` tokens, or until no turn remains.
    async fn recent_turns(&self, head: TurnId, token_budget: u64) -> Result<Vec<StoredTurn>>;
    /// Returns the messages of the turns after number `n` up to `head`, newest turn first.
    async fn turns_after(&self, head: TurnId, n: u32) -> Result<Vec<StoredTurn>>;
    /// Sets the token counts of messages that have none. Messages of a turn that has not ended stay unchanged.
    async fn fill_token_counts(&self, counts: Vec<TokenCount>) -> Result<()>;
    /// Returns the newest turns of a provider for which both segue's estimate and the agent's count exist, newest
    /// first.
    async fn context_measurements(
        &self,
        provider: &ProviderId,
        limit: u32,
    ) -> Result<Vec<ContextMeasurement>>;

    // Checkpoints.

    /// Stores another version of a checkpoint. All versions are retained.
    async fn add_checkpoint(&self, lease: &Lease, new: NewCheckpoint) -> Result<CheckpointVersion>;
    /// Stores the version that a compaction makes, ends its leg, and logs the decision with the number of the version, in
    /// one operation.
    async fn commit_compaction(
        &self,
        lease: &Lease,
        new: NewCheckpoint,
        compaction: CompactionCommit,
    ) -> Result<CheckpointVersion>;
    /// Returns the version that is active at a turn of a session: the newest version of the nearest turn that has one,
    /// from `turn` back through its ancestors. A version that another session made on a shared turn counts if it
    /// existed when this session was forked from that session. `None` if no version is active.
    async fn checkpoint_at(
        &self,
        id: &SessionId,
        turn: TurnId,
    ) -> Result<Option<(CheckpointVersion, Checkpoint)>>;
    /// Returns all versions of a session, oldest first, including those that it shares with the session from which it
    /// was forked.
    async fn checkpoints(&self, id: &SessionId) -> Result<Vec<CheckpointVersion>>;
    /// Returns version `n` of a session with its content. `None` if it does not exist.
    async fn checkpoint(
        &self,
        id: &SessionId,
        n: u32,
    ) -> Result<Option<(CheckpointVersion, Checkpoint)>>;

    // Project context.

    /// Stores the project context of an agent in a role, and replaces the stored context of the session. The time of
    /// last activity stays unchanged.
    async fn save_context(&self, id: &SessionId, context: CachedContext) -> Result<()>;
    /// Returns the stored project context. `None` if none is stored or if it cannot be decoded, because the caller can
    /// rebuild it.
    async fn saved_context(&self, id: &SessionId) -> Result<Option<CachedContext>>;

    // Legs.

    /// Opens the next leg. It has no tip yet.
    async fn open_leg(&self, lease: &Lease, leg: NewLeg) -> Result<Leg>;
    /// Sets the native session id of a leg that has not ended.
    async fn set_leg_native_id(
        &self,
        lease: &Lease,
        leg: LegId,
        native_id: &NativeId,
    ) -> Result<()>;
    /// Records that the agent of a leg compacted its own context, so that it needs a reminder of the rules, or that it
    /// received the reminder.
    async fn set_context_loss(
        &self,
        lease: &Lease,
        leg: LegId,
        state: ContextLossState,
    ) -> Result<()>;
    /// Ends a leg.
    async fn end_leg(&self, lease: &Lease, leg: LegId, reason: LegEnd, at: Timestamp)
    -> Result<()>;
    /// Opens the next leg on the native session of an earlier leg, with the tip of that leg. An open leg of the session
    /// ends with the reason `reason`. Fails with [`StoreError::NativeAttached`] if another session uses the native
    /// session.
    async fn reopen_leg(
        &self,
        lease: &Lease,
        leg: LegId,
        reason: LegEnd,
        at: Timestamp,
    ) -> Result<Leg>;
    /// Returns a leg of any session. `None` if it does not exist.
    async fn leg(&self, id: LegId) -> Result<Option<Leg>>;
    /// Returns the legs of a session, oldest first.
    async fn legs(&self, id: &SessionId) -> Result<Vec<Leg>>;

    /// Changes the provider of a session. Its leg ends, and the next leg belongs to the new provider.
    async fn change_provider(
        &self,
        lease: &Lease,
        provider: &ProviderId,
        at: Timestamp,
    ) -> Result<Session>;

    // Provider health.

    /// Returns the health of a provider in a session.
    async fn provider_health(
        &self,
        id: &SessionId,
        provider: &ProviderId,
    ) -> Result<ProviderHealth> {
        let snapshot = self.session_snapshot(id).await?;
        Ok(snapshot.map_or_else(ProviderHealth::default, |snapshot| {
            snapshot.providers.health_of(provider)
        }))
    }
    /// Records the health of a provider in a session.
    async fn set_provider_health(
        &self,
        lease: &Lease,
        provider: &ProviderId,
        health: ProviderHealth,
    ) -> Result<()>;
    /// Records the cooldown of a provider, which applies to all sessions. Replaces an earlier cooldown of the provider.
    async fn set_cooldown(&self, cooldown: Cooldown) -> Result<()>;
    /// Clears the cooldown of a provider.
    async fn clear_cooldown(&self, provider: &ProviderId) -> Result<()>;
    /// Returns all recorded cooldowns, including those that are over.
    async fn cooldowns(&self) -> Result<Vec<Cooldown>>;

    // Head.

    /// Moves the head back to a turn that leads to it.
    async fn revert_head(&self, lease: &Lease, to: TurnId, at: Timestamp) -> Result<Session>;
    /// Moves the head to its position before the last revert that is not undone yet.
    async fn undo_revert(&self, lease: &Lease, at: Timestamp) -> Result<Session>;

    /// Returns the head moves of a session, and the sessions that were forked from it.
    async fn lineage(&self, id: &SessionId) -> Result<Lineage>;

    // The lease, which allows one turn at a time.

    /// Acquires the lease of a session.
    async fn acquire_lease(&self, request: LeaseRequest) -> Result<LeaseGrant>;
    /// Records that the owner of a lease is alive, and which agent process it runs.
    async fn record_heartbeat(
        &self,
        lease: &Lease,
        agent: Option<ProcessIdentity>,
        at: Timestamp,
    ) -> Result<()>;
    /// Releases a lease.
    async fn release_lease(&self, lease: &Lease) -> Result<()>;
    /// Returns the current owner of the lease of a session. `None` if the session has no owner.
    async fn lease_holder(&self, id: &SessionId) -> Result<Option<LeaseHolder>>;

    // Log.

    /// Records an automatic decision.
    async fn log_decision(&self, lease: &Lease, decision: &Decision, at: Timestamp) -> Result<()>;
    /// Returns the newest decisions of a session, oldest first.
    async fn decisions(&self, id: &SessionId, limit: u32) -> Result<Vec<(Timestamp, Decision)>>;
}
