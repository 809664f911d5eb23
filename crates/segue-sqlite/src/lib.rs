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
    AdoptedSession, AttemptStore, Change, ChangeFeed, CheckpointStore, CompactionCommit,
    ContextLossState, ContextMeasurement, ContextStore, DecisionLog, FeedCursor, ForkPoint,
    HeadStore, HistoryStore, ImportStore, ImportedSession, LabelStore, Lease, LeaseGrant,
    LeaseHolder, LeaseRequest, LeaseStore, LegStore, NativeStore, NativeUpdate, NewCheckpoint,
    NewLeg, NewSession, NewTurn, PageRequest, ProviderHealthStore, Result, SessionFilter,
    SessionOrigin, SessionPage, SessionQueries, SessionStamp, SessionStore, SettleEffects,
    StartedSession, StoreClock, StoredTurn, TagChange, TagCount, TokenCount, TokenStore,
    TurnEnding, TurnEntry, TurnStore,
};

use connection::Db;
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
        Self::open_with(directory, None)
    }

    /// Opens the store in `directory` as [`open`](Self::open) does, with another clock than that of the machine.
    pub fn open_with_clock(directory: &Path, clock: StoreClock) -> Result<Self> {
        Self::open_with(directory, Some(clock))
    }

    fn open_with(directory: &Path, clock: Option<StoreClock>) -> Result<Self> {
        let (path, reader) = connection::prepare_store(directory, clock)?;
        Ok(Self {
            writer: StoreWriter::new(path.clone(), reader.properties().clone()),
            readers: ReaderPool::new(path.clone(), reader),
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
        self.readers.run("check", ops::check_health).await
    }

    /// Writes durably: the commit survives a power failure.
    async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Db) -> std::result::Result<T, OpError> + Send + 'static,
    {
        self.writer.run(Durability::PowerFailure, work).await
    }

    /// Writes a lease: the commit survives the end of the process, but does not wait for the disk.
    async fn write_lease<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Db) -> std::result::Result<T, OpError> + Send + 'static,
    {
        self.writer.run(Durability::ProcessExit, work).await
    }

    async fn read<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Db) -> std::result::Result<T, OpError> + Send + 'static,
    {
        self.readers.run("read", work).await
    }

    /// Reads by a query whose errors name a search.
    async fn search<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Db) -> std::result::Result<T, OpError> + Send + 'static,
    {
        self.readers.run("search", work).await
    }
}

/// Implements the traits of a store with one line per method: how it runs, its signature, and the operation on a
/// connection that it calls. An argument `&name: T` is borrowed by the method and by the operation, `name: T` is moved
/// into the method and borrowed by the operation, and `*name: T` is passed by value.
macro_rules! dispatch {
    ($($store:ident {
        $($mode:ident $method:ident($(
            $(*$passed:ident: $value:tt)? $(&$borrowed:ident: $target:tt)? $($moved:ident: $owned:ty)?
        ),+) -> $result:ty = $module:ident::$operation:ident;)*
    })*) => {
        $(#[async_trait]
        impl $store for SqliteStore {
            $(async fn $method(
                &self,
                $($($passed: $value)? $($borrowed: &$target)? $($moved: $owned)?),*
            ) -> Result<$result> {
                $($(let $borrowed = ToOwned::to_owned($borrowed);)?)*
                self.$mode(move |db| {
                    ops::$module::$operation(db, $($($passed)? $(&$borrowed)? $(&$moved)?),*)
                })
                .await
            })*
        })*
    };
}

dispatch! {
    SessionStore {
        write create_session(new: NewSession) -> Session = sessions::create_session;
        write start_session(new: NewSession, owner: ProcessIdentity, &prompt: Message) -> StartedSession = sessions::start_session;
        write delete_session(&lease: Lease) -> () = sessions::delete_session;
        read session(&id: SessionId) -> Option<Session> = sessions::find_session;
        read session_snapshot(&id: SessionId) -> Option<SessionSnapshot> = sessions::find_snapshot;
    }
    SessionQueries {
        search list_sessions(&filter: SessionFilter, page: PageRequest) -> SessionPage = session_query::list_sessions;
        search session_stamps() -> Vec<SessionStamp> = session_query::list_session_stamps;
        search ref_candidates(&text: str) -> Vec<RefCandidate> = session_query::list_ref_candidates;
    }
    LabelStore {
        write rename_session(&id: SessionId, &title: Title) -> () = sessions::rename_session;
        write suggest_title(&id: SessionId, &title: Title) -> () = sessions::suggest_title;
        write change_tags(&id: SessionId, change: TagChange) -> Session = tags::change_tags;
        read tag_counts() -> Vec<TagCount> = tags::count_tags;
    }
    HeadStore {
        write fork_session(new: NewSession, fork_point: ForkPoint) -> Session = sessions::fork_session;
        write revert_head(&lease: Lease, *to: TurnId, *at: Timestamp) -> Session = revert::revert_head;
        write undo_revert(&lease: Lease, *at: Timestamp) -> Session = revert::undo_revert;
        read lineage(&id: SessionId) -> Lineage = lineage::load_lineage;
    }
    TurnStore {
        write start_turn(&lease: Lease, new: NewTurn) -> Turn = turns::start_turn;
        write add_message(&lease: Lease, &message: Message) -> Turn = turns::add_message;
        write append_entry(&lease: Lease, *turn: TurnId, entry: TurnEntry) -> () = turns::append_entry;
        write settle_turn(&lease: Lease, *turn: TurnId, ending: TurnEnding, effects: SettleEffects) -> () = turns::settle_turn;
        write withdraw_turn(&lease: Lease, *turn: TurnId, *at: Timestamp) -> () = turns::withdraw_turn;
    }
    AttemptStore {
        write begin_attempt(&lease: Lease, *turn: TurnId, *leg: LegId, *at: Timestamp) -> () = turns::begin_attempt;
        write fail_attempt(&lease: Lease, *turn: TurnId, &failure: Failure, *at: Timestamp) -> () = turns::fail_attempt;
        write set_attempt_mark(&lease: Lease, *turn: TurnId, &mark: str) -> () = reconcile::set_attempt_mark;
        read attempts(*turn: TurnId) -> Vec<Attempt> = turns::list_attempts;
    }
    HistoryStore {
        read turns(&id: SessionId) -> Vec<Turn> = turns::chain;
        read turns_up_to(*turn: TurnId) -> Vec<Turn> = turns::chain_up_to;
        read messages(*turn: TurnId) -> Vec<Message> = turns::list_messages;
        read recent_turns(*head: TurnId, *token_budget: u64) -> Vec<StoredTurn> = tokens::read_recent_turns;
        read turns_after(*head: TurnId, *n: u32) -> Vec<StoredTurn> = tokens::read_turns_after;
    }
    TokenStore {
        write fill_token_counts(counts: Vec<TokenCount>) -> () = tokens::fill_token_counts;
        read context_measurements(&provider: ProviderId, *limit: u32) -> Vec<ContextMeasurement> = tokens::list_context_measurements;
    }
    LegStore {
        write open_leg(&lease: Lease, leg: NewLeg) -> Leg = legs::open_leg;
        write set_leg_native_id(&lease: Lease, *leg: LegId, &native_id: NativeId) -> () = legs::set_leg_native_id;
        write set_context_loss(&lease: Lease, *leg: LegId, *state: ContextLossState) -> () = legs::set_context_loss;
        write end_leg(&lease: Lease, *leg: LegId, *reason: LegEnd, *at: Timestamp) -> () = legs::end_leg;
        write reopen_leg(&lease: Lease, *leg: LegId, *reason: LegEnd, *at: Timestamp) -> Leg = legs::reopen_leg;
        write change_provider(&lease: Lease, &provider: ProviderId, *at: Timestamp) -> Session = legs::change_provider;
        read leg(*id: LegId) -> Option<Leg> = legs::find_leg;
        read legs(&id: SessionId) -> Vec<Leg> = legs::list_legs;
    }
    ProviderHealthStore {
        write set_provider_health(&lease: Lease, &provider: ProviderId, health: ProviderHealth) -> () = provider_health::set_provider_health;
        write set_cooldown(cooldown: Cooldown) -> () = provider_health::set_cooldown;
        write clear_cooldown(&provider: ProviderId) -> () = provider_health::clear_cooldown;
        read cooldowns() -> Vec<Cooldown> = provider_health::list_cooldowns;
    }
    NativeStore {
        write adopt_native_session(new: NewSession, owner: ProcessIdentity, native: AdoptedSession) -> Lease = adopt::adopt_native_session;
        search attached_natives(&natives: [(ProviderId, NativeId)]) -> Vec<(ProviderId, NativeId)> = session_query::filter_attached_natives;
        write apply_native_update(&lease: Lease, update: NativeUpdate) -> Session = reconcile::apply_native_update;
        write fork_native_update(&lease: Lease, new: NewSession, owner: ProcessIdentity, update: NativeUpdate) -> Session = reconcile::fork_native_update;
    }
    ImportStore {
        write import_session(new: NewSession, owner: ProcessIdentity, imported: ImportedSession) -> Session = import::import_session;
        read session_origin(&id: SessionId) -> Option<SessionOrigin> = import::find_origin;
    }
    CheckpointStore {
        write add_checkpoint(&lease: Lease, new: NewCheckpoint) -> CheckpointVersion = checkpoints::add_checkpoint;
        write commit_compaction(&lease: Lease, new: NewCheckpoint, *compaction: CompactionCommit) -> CheckpointVersion = checkpoints::commit_compaction;
        read checkpoint_at(&id: SessionId, *turn: TurnId) -> Option<(CheckpointVersion, Checkpoint)> = checkpoints::find_checkpoint_at;
        read checkpoints(&id: SessionId) -> Vec<CheckpointVersion> = checkpoints::list_checkpoints;
        read checkpoint(&id: SessionId, *n: u32) -> Option<(CheckpointVersion, Checkpoint)> = checkpoints::find_checkpoint;
    }
    ContextStore {
        write save_context(&id: SessionId, context: CachedContext) -> () = context::save_context;
        read saved_context(&id: SessionId) -> Option<CachedContext> = context::find_context;
    }
    DecisionLog {
        write log_decision(&lease: Lease, &decision: Decision, *at: Timestamp) -> () = decisions::log_decision;
        read decisions(&id: SessionId, *limit: u32) -> Vec<(Timestamp, Decision)> = decisions::list_decisions;
    }
    LeaseStore {
        write_lease acquire_lease(request: LeaseRequest) -> LeaseGrant = lease::acquire_lease;
        write_lease record_heartbeat(&lease: Lease, agent: Option<ProcessIdentity>) -> () = lease::record_heartbeat;
        write_lease release_lease(&lease: Lease) -> () = lease::release_lease;
        read lease_holder(&id: SessionId) -> Option<LeaseHolder> = lease::report_holder;
        read store_time() -> Timestamp = lease::read_time;
    }
    ChangeFeed {
        read changes(*after: FeedCursor, *limit: u32) -> Vec<Change> = feed::list_changes;
        read feed_end() -> FeedCursor = feed::find_feed_end;
    }
}
