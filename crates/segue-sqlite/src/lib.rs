//! The embedded store: one SQLite file in WAL mode.
//!
//! All writes of a process run on one thread. It commits the queued writes in one transaction and answers the callers
//! once the commit is on the disk. Writes of leases do not wait for the disk, because a lease need not survive a power
//! failure. Reads use their own connections and never wait for the writer. If another process has locked the file,
//! segue waits for it. `segue-catalog` uses `rusqlite` too, for data that can be rebuilt.

mod connection;
mod error;
mod ops;
mod reader;
mod rows;
mod schema;
mod writer;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::Connection;
use segue_core::agent::ProcessIdentity;
use segue_core::brief::CachedContext;
use segue_core::checkpoint::{Checkpoint, CheckpointVersion};
use segue_core::id::{LegId, NativeId, ProviderId, SessionId, TurnId};
use segue_core::policy::{Cooldown, ProviderHealth};
use segue_core::session::{
    Attempt, Decision, Failure, Leg, LegEnd, Lineage, Message, RefCandidate, Session,
    SessionSnapshot, Title, Turn,
};
use segue_store::{
    AdoptedSession, CompactionCommit, ContextLossState, ContextMeasurement, ForkPoint,
    ImportedSession, Lease, LeaseGrant, LeaseHolder, LeaseRequest, NativeUpdate, NewCheckpoint,
    NewLeg, NewSession, NewTurn, PageRequest, Result, SessionFilter, SessionOrigin, SessionPage,
    SessionStamp, SettleEffects, StartedSession, Store, StoredTurn, TagChange, TagCount,
    TokenCount, TurnEnding, TurnEntry,
};

use error::OpError;
use reader::ReaderPool;
use writer::{Durability, StoreWriter};

pub use connection::FILE_NAME;

/// A store in one SQLite file.
pub struct SqliteStore {
    path: PathBuf,
    // Fields are dropped in this order, because the last connection that closes moves the WAL into the file, and only a
    // writer can do that.
    readers: ReaderPool,
    writer: StoreWriter,
}

/// Result of a check of the store's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreHealth {
    /// Format version of the file.
    pub format: i64,
    /// Number of sessions in the store.
    pub sessions: u64,
    /// Problems that SQLite's `quick_check` reports; empty if it finds none.
    pub problems: Vec<String>,
}

impl SqliteStore {
    /// Opens the store in `directory`. Creates it if it does not exist, and migrates it if its format is older.
    pub fn open(directory: &Path) -> Result<Self> {
        let (path, reader) = connection::prepare_store(directory)?;
        Ok(Self {
            readers: ReaderPool::new(path.clone(), reader),
            writer: StoreWriter::new(path.clone()),
            path,
        })
    }

    /// Returns the path of the store's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks the complete file with `quick_check`, which reports at most 10 problems.
    pub async fn check_health(&self) -> Result<StoreHealth> {
        self.read("check", ops::check_health).await
    }

    async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> std::result::Result<T, OpError> + Send + 'static,
    {
        self.writer.run(Durability::PowerFailure, work).await
    }

    /// Writes a lease: the commit survives the end of the process, but does not wait for the disk.
    async fn write_lease<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> std::result::Result<T, OpError> + Send + 'static,
    {
        self.writer.run(Durability::ProcessExit, work).await
    }

    async fn read<T, F>(&self, operation: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> std::result::Result<T, OpError> + Send + 'static,
    {
        self.readers.run(operation, work).await
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn create_session(&self, new: NewSession) -> Result<Session> {
        self.write(move |db| ops::sessions::create_session(db, &new))
            .await
    }

    async fn start_session(
        &self,
        new: NewSession,
        owner: ProcessIdentity,
        prompt: &Message,
    ) -> Result<StartedSession> {
        let prompt = prompt.clone();
        self.write(move |db| ops::sessions::start_session(db, &new, &owner, &prompt))
            .await
    }

    async fn adopt_native_session(
        &self,
        new: NewSession,
        owner: ProcessIdentity,
        native: AdoptedSession,
    ) -> Result<Lease> {
        self.write(move |db| ops::adopt::adopt_native_session(db, &new, &owner, &native))
            .await
    }

    async fn import_session(
        &self,
        new: NewSession,
        owner: ProcessIdentity,
        imported: ImportedSession,
    ) -> Result<Session> {
        self.write(move |db| ops::import::import_session(db, &new, &owner, &imported))
            .await
    }

    async fn session_origin(&self, id: &SessionId) -> Result<Option<SessionOrigin>> {
        let id = id.clone();
        self.read("read", move |db| ops::import::find_origin(db, &id))
            .await
    }

    async fn fork_session(&self, new: NewSession, fork_point: ForkPoint) -> Result<Session> {
        self.write(move |db| ops::sessions::fork_session(db, &new, &fork_point))
            .await
    }

    async fn rename_session(&self, id: &SessionId, title: &Title) -> Result<()> {
        let (id, title) = (id.clone(), title.clone());
        self.write(move |db| ops::sessions::rename_session(db, &id, &title))
            .await
    }

    async fn suggest_title(&self, id: &SessionId, title: &Title) -> Result<()> {
        let (id, title) = (id.clone(), title.clone());
        self.write(move |db| ops::sessions::suggest_title(db, &id, &title))
            .await
    }

    async fn change_tags(&self, id: &SessionId, change: TagChange) -> Result<Session> {
        let id = id.clone();
        self.write(move |db| ops::tags::change_tags(db, &id, &change))
            .await
    }

    async fn tag_counts(&self) -> Result<Vec<TagCount>> {
        self.read("read", ops::tags::count_tags).await
    }

    async fn delete_session(&self, lease: &Lease) -> Result<()> {
        let lease = lease.clone();
        self.write(move |db| ops::sessions::delete_session(db, &lease))
            .await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<Session>> {
        let id = id.clone();
        self.read("read", move |db| ops::sessions::find_session(db, &id))
            .await
    }

    async fn session_snapshot(&self, id: &SessionId) -> Result<Option<SessionSnapshot>> {
        let id = id.clone();
        self.read("read", move |db| ops::sessions::find_snapshot(db, &id))
            .await
    }

    async fn list_sessions(
        &self,
        filter: &SessionFilter,
        page: PageRequest,
    ) -> Result<SessionPage> {
        let filter = filter.clone();
        self.read("search", move |db| {
            ops::session_query::list_sessions(db, &filter, &page)
        })
        .await
    }

    async fn ref_candidates(&self, text: &str) -> Result<Vec<RefCandidate>> {
        let text = text.to_owned();
        self.read("search", move |db| {
            ops::session_query::list_ref_candidates(db, &text)
        })
        .await
    }

    async fn session_stamps(&self) -> Result<Vec<SessionStamp>> {
        self.read("search", ops::session_query::list_session_stamps)
            .await
    }

    async fn attached_natives(
        &self,
        natives: &[(ProviderId, NativeId)],
    ) -> Result<Vec<(ProviderId, NativeId)>> {
        let natives = natives.to_vec();
        self.read("search", move |db| {
            ops::session_query::filter_attached_natives(db, natives)
        })
        .await
    }

    async fn start_turn(&self, lease: &Lease, new: NewTurn) -> Result<Turn> {
        let lease = lease.clone();
        self.write(move |db| ops::turns::start_turn(db, &lease, &new))
            .await
    }

    async fn add_message(&self, lease: &Lease, message: &Message) -> Result<Turn> {
        let (lease, message) = (lease.clone(), message.clone());
        self.write(move |db| ops::turns::add_message(db, &lease, &message))
            .await
    }

    async fn begin_attempt(
        &self,
        lease: &Lease,
        turn: TurnId,
        leg: LegId,
        at: Timestamp,
    ) -> Result<()> {
        let lease = lease.clone();
        self.write(move |db| ops::turns::begin_attempt(db, &lease, turn, leg, at))
            .await
    }

    async fn fail_attempt(
        &self,
        lease: &Lease,
        turn: TurnId,
        failure: &Failure,
        at: Timestamp,
    ) -> Result<()> {
        let (lease, failure) = (lease.clone(), failure.clone());
        self.write(move |db| ops::turns::fail_attempt(db, &lease, turn, &failure, at))
            .await
    }

    async fn append_entry(&self, lease: &Lease, turn: TurnId, entry: TurnEntry) -> Result<()> {
        let lease = lease.clone();
        self.write(move |db| ops::turns::append_entry(db, &lease, turn, &entry))
            .await
    }

    async fn settle_turn(
        &self,
        lease: &Lease,
        turn: TurnId,
        ending: TurnEnding,
        effects: SettleEffects,
    ) -> Result<()> {
        let lease = lease.clone();
        self.write(move |db| ops::turns::settle_turn(db, &lease, turn, &ending, &effects))
            .await
    }

    async fn withdraw_turn(&self, lease: &Lease, turn: TurnId, at: Timestamp) -> Result<()> {
        let lease = lease.clone();
        self.write(move |db| ops::turns::withdraw_turn(db, &lease, turn, at))
            .await
    }

    async fn set_attempt_mark(&self, lease: &Lease, turn: TurnId, mark: &str) -> Result<()> {
        let (lease, mark) = (lease.clone(), mark.to_owned());
        self.write(move |db| ops::reconcile::set_attempt_mark(db, &lease, turn, &mark))
            .await
    }

    async fn apply_native_update(&self, lease: &Lease, update: NativeUpdate) -> Result<Session> {
        let lease = lease.clone();
        self.write(move |db| ops::reconcile::apply_native_update(db, &lease, &update))
            .await
    }

    async fn fork_native_update(
        &self,
        lease: &Lease,
        new: NewSession,
        owner: ProcessIdentity,
        update: NativeUpdate,
    ) -> Result<Session> {
        let lease = lease.clone();
        self.write(move |db| ops::reconcile::fork_native_update(db, &lease, &new, &owner, &update))
            .await
    }

    async fn turns(&self, id: &SessionId) -> Result<Vec<Turn>> {
        let id = id.clone();
        self.read("read", move |db| ops::turns::chain(db, &id))
            .await
    }

    async fn turns_up_to(&self, turn: TurnId) -> Result<Vec<Turn>> {
        self.read("read", move |db| ops::turns::chain_up_to(db, turn))
            .await
    }

    async fn messages(&self, turn: TurnId) -> Result<Vec<Message>> {
        self.read("read", move |db| ops::turns::list_messages(db, turn))
            .await
    }

    async fn attempts(&self, turn: TurnId) -> Result<Vec<Attempt>> {
        self.read("read", move |db| ops::turns::list_attempts(db, turn))
            .await
    }

    async fn recent_turns(&self, head: TurnId, token_budget: u64) -> Result<Vec<StoredTurn>> {
        self.read("read", move |db| {
            ops::tokens::read_recent_turns(db, head, token_budget)
        })
        .await
    }

    async fn turns_after(&self, head: TurnId, n: u32) -> Result<Vec<StoredTurn>> {
        self.read("read", move |db| ops::tokens::read_turns_after(db, head, n))
            .await
    }

    async fn fill_token_counts(&self, counts: Vec<TokenCount>) -> Result<()> {
        self.write(move |db| ops::tokens::fill_token_counts(db, &counts))
            .await
    }

    async fn context_measurements(
        &self,
        provider: &ProviderId,
        limit: u32,
    ) -> Result<Vec<ContextMeasurement>> {
        let provider = provider.clone();
        self.read("read", move |db| {
            ops::tokens::list_context_measurements(db, &provider, limit)
        })
        .await
    }

    async fn add_checkpoint(&self, lease: &Lease, new: NewCheckpoint) -> Result<CheckpointVersion> {
        let lease = lease.clone();
        self.write(move |db| ops::checkpoints::add_checkpoint(db, &lease, &new))
            .await
    }

    async fn commit_compaction(
        &self,
        lease: &Lease,
        new: NewCheckpoint,
        compaction: CompactionCommit,
    ) -> Result<CheckpointVersion> {
        let lease = lease.clone();
        self.write(move |db| ops::checkpoints::commit_compaction(db, &lease, &new, compaction))
            .await
    }

    async fn checkpoint_at(
        &self,
        id: &SessionId,
        turn: TurnId,
    ) -> Result<Option<(CheckpointVersion, Checkpoint)>> {
        let id = id.clone();
        self.read("read", move |db| {
            ops::checkpoints::find_checkpoint_at(db, &id, turn)
        })
        .await
    }

    async fn checkpoints(&self, id: &SessionId) -> Result<Vec<CheckpointVersion>> {
        let id = id.clone();
        self.read("read", move |db| {
            ops::checkpoints::list_checkpoints(db, &id)
        })
        .await
    }

    async fn checkpoint(
        &self,
        id: &SessionId,
        n: u32,
    ) -> Result<Option<(CheckpointVersion, Checkpoint)>> {
        let id = id.clone();
        self.read("read", move |db| {
            ops::checkpoints::find_checkpoint(db, &id, n)
        })
        .await
    }

    async fn save_context(&self, id: &SessionId, context: CachedContext) -> Result<()> {
        let id = id.clone();
        self.write(move |db| ops::context::save_context(db, &id, &context))
            .await
    }

    async fn saved_context(&self, id: &SessionId) -> Result<Option<CachedContext>> {
        let id = id.clone();
        self.read("read", move |db| ops::context::find_context(db, &id))
            .await
    }

    async fn open_leg(&self, lease: &Lease, leg: NewLeg) -> Result<Leg> {
        let lease = lease.clone();
        self.write(move |db| ops::legs::open_leg(db, &lease, &leg))
            .await
    }

    async fn set_leg_native_id(
        &self,
        lease: &Lease,
        leg: LegId,
        native_id: &NativeId,
    ) -> Result<()> {
        let (lease, native_id) = (lease.clone(), native_id.clone());
        self.write(move |db| ops::legs::set_leg_native_id(db, &lease, leg, &native_id))
            .await
    }

    async fn set_context_loss(
        &self,
        lease: &Lease,
        leg: LegId,
        state: ContextLossState,
    ) -> Result<()> {
        let lease = lease.clone();
        self.write(move |db| ops::legs::set_context_loss(db, &lease, leg, state))
            .await
    }

    async fn end_leg(
        &self,
        lease: &Lease,
        leg: LegId,
        reason: LegEnd,
        at: Timestamp,
    ) -> Result<()> {
        let lease = lease.clone();
        self.write(move |db| ops::legs::end_leg(db, &lease, leg, reason, at))
            .await
    }

    async fn reopen_leg(
        &self,
        lease: &Lease,
        leg: LegId,
        reason: LegEnd,
        at: Timestamp,
    ) -> Result<Leg> {
        let lease = lease.clone();
        self.write(move |db| ops::legs::reopen_leg(db, &lease, leg, reason, at))
            .await
    }

    async fn leg(&self, id: LegId) -> Result<Option<Leg>> {
        self.read("read", move |db| ops::legs::find_leg(db, id))
            .await
    }

    async fn legs(&self, id: &SessionId) -> Result<Vec<Leg>> {
        let id = id.clone();
        self.read("read", move |db| ops::legs::list_legs(db, &id))
            .await
    }

    async fn change_provider(
        &self,
        lease: &Lease,
        provider: &ProviderId,
        at: Timestamp,
    ) -> Result<Session> {
        let (lease, provider) = (lease.clone(), provider.clone());
        self.write(move |db| ops::legs::change_provider(db, &lease, &provider, at))
            .await
    }

    async fn set_provider_health(
        &self,
        lease: &Lease,
        provider: &ProviderId,
        health: ProviderHealth,
    ) -> Result<()> {
        let (lease, provider) = (lease.clone(), provider.clone());
        self.write(move |db| {
            ops::provider_health::set_provider_health(db, &lease, &provider, &health)
        })
        .await
    }

    async fn set_cooldown(&self, cooldown: Cooldown) -> Result<()> {
        self.write(move |db| ops::provider_health::set_cooldown(db, &cooldown))
            .await
    }

    async fn clear_cooldown(&self, provider: &ProviderId) -> Result<()> {
        let provider = provider.clone();
        self.write(move |db| ops::provider_health::clear_cooldown(db, &provider))
            .await
    }

    async fn cooldowns(&self) -> Result<Vec<Cooldown>> {
        self.read("read", ops::provider_health::list_cooldowns)
            .await
    }

    async fn revert_head(&self, lease: &Lease, to: TurnId, at: Timestamp) -> Result<Session> {
        let lease = lease.clone();
        self.write(move |db| ops::revert::revert_head(db, &lease, to, at))
            .await
    }

    async fn undo_revert(&self, lease: &Lease, at: Timestamp) -> Result<Session> {
        let lease = lease.clone();
        self.write(move |db| ops::revert::undo_revert(db, &lease, at))
            .await
    }

    async fn lineage(&self, id: &SessionId) -> Result<Lineage> {
        let id = id.clone();
        self.read("read", move |db| ops::lineage::load_lineage(db, &id))
            .await
    }

    async fn acquire_lease(&self, request: LeaseRequest) -> Result<LeaseGrant> {
        self.write_lease(move |db| ops::lease::acquire_lease(db, &request))
            .await
    }

    async fn record_heartbeat(
        &self,
        lease: &Lease,
        agent: Option<ProcessIdentity>,
        at: Timestamp,
    ) -> Result<()> {
        let lease = lease.clone();
        self.write_lease(move |db| ops::lease::record_heartbeat(db, &lease, agent.as_ref(), at))
            .await
    }

    async fn release_lease(&self, lease: &Lease) -> Result<()> {
        let lease = lease.clone();
        self.write_lease(move |db| ops::lease::release_lease(db, &lease))
            .await
    }

    async fn lease_holder(&self, id: &SessionId) -> Result<Option<LeaseHolder>> {
        let session = id.clone();
        let holder = self
            .read("read", move |db| ops::lease::find_holder(db, &session))
            .await?;
        if let Some(LeaseHolder { epoch, owner, .. }) = &holder {
            tracing::debug!(session = %id, epoch, pid = owner.pid, "lease in use");
        }
        Ok(holder)
    }

    async fn log_decision(&self, lease: &Lease, decision: &Decision, at: Timestamp) -> Result<()> {
        let (lease, decision) = (lease.clone(), decision.clone());
        self.write(move |db| ops::decisions::log_decision(db, &lease, &decision, at))
            .await
    }

    async fn decisions(&self, id: &SessionId, limit: u32) -> Result<Vec<(Timestamp, Decision)>> {
        let id = id.clone();
        self.read("read", move |db| {
            ops::decisions::list_decisions(db, &id, limit)
        })
        .await
    }
}
