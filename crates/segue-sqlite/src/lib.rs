//! The embedded store: one SQLite file in WAL mode.
//!
//! All writes of a process run on one thread. It commits the queued writes in one transaction and answers the callers
//! once the commit is on the disk. Writes of leases do not wait for the disk, because a lease need not survive a power
//! failure. Reads use their own connections and never wait for the writer. If another process has locked the file,
//! segue waits for it. Only this crate uses `rusqlite`.

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
use segue_core::agent::ProcessMark;
use segue_core::brief::KeptContext;
use segue_core::checkpoint::{Checkpoint, Version};
use segue_core::id::{LegId, NativeId, ProviderId, SessionId, TurnId};
use segue_core::policy::{Rest, Standing};
use segue_core::session::{
    Attempt, Candidate, Decision, Failure, Leg, LegEnd, Lineage, Message, Session, Title, Turn,
};
use segue_store::{
    Adopted, Entry, Filter, Finish, ForkPoint, Found, Granted, Holder, Imported, Lease,
    LeaseRequest, Mark, Measured, Memory, NewLeg, NewSession, NewVersion, Origin, Page, Result,
    Retag, Said, Settled, Started, Store, TagCount, TakenIn, TokenCount,
};

use error::Fault;
use reader::Readers;
use writer::{Outlives, Writer};

pub use connection::FILE_NAME;

/// A store in one SQLite file.
pub struct SqliteStore {
    path: PathBuf,
    // Fields are dropped in this order, because the last connection that closes moves the WAL into the file, and only a
    // writer can do that.
    readers: Readers,
    writer: Writer,
}

/// Result of a check of the store's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
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
        let (path, reader) = connection::prepare(directory)?;
        Ok(Self {
            readers: Readers::new(path.clone(), reader),
            writer: Writer::new(path.clone()),
            path,
        })
    }

    /// Returns the path of the store's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks the complete file with `quick_check`, which reports at most 10 problems.
    pub async fn health(&self) -> Result<Health> {
        self.read("check", ops::health).await
    }

    async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> std::result::Result<T, Fault> + Send + 'static,
    {
        self.writer.run(Outlives::Power, work).await
    }

    /// Writes a lease: the commit survives the end of the process, but does not wait for the disk.
    async fn claim<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> std::result::Result<T, Fault> + Send + 'static,
    {
        self.writer.run(Outlives::Process, work).await
    }

    async fn read<T, F>(&self, doing: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> std::result::Result<T, Fault> + Send + 'static,
    {
        self.readers.run(doing, work).await
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn create(&self, new: NewSession) -> Result<Session> {
        self.write(move |db| ops::sessions::create(db, &new)).await
    }

    async fn start(
        &self,
        new: NewSession,
        owner: ProcessMark,
        prompt: &Message,
    ) -> Result<Started> {
        let prompt = prompt.clone();
        self.write(move |db| ops::sessions::start(db, &new, &owner, &prompt))
            .await
    }

    async fn adopt(&self, new: NewSession, owner: ProcessMark, native: Adopted) -> Result<Lease> {
        self.write(move |db| ops::adopt::adopt(db, &new, &owner, &native))
            .await
    }

    async fn import(
        &self,
        new: NewSession,
        owner: ProcessMark,
        imported: Imported,
    ) -> Result<Session> {
        self.write(move |db| ops::import::import(db, &new, &owner, &imported))
            .await
    }

    async fn origin(&self, id: &SessionId) -> Result<Option<Origin>> {
        let id = id.clone();
        self.read("read", move |db| ops::import::origin(db, &id))
            .await
    }

    async fn fork(&self, new: NewSession, from: ForkPoint) -> Result<Session> {
        self.write(move |db| ops::sessions::fork(db, &new, &from))
            .await
    }

    async fn rename(&self, id: &SessionId, title: &Title) -> Result<()> {
        let (id, title) = (id.clone(), title.clone());
        self.write(move |db| ops::sessions::rename(db, &id, &title))
            .await
    }

    async fn suggest_title(&self, id: &SessionId, title: &Title) -> Result<()> {
        let (id, title) = (id.clone(), title.clone());
        self.write(move |db| ops::sessions::suggest_title(db, &id, &title))
            .await
    }

    async fn retag(&self, id: &SessionId, retag: Retag) -> Result<Session> {
        let id = id.clone();
        self.write(move |db| ops::tags::change(db, &id, &retag))
            .await
    }

    async fn tags(&self) -> Result<Vec<TagCount>> {
        self.read("read", ops::tags::all).await
    }

    async fn delete(&self, lease: &Lease) -> Result<()> {
        let lease = lease.clone();
        self.write(move |db| ops::sessions::delete(db, &lease))
            .await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<Session>> {
        let id = id.clone();
        self.read("read", move |db| ops::sessions::get(db, &id))
            .await
    }

    async fn find(&self, filter: &Filter, page: Page) -> Result<Found> {
        let filter = filter.clone();
        self.read("search", move |db| {
            ops::session_query::find(db, &filter, &page)
        })
        .await
    }

    async fn candidates(&self, text: &str) -> Result<Vec<Candidate>> {
        let text = text.to_owned();
        self.read("search", move |db| {
            ops::session_query::candidates(db, &text)
        })
        .await
    }

    async fn marks(&self) -> Result<Vec<Mark>> {
        self.read("look through", ops::session_query::marks).await
    }

    async fn carried(
        &self,
        natives: &[(ProviderId, NativeId)],
    ) -> Result<Vec<(ProviderId, NativeId)>> {
        let natives = natives.to_vec();
        self.read("search", move |db| ops::session_query::carried(db, natives))
            .await
    }

    async fn begin_turn(&self, lease: &Lease, prompt: &Message) -> Result<Turn> {
        let (lease, prompt) = (lease.clone(), prompt.clone());
        self.write(move |db| ops::turns::begin(db, &lease, &prompt))
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

    async fn append(&self, lease: &Lease, turn: TurnId, entry: Entry) -> Result<()> {
        let lease = lease.clone();
        self.write(move |db| ops::turns::append(db, &lease, turn, &entry))
            .await
    }

    async fn settle_turn(
        &self,
        lease: &Lease,
        turn: TurnId,
        finish: Finish,
        settled: Settled,
    ) -> Result<()> {
        let lease = lease.clone();
        self.write(move |db| ops::turns::settle(db, &lease, turn, &finish, &settled))
            .await
    }

    async fn withdraw_turn(&self, lease: &Lease, turn: TurnId, at: Timestamp) -> Result<()> {
        let lease = lease.clone();
        self.write(move |db| ops::turns::withdraw(db, &lease, turn, at))
            .await
    }

    async fn mark_end(&self, lease: &Lease, turn: TurnId, mark: &str) -> Result<()> {
        let (lease, mark) = (lease.clone(), mark.to_owned());
        self.write(move |db| ops::reconcile::mark_end(db, &lease, turn, &mark))
            .await
    }

    async fn take_in(&self, lease: &Lease, taken: TakenIn) -> Result<Session> {
        let lease = lease.clone();
        self.write(move |db| ops::reconcile::take_in(db, &lease, &taken))
            .await
    }

    async fn take_aside(
        &self,
        lease: &Lease,
        new: NewSession,
        owner: ProcessMark,
        taken: TakenIn,
    ) -> Result<Session> {
        let lease = lease.clone();
        self.write(move |db| ops::reconcile::take_aside(db, &lease, &new, &owner, &taken))
            .await
    }

    async fn turns(&self, id: &SessionId) -> Result<Vec<Turn>> {
        let id = id.clone();
        self.read("read", move |db| ops::turns::chain(db, &id))
            .await
    }

    async fn turns_to(&self, turn: TurnId) -> Result<Vec<Turn>> {
        self.read("read", move |db| ops::turns::chain_to(db, turn))
            .await
    }

    async fn messages(&self, turn: TurnId) -> Result<Vec<Message>> {
        self.read("read", move |db| ops::turns::messages(db, turn))
            .await
    }

    async fn attempts(&self, turn: TurnId) -> Result<Vec<Attempt>> {
        self.read("read", move |db| ops::turns::attempts(db, turn))
            .await
    }

    async fn recent(&self, head: TurnId, tokens: u64) -> Result<Vec<Said>> {
        self.read("read", move |db| ops::tokens::recent(db, head, tokens))
            .await
    }

    async fn said_since(&self, head: TurnId, n: u32) -> Result<Vec<Said>> {
        self.read("read", move |db| ops::tokens::since(db, head, n))
            .await
    }

    async fn fill_tokens(&self, counts: Vec<TokenCount>) -> Result<()> {
        self.write(move |db| ops::tokens::fill(db, &counts)).await
    }

    async fn note_estimate(&self, lease: &Lease, turn: TurnId, added: Option<u64>) -> Result<()> {
        let lease = lease.clone();
        self.write(move |db| ops::tokens::note_estimate(db, &lease, turn, added))
            .await
    }

    async fn measured(&self, provider: &ProviderId, limit: u32) -> Result<Vec<Measured>> {
        let provider = provider.clone();
        self.read("read", move |db| {
            ops::tokens::measured(db, &provider, limit)
        })
        .await
    }

    async fn add_checkpoint(
        &self,
        lease: &Lease,
        new: NewVersion,
        ends: Option<(LegId, LegEnd)>,
    ) -> Result<Version> {
        let lease = lease.clone();
        self.write(move |db| ops::checkpoints::add(db, &lease, &new, ends))
            .await
    }

    async fn checkpoint_at(
        &self,
        id: &SessionId,
        turn: TurnId,
    ) -> Result<Option<(Version, Checkpoint)>> {
        let id = id.clone();
        self.read("read", move |db| ops::checkpoints::in_force(db, &id, turn))
            .await
    }

    async fn checkpoints(&self, id: &SessionId) -> Result<Vec<Version>> {
        let id = id.clone();
        self.read("read", move |db| ops::checkpoints::all(db, &id))
            .await
    }

    async fn checkpoint(&self, id: &SessionId, n: u32) -> Result<Option<(Version, Checkpoint)>> {
        let id = id.clone();
        self.read("read", move |db| ops::checkpoints::one(db, &id, n))
            .await
    }

    async fn keep_context(&self, id: &SessionId, kept: KeptContext) -> Result<()> {
        let id = id.clone();
        self.write(move |db| ops::context::keep(db, &id, &kept))
            .await
    }

    async fn context(&self, id: &SessionId) -> Result<Option<KeptContext>> {
        let id = id.clone();
        self.read("read", move |db| ops::context::kept(db, &id))
            .await
    }

    async fn open_leg(&self, lease: &Lease, leg: NewLeg) -> Result<Leg> {
        let lease = lease.clone();
        self.write(move |db| ops::legs::open(db, &lease, &leg))
            .await
    }

    async fn name_leg(&self, lease: &Lease, leg: LegId, native_id: &NativeId) -> Result<()> {
        let (lease, native_id) = (lease.clone(), native_id.clone());
        self.write(move |db| ops::legs::name_it(db, &lease, leg, &native_id))
            .await
    }

    async fn note_memory(&self, lease: &Lease, leg: LegId, memory: Memory) -> Result<()> {
        let lease = lease.clone();
        self.write(move |db| ops::legs::note_memory(db, &lease, leg, memory))
            .await
    }

    async fn end_leg(&self, lease: &Lease, leg: LegId, why: LegEnd, at: Timestamp) -> Result<()> {
        let lease = lease.clone();
        self.write(move |db| ops::legs::end(db, &lease, leg, why, at))
            .await
    }

    async fn take_up_leg(
        &self,
        lease: &Lease,
        leg: LegId,
        why: LegEnd,
        at: Timestamp,
    ) -> Result<Leg> {
        let lease = lease.clone();
        self.write(move |db| ops::legs::take_up(db, &lease, leg, why, at))
            .await
    }

    async fn leg(&self, id: LegId) -> Result<Option<Leg>> {
        self.read("read", move |db| ops::legs::find(db, id)).await
    }

    async fn legs(&self, id: &SessionId) -> Result<Vec<Leg>> {
        let id = id.clone();
        self.read("read", move |db| ops::legs::all(db, &id)).await
    }

    async fn hand_over(&self, lease: &Lease, to: &ProviderId, at: Timestamp) -> Result<Session> {
        let (lease, to) = (lease.clone(), to.clone());
        self.write(move |db| ops::legs::hand_over(db, &lease, &to, at))
            .await
    }

    async fn standing(&self, id: &SessionId, provider: &ProviderId) -> Result<Standing> {
        let (id, provider) = (id.clone(), provider.clone());
        self.read("read", move |db| {
            ops::provider_health::standing(db, &id, &provider)
        })
        .await
    }

    async fn set_standing(
        &self,
        lease: &Lease,
        provider: &ProviderId,
        standing: Standing,
    ) -> Result<()> {
        let (lease, provider) = (lease.clone(), provider.clone());
        self.write(move |db| ops::provider_health::set_standing(db, &lease, &provider, &standing))
            .await
    }

    async fn rest(&self, rest: Rest) -> Result<()> {
        self.write(move |db| ops::provider_health::rest(db, &rest))
            .await
    }

    async fn wake(&self, provider: &ProviderId) -> Result<()> {
        let provider = provider.clone();
        self.write(move |db| ops::provider_health::wake(db, &provider))
            .await
    }

    async fn rests(&self) -> Result<Vec<Rest>> {
        self.read("read", ops::provider_health::rests).await
    }

    async fn revert(&self, lease: &Lease, to: TurnId, at: Timestamp) -> Result<Session> {
        let lease = lease.clone();
        self.write(move |db| ops::revert::revert(db, &lease, to, at))
            .await
    }

    async fn undo(&self, lease: &Lease, at: Timestamp) -> Result<Session> {
        let lease = lease.clone();
        self.write(move |db| ops::revert::undo(db, &lease, at))
            .await
    }

    async fn lineage(&self, id: &SessionId) -> Result<Lineage> {
        let id = id.clone();
        self.read("read", move |db| ops::lineage::of(db, &id)).await
    }

    async fn acquire(&self, request: LeaseRequest) -> Result<Granted> {
        self.claim(move |db| ops::lease::acquire(db, &request))
            .await
    }

    async fn heartbeat(
        &self,
        lease: &Lease,
        agent: Option<ProcessMark>,
        at: Timestamp,
    ) -> Result<()> {
        let lease = lease.clone();
        self.claim(move |db| ops::lease::heartbeat(db, &lease, agent.as_ref(), at))
            .await
    }

    async fn release(&self, lease: &Lease) -> Result<()> {
        let lease = lease.clone();
        self.claim(move |db| ops::lease::release(db, &lease)).await
    }

    async fn holder(&self, id: &SessionId) -> Result<Option<Holder>> {
        let id = id.clone();
        self.read("read", move |db| ops::lease::holder(db, &id))
            .await
    }

    async fn note(&self, lease: &Lease, decision: &Decision, at: Timestamp) -> Result<()> {
        let (lease, decision) = (lease.clone(), decision.clone());
        self.write(move |db| ops::decisions::note(db, &lease, &decision, at))
            .await
    }

    async fn decisions(&self, id: &SessionId, limit: u32) -> Result<Vec<(Timestamp, Decision)>> {
        let id = id.clone();
        self.read("read", move |db| ops::decisions::newest(db, &id, limit))
            .await
    }
}
