//! What a store of sessions must do, and the suite that proves it.
//!
//! [`Store`] has few operations, each of them meaningful and atomic: it happens whole and is on the disk when
//! it returns, or it did not happen. Nothing here knows SQL. A store is trusted when it passes
//! `contract` (behind the feature of that name).

mod error;
mod import;
mod lease;
mod query;
mod write;

#[cfg(feature = "contract")]
pub mod contract;

use async_trait::async_trait;
use jiff::Timestamp;
use segue_core::{
    Attempt, Candidate, Checkpoint, Decision, Failure, KeptContext, Leg, LegEnd, LegId, Lineage,
    Message, NativeId, ProcessMark, ProviderId, Rest, Session, SessionId, Standing, Title, Turn,
    TurnId, Version,
};

pub use error::{BoxError, StoreError};
pub use import::{Imported, ImportedCheckpoint, Origin};
pub use lease::{Granted, Holder, Lease, LeaseRequest, Started};
pub use query::{Cursor, Filter, Found, Mark, Measured, Page, Said, TagCount};
pub use write::{
    Adopted, AdoptedTurn, Draft, DraftKind, Entry, Finish, ForkPoint, Memory, NewLeg, NewSession,
    NewVersion, Retag, Settled, TakenIn, TokenCount,
};

/// The outcome of a store operation.
pub type Result<T> = std::result::Result<T, StoreError>;

/// A place that keeps sessions.
///
/// Duties of an implementer: an operation that returned `Ok` survives the loss of power, but for claims where nobody
/// who has one survives it either; one that returned an error changed nothing; a write that carries a [`Lease`] is
/// refused with [`StoreError::LeaseLost`] unless that lease is the newest of its session (what a person may do at any
/// time, such as to rename, needs none); waiting for other writers is the store's business, not the caller's; a read
/// never waits for a writer.
#[async_trait]
pub trait Store: Send + Sync {
    // Sessions.

    /// Makes a session without turns.
    async fn create(&self, new: NewSession) -> Result<Session>;
    /// Makes a session, claims it, and writes its first prompt down, all at once.
    async fn start(&self, new: NewSession, owner: ProcessMark, prompt: &Message)
    -> Result<Started>;
    /// Makes a session out of a native session, with all of its turns, and claims it; its leg knows them all. A native
    /// session that another session is at is refused with [`StoreError::Carried`].
    async fn adopt(&self, new: NewSession, owner: ProcessMark, native: Adopted) -> Result<Lease>;
    /// Makes a session out of what another program kept, whole. If a session of the same project came under the same
    /// name already that it is not said to come beside, it is refused with [`StoreError::Fits`].
    async fn import(
        &self,
        new: NewSession,
        owner: ProcessMark,
        imported: Imported,
    ) -> Result<Session>;
    /// Where a session came from; none if it began here.
    async fn origin(&self, id: &SessionId) -> Result<Option<Origin>>;
    /// Makes a session whose head is a turn of another; the turns up to there are shared, not copied. It has the tags
    /// of the other.
    async fn fork(&self, new: NewSession, from: ForkPoint) -> Result<Session>;
    /// Gives a session the title a person chose. That is no event in its life: it does not become newer by it.
    async fn rename(&self, id: &SessionId, title: &Title) -> Result<()>;
    /// Gives a session the title that the model proposes, unless a person chose one. It does not become newer by it.
    async fn suggest_title(&self, id: &SessionId, title: &Title) -> Result<()>;
    /// Changes the tags of a session. It does not become newer by it.
    async fn retag(&self, id: &SessionId, retag: Retag) -> Result<Session>;
    /// All tags that some session has, in order.
    async fn tags(&self) -> Result<Vec<TagCount>>;
    /// Removes a session with all that no other session shares.
    async fn delete(&self, lease: &Lease) -> Result<()>;
    /// One session.
    async fn session(&self, id: &SessionId) -> Result<Option<Session>>;
    /// The sessions that fit a filter, newest first, a page at a time.
    async fn find(&self, filter: &Filter, page: Page) -> Result<Found>;
    /// What tells of each session whether it has changed.
    async fn marks(&self) -> Result<Vec<Mark>>;
    /// The sessions that a typed reference may mean.
    async fn candidates(&self, text: &str) -> Result<Vec<Candidate>>;
    /// Those of some native sessions that some session here has ever run on.
    async fn carried(
        &self,
        natives: &[(ProviderId, NativeId)],
    ) -> Result<Vec<(ProviderId, NativeId)>>;

    // Turns.

    /// Writes a prompt down as the next turn, and moves the head to it.
    async fn begin_turn(&self, lease: &Lease, prompt: &Message) -> Result<Turn>;
    /// Writes a message down as a turn of its own that has ended and was sent to nobody, and moves the head to it.
    async fn add_message(&self, lease: &Lease, message: &Message) -> Result<Turn>;
    /// Notes that the prompt is about to be sent on a leg, whose tip it becomes.
    async fn begin_attempt(
        &self,
        lease: &Lease,
        turn: TurnId,
        leg: LegId,
        at: Timestamp,
    ) -> Result<()>;
    /// Ends the attempt that is under way as failed; the turn goes on, for another one.
    async fn fail_attempt(
        &self,
        lease: &Lease,
        turn: TurnId,
        failure: &Failure,
        at: Timestamp,
    ) -> Result<()>;
    /// Adds to a turn that is under way.
    async fn append(&self, lease: &Lease, turn: TurnId, entry: Entry) -> Result<()>;
    /// Ends a turn and its last attempt, and settles what they used; and with it, what follows from that. It can't be
    /// changed any more.
    async fn settle_turn(
        &self,
        lease: &Lease,
        turn: TurnId,
        finish: Finish,
        settled: Settled,
    ) -> Result<()>;
    /// Ends a turn from which nothing follows.
    async fn finish_turn(&self, lease: &Lease, turn: TurnId, finish: Finish) -> Result<()> {
        self.settle_turn(lease, turn, finish, Settled::default())
            .await
    }
    /// Ends a turn that was never sent, and moves the head back to where it was before: the prompt stays on record, and
    /// is no part of the history.
    async fn withdraw_turn(&self, lease: &Lease, turn: TurnId, at: Timestamp) -> Result<()>;
    /// Notes the native record that the last attempt at a turn ended at; where there was none, nothing.
    async fn mark_end(&self, lease: &Lease, turn: TurnId, mark: &str) -> Result<()>;
    /// Takes in what a native session has that the record lacks, all at once.
    async fn take_in(&self, lease: &Lease, taken: TakenIn) -> Result<Session>;
    /// Makes a session of turns that a native session has after the tip of a leg (or the turn that it went back to)
    /// whose session is elsewhere by now. The new one goes on with the native session, and the leg ends.
    async fn take_aside(
        &self,
        lease: &Lease,
        new: NewSession,
        owner: ProcessMark,
        taken: TakenIn,
    ) -> Result<Session>;
    /// The turns that lead to the head, oldest first.
    async fn turns(&self, id: &SessionId) -> Result<Vec<Turn>>;
    /// The turns that lead to a turn, oldest first, itself included.
    async fn turns_to(&self, turn: TurnId) -> Result<Vec<Turn>>;
    /// What was said in a turn, the prompt first; what was only drafted comes as incomplete.
    async fn messages(&self, turn: TurnId) -> Result<Vec<Message>>;
    /// The tries at a turn.
    async fn attempts(&self, turn: TurnId) -> Result<Vec<Attempt>>;

    // Tokens.

    /// What was said up to a turn, the newest turn first: whole turns, until those read fill a brief of that many
    /// tokens at least, or there are no more.
    async fn recent(&self, head: TurnId, tokens: u64) -> Result<Vec<Said>>;
    /// What was said after the turn with a number, up to a turn, the newest turn first.
    async fn said_since(&self, head: TurnId, n: u32) -> Result<Vec<Said>>;
    /// Fills in the tokens of messages that were not counted yet; a turn that has not ended keeps what it has.
    async fn fill_tokens(&self, counts: Vec<TokenCount>) -> Result<()>;
    /// Notes by how many tokens a turn's last attempt made the native session of its leg longer, by our count. None is
    /// unknown, and makes unknown what the native session holds from then on.
    async fn note_estimate(&self, lease: &Lease, turn: TurnId, added: Option<u64>) -> Result<()>;
    /// The newest turns with this agent of which both our estimate and its own figure are known, newest first.
    async fn measured(&self, provider: &ProviderId, limit: u32) -> Result<Vec<Measured>>;

    // Checkpoints.

    /// Keeps another version of a checkpoint, and ends the leg that is over by it. All versions stay.
    async fn add_checkpoint(
        &self,
        lease: &Lease,
        new: NewVersion,
        ends: Option<(LegId, LegEnd)>,
    ) -> Result<Version>;
    /// The version in force at a turn of a session: the newest on the nearest turn at or above it that has one. What
    /// another session made on a turn that both share counts if it was there when this one was forked off from it.
    async fn checkpoint_at(
        &self,
        id: &SessionId,
        turn: TurnId,
    ) -> Result<Option<(Version, Checkpoint)>>;
    /// All versions that a session has, oldest first, also those that it shares with the session it was forked from.
    async fn checkpoints(&self, id: &SessionId) -> Result<Vec<Version>>;
    /// One of them, with what it says.
    async fn checkpoint(&self, id: &SessionId, n: u32) -> Result<Option<(Version, Checkpoint)>>;

    // Context.

    /// Keeps what an agent in a role is told of the project, in place of what was kept of it before. The session does
    /// not become newer by it.
    async fn keep_context(&self, id: &SessionId, kept: KeptContext) -> Result<()>;
    /// What was kept of it; none also where it can't be read any more, since it can be gathered anew.
    async fn context(&self, id: &SessionId) -> Result<Option<KeptContext>>;

    // Legs.

    /// Opens the next leg, with no turn seen yet.
    async fn open_leg(&self, lease: &Lease, leg: NewLeg) -> Result<Leg>;
    /// Notes what the provider calls a leg that has not ended.
    async fn name_leg(&self, lease: &Lease, leg: LegId, native_id: &NativeId) -> Result<()>;
    /// Notes that the agent of a leg made its own context smaller, so that it has to be told again what must not be
    /// forgotten; or that it was told.
    async fn note_memory(&self, lease: &Lease, leg: LegId, memory: Memory) -> Result<()>;
    /// Ends a leg.
    async fn end_leg(&self, lease: &Lease, leg: LegId, why: LegEnd, at: Timestamp) -> Result<()>;
    /// Opens the next leg on the native session of an earlier one, which knows the turns up to that one's tip; the leg
    /// that has not ended yet, if there is one, ends as `why` says. A native session that another session is at is
    /// refused with [`StoreError::Carried`].
    async fn take_up_leg(
        &self,
        lease: &Lease,
        leg: LegId,
        why: LegEnd,
        at: Timestamp,
    ) -> Result<Leg>;
    /// A leg of whatever session.
    async fn leg(&self, id: LegId) -> Result<Option<Leg>>;
    /// The legs of a session, oldest first.
    async fn legs(&self, id: &SessionId) -> Result<Vec<Leg>>;

    /// Has another provider carry a session from now on: its leg ends, and the next one will be that provider's.
    async fn hand_over(&self, lease: &Lease, to: &ProviderId, at: Timestamp) -> Result<Session>;

    // How agents fare.

    /// How a session fares with a provider.
    async fn standing(&self, id: &SessionId, provider: &ProviderId) -> Result<Standing>;
    /// Notes how a session fares with a provider.
    async fn set_standing(
        &self,
        lease: &Lease,
        provider: &ProviderId,
        standing: Standing,
    ) -> Result<()>;
    /// Notes that a provider rests, whatever the session; what was noted of it before is replaced.
    async fn rest(&self, rest: Rest) -> Result<()>;
    /// Notes that a provider does not rest any more.
    async fn wake(&self, provider: &ProviderId) -> Result<()>;
    /// All rests that were noted, also those that are over.
    async fn rests(&self) -> Result<Vec<Rest>>;

    // The head.

    /// Moves the head back to a turn that leads to it.
    async fn revert(&self, lease: &Lease, to: TurnId, at: Timestamp) -> Result<Session>;
    /// Moves the head to where it was before the last revert that was not undone yet.
    async fn undo(&self, lease: &Lease, at: Timestamp) -> Result<Session>;

    /// The moves of a session's head, and the sessions that were forked off from it.
    async fn lineage(&self, id: &SessionId) -> Result<Lineage>;

    // The lease: one turn at a time.

    /// Claims a session for writing.
    async fn acquire(&self, request: LeaseRequest) -> Result<Granted>;
    /// Shows that the holder is alive, and which agent it runs.
    async fn heartbeat(
        &self,
        lease: &Lease,
        agent: Option<ProcessMark>,
        at: Timestamp,
    ) -> Result<()>;
    /// Gives the session back.
    async fn release(&self, lease: &Lease) -> Result<()>;
    /// Who holds a session now.
    async fn holder(&self, id: &SessionId) -> Result<Option<Holder>>;

    // The log.

    /// Notes an automatic decision.
    async fn note(&self, lease: &Lease, decision: &Decision, at: Timestamp) -> Result<()>;
    /// The newest decisions of a session, oldest first.
    async fn decisions(&self, id: &SessionId, limit: u32) -> Result<Vec<(Timestamp, Decision)>>;
}
