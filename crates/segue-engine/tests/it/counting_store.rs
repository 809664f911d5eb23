//! A store that counts the calls of each method and passes them on to another store.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};

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
    StartedSession, Store, StoredTurn, TagChange, TagCount, TokenCount, TokenStore, TurnEnding,
    TurnEntry, TurnStore,
};

/// Effect of a store method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CallKind {
    Read,
    /// A write that returns once it is on the disk.
    Synced,
    /// A write of a lease, which does not wait for the disk.
    Lease,
}

/// Counts of the calls to a store.
#[derive(Debug, Default)]
pub(crate) struct CallCounts {
    methods: BTreeMap<(CallKind, &'static str), usize>,
    /// Number of synced commits if every write that starts while another one is in flight shares its commit.
    synced_commits: usize,
    synced_in_flight: usize,
}

impl fmt::Display for CallCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = [
            (CallKind::Read, "reads"),
            (CallKind::Synced, "synced writes"),
            (CallKind::Lease, "lease writes"),
        ];
        for (wanted, name) in groups {
            let methods = self.methods.iter().filter(|((kind, _), _)| *kind == wanted);
            let mut lines = String::new();
            let mut total = 0;
            for ((_, method), count) in methods {
                total += count;
                write!(lines, "\n    {method} {count}")?;
            }
            write!(f, "{name} {total}")?;
            if wanted == CallKind::Synced {
                write!(f, " in {} commits", self.synced_commits)?;
            }
            writeln!(f, "{lines}")?;
        }
        Ok(())
    }
}

/// A store that counts calls.
pub(crate) struct CountingStore {
    inner: Arc<dyn Store>,
    counts: Arc<Mutex<CallCounts>>,
}

impl CountingStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            counts: Arc::default(),
        }
    }

    /// Returns the counts since the last call, and starts again at zero.
    pub(crate) fn take_counts(&self) -> CallCounts {
        std::mem::take(&mut *self.counts.lock().unwrap())
    }

    /// Counts a call, which ends when the returned guard is dropped.
    fn count_call(&self, kind: CallKind, method: &'static str) -> CallGuard {
        let mut counts = self.counts.lock().unwrap();
        *counts.methods.entry((kind, method)).or_default() += 1;
        if kind == CallKind::Synced {
            counts.synced_commits += usize::from(counts.synced_in_flight == 0);
            counts.synced_in_flight += 1;
        }
        CallGuard(kind, Arc::clone(&self.counts))
    }
}

struct CallGuard(CallKind, Arc<Mutex<CallCounts>>);

impl Drop for CallGuard {
    fn drop(&mut self) {
        if self.0 == CallKind::Synced {
            let mut counts = self.1.lock().unwrap();
            counts.synced_in_flight = counts.synced_in_flight.saturating_sub(1);
        }
    }
}

/// Implements the traits of a store with one line per method: its effect and its signature.
macro_rules! count_calls {
    ($($store:ident {
        $($kind:ident $method:ident($($arg:ident: $type:ty),*) -> $result:ty;)*
    })*) => {
        $(#[async_trait]
        impl $store for CountingStore {
            $(async fn $method(&self, $($arg: $type),*) -> Result<$result> {
                let _guard = self.count_call(CallKind::$kind, stringify!($method));
                self.inner.$method($($arg),*).await
            })*
        })*
    };
}

count_calls! {
    SessionStore {
        Synced create_session(new: NewSession) -> Session;
        Synced start_session(new: NewSession, owner: ProcessIdentity, prompt: &Message) -> StartedSession;
        Synced delete_session(lease: &Lease) -> ();
        Read session(id: &SessionId) -> Option<Session>;
        Read session_snapshot(id: &SessionId) -> Option<SessionSnapshot>;
    }
    SessionQueries {
        Read list_sessions(filter: &SessionFilter, page: PageRequest) -> SessionPage;
        Read session_stamps() -> Vec<SessionStamp>;
        Read ref_candidates(text: &str) -> Vec<RefCandidate>;
    }
    LabelStore {
        Synced rename_session(id: &SessionId, title: &Title) -> ();
        Synced suggest_title(id: &SessionId, title: &Title) -> ();
        Synced change_tags(id: &SessionId, change: TagChange) -> Session;
        Read tag_counts() -> Vec<TagCount>;
    }
    HeadStore {
        Synced fork_session(new: NewSession, fork_point: ForkPoint) -> Session;
        Synced revert_head(lease: &Lease, to: TurnId, at: Timestamp) -> Session;
        Synced undo_revert(lease: &Lease, at: Timestamp) -> Session;
        Read lineage(id: &SessionId) -> Lineage;
    }
    TurnStore {
        Synced start_turn(lease: &Lease, new: NewTurn) -> Turn;
        Synced add_message(lease: &Lease, message: &Message) -> Turn;
        Synced append_entry(lease: &Lease, turn: TurnId, entry: TurnEntry) -> ();
        Synced settle_turn(lease: &Lease, turn: TurnId, ending: TurnEnding, effects: SettleEffects) -> ();
        Synced withdraw_turn(lease: &Lease, turn: TurnId, at: Timestamp) -> ();
    }
    AttemptStore {
        Synced begin_attempt(lease: &Lease, turn: TurnId, leg: LegId, at: Timestamp) -> ();
        Synced fail_attempt(lease: &Lease, turn: TurnId, failure: &Failure, at: Timestamp) -> ();
        Synced set_attempt_mark(lease: &Lease, turn: TurnId, mark: &str) -> ();
        Read attempts(turn: TurnId) -> Vec<Attempt>;
    }
    HistoryStore {
        Read turns(id: &SessionId) -> Vec<Turn>;
        Read turns_up_to(turn: TurnId) -> Vec<Turn>;
        Read messages(turn: TurnId) -> Vec<Message>;
        Read recent_turns(head: TurnId, token_budget: u64) -> Vec<StoredTurn>;
        Read turns_after(head: TurnId, n: u32) -> Vec<StoredTurn>;
    }
    TokenStore {
        Synced fill_token_counts(counts: Vec<TokenCount>) -> ();
        Read context_measurements(provider: &ProviderId, limit: u32) -> Vec<ContextMeasurement>;
    }
    LegStore {
        Synced open_leg(lease: &Lease, leg: NewLeg) -> Leg;
        Synced set_leg_native_id(lease: &Lease, leg: LegId, native_id: &NativeId) -> ();
        Synced set_context_loss(lease: &Lease, leg: LegId, state: ContextLossState) -> ();
        Synced end_leg(lease: &Lease, leg: LegId, reason: LegEnd, at: Timestamp) -> ();
        Synced reopen_leg(lease: &Lease, leg: LegId, reason: LegEnd, at: Timestamp) -> Leg;
        Synced change_provider(lease: &Lease, provider: &ProviderId, at: Timestamp) -> Session;
        Read leg(id: LegId) -> Option<Leg>;
        Read legs(id: &SessionId) -> Vec<Leg>;
    }
    ProviderHealthStore {
        Synced set_provider_health(lease: &Lease, provider: &ProviderId, health: ProviderHealth) -> ();
        Synced set_cooldown(cooldown: Cooldown) -> ();
        Synced clear_cooldown(provider: &ProviderId) -> ();
        Read cooldowns() -> Vec<Cooldown>;
    }
    NativeStore {
        Synced adopt_native_session(new: NewSession, owner: ProcessIdentity, native: AdoptedSession) -> Lease;
        Read attached_natives(natives: &[(ProviderId, NativeId)]) -> Vec<(ProviderId, NativeId)>;
        Synced apply_native_update(lease: &Lease, update: NativeUpdate) -> Session;
        Synced fork_native_update(lease: &Lease, new: NewSession, owner: ProcessIdentity, update: NativeUpdate) -> Session;
    }
    ImportStore {
        Synced import_session(new: NewSession, owner: ProcessIdentity, imported: ImportedSession) -> Session;
        Read session_origin(id: &SessionId) -> Option<SessionOrigin>;
    }
    CheckpointStore {
        Synced add_checkpoint(lease: &Lease, new: NewCheckpoint) -> CheckpointVersion;
        Synced commit_compaction(lease: &Lease, new: NewCheckpoint, compaction: CompactionCommit) -> CheckpointVersion;
        Read checkpoint_at(id: &SessionId, turn: TurnId) -> Option<(CheckpointVersion, Checkpoint)>;
        Read checkpoints(id: &SessionId) -> Vec<CheckpointVersion>;
        Read checkpoint(id: &SessionId, n: u32) -> Option<(CheckpointVersion, Checkpoint)>;
    }
    ContextStore {
        Synced save_context(id: &SessionId, context: CachedContext) -> ();
        Read saved_context(id: &SessionId) -> Option<CachedContext>;
    }
    DecisionLog {
        Synced log_decision(lease: &Lease, decision: &Decision, at: Timestamp) -> ();
        Read decisions(id: &SessionId, limit: u32) -> Vec<(Timestamp, Decision)>;
    }
    LeaseStore {
        Lease acquire_lease(request: LeaseRequest) -> LeaseGrant;
        Lease record_heartbeat(lease: &Lease, agent: Option<ProcessIdentity>) -> ();
        Lease release_lease(lease: &Lease) -> ();
        Read lease_holder(id: &SessionId) -> Option<LeaseHolder>;
        Read store_time() -> Timestamp;
    }
    ChangeFeed {
        Read changes(after: FeedCursor, limit: u32) -> Vec<Change>;
        Read feed_end() -> FeedCursor;
    }
}
