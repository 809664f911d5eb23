//! Usage and cost, from the agents' records and, for turns without a readable one, from segue's record.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use segue_catalog::{Catalog, NativeRequest, ReadStart, RequestCollector, RequestDeduplicator};
use segue_core::id::{LegId, NativeId, ProviderId, TurnId};
use segue_core::session::{Leg, Session, Turn, TurnState, Usage};
use segue_core::spend::{Cost, SpendRecord};
use segue_store::SessionFilter;

use crate::library::Library;
use crate::native::storage_provider;
use crate::{LibraryError, NativeEntry};

/// Filters of a spending report.
#[derive(Debug, Clone)]
pub struct SpendingRequest {
    /// Start of the reported time. `None` for no limit.
    pub since: Option<Timestamp>,
    /// Agent to report. `None` for all.
    pub provider: Option<ProviderId>,
    /// Key of the project to report. `None` for all.
    pub project: Option<String>,
    /// Time zone that determines the days.
    pub zone: TimeZone,
}

/// Usage and cost, with the records that could not be read.
#[derive(Debug, Default)]
pub struct SpendingReport {
    /// Usage and cost by day, agent, model and project.
    pub records: Vec<SpendRecord>,
    /// Agents with records that could not be read, and the reasons.
    pub unreadable: Vec<(ProviderId, String)>,
}

impl Library {
    /// Computes usage and cost. A turn counts by the agent's record if segue can read it, else by segue's record.
    pub async fn compute_spending(
        &self,
        request: &SpendingRequest,
    ) -> Result<SpendingReport, LibraryError> {
        let filter = SessionFilter {
            project: request.project.clone(),
            provider: request.provider.clone(),
            since: request.since,
            ..SessionFilter::default()
        };
        let (mut natives, mut unreadable) = self.list_natives(&filter).await;
        // A fork repeats requests of its origin. They count for the origin, which is older.
        natives.sort_by_key(|native| native.session.head.created_at);
        let wanted = request.clone();
        let read = move |catalog: &Catalog| {
            let mut ledger = Ledger {
                request: wanted,
                totals: BTreeMap::new(),
                deduplicators: HashMap::new(),
                read_natives: HashSet::new(),
            };
            let mut unread = Vec::new();
            for native in &natives {
                if let Err(reason) = ledger.add_native(catalog, native) {
                    unread.push((native.session.provider.clone(), reason));
                }
            }
            (ledger, unread)
        };
        let (mut ledger, unread) = self.context.natives.with_catalog(read).await;
        unreadable.extend(unread);
        // A session can change its provider, so the current provider does not apply to all its turns.
        let own_filter = SessionFilter {
            provider: None,
            ..filter
        };
        self.add_own_spending(&own_filter, &mut ledger).await?;
        Ok(SpendingReport {
            records: ledger.into_records(),
            unreadable,
        })
    }

    /// Adds the turns for which there is no readable record of an agent.
    async fn add_own_spending(
        &self,
        filter: &SessionFilter,
        ledger: &mut Ledger,
    ) -> Result<(), LibraryError> {
        let mut legs: HashMap<LegId, Leg> = HashMap::new();
        let mut turns: BTreeMap<TurnId, (Session, Turn)> = BTreeMap::new();
        for session in self.all_sessions(filter).await? {
            let session_legs = self.context.store.legs(&session.id).await?;
            legs.extend(session_legs.into_iter().map(|leg| (leg.id, leg)));
            for turn in self.context.store.turns(&session.id).await? {
                if turn.sent && !ledger.is_before(turn.started_at) {
                    // A fork shares its turns with its origin.
                    turns.insert(turn.id, (session.clone(), turn));
                }
            }
        }
        for (session, turn) in turns.values() {
            let attempts = self.context.store.attempts(turn.id).await?;
            let leg = attempts.last().and_then(|last| legs.get(&last.leg));
            let provider = leg.map_or(&session.provider, |leg| &leg.provider);
            let can_read = self.context.natives.can_read_sessions(provider);
            // A turn without a leg was made in the agent's own program, or in a session that was deleted.
            let was_read = leg.map_or(can_read, |leg| ledger.has_read(leg));
            if !was_read {
                let provider = if can_read {
                    storage_provider(provider)
                } else {
                    provider.clone()
                };
                ledger.add_own_turn(session, provider, turn);
            }
        }
        Ok(())
    }
}

/// Key under which usage and cost are added up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct LedgerKey {
    day: Date,
    provider: ProviderId,
    model: Option<String>,
    project: Option<String>,
    /// Whether usage is known. Known and unknown amounts have separate entries, so that no total appears complete if it
    /// is not.
    has_usage: bool,
    has_cost: bool,
}

/// Totals of a [`LedgerKey`].
#[derive(Debug, Default)]
struct LedgerTotals {
    turns: u64,
    usage: Usage,
    cost: Cost,
}

/// Accumulator of usage and cost.
struct Ledger {
    request: SpendingRequest,
    totals: BTreeMap<LedgerKey, LedgerTotals>,
    deduplicators: HashMap<ProviderId, RequestDeduplicator>,
    /// Native sessions that were read.
    read_natives: HashSet<(ProviderId, NativeId)>,
}

impl Ledger {
    fn is_before(&self, at: Timestamp) -> bool {
        self.request.since.is_some_and(|since| at < since)
    }

    /// Adds all requests of a native session. Fails with the reason if it cannot be read to the end.
    fn add_native(&mut self, catalog: &Catalog, native: &NativeEntry) -> Result<(), String> {
        let session = &native.session;
        let mut records = catalog
            .open_records(session, &ReadStart::Beginning)
            .map_err(|error| error.format_error_chain())?;
        // The requests before a read error count as well.
        let mut counter = RequestCollector::default();
        let read = loop {
            match records.next() {
                Ok(Some(record)) => counter.add_record(record),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error.format_error_chain()),
            }
        };
        self.read_natives.insert(native.key());
        let deduplicator = self
            .deduplicators
            .entry(session.provider.clone())
            .or_default();
        for request in deduplicator.remove_copies(counter.into_requests()) {
            self.add_request(native, request);
        }
        read
    }

    fn add_request(&mut self, native: &NativeEntry, request: NativeRequest) {
        let at = request.at.unwrap_or(native.session.head.updated_at);
        if self.is_before(at) {
            return;
        }
        let key = LedgerKey {
            day: self.day(at),
            provider: native.session.provider.clone(),
            model: request.model,
            project: native.project.clone(),
            has_usage: true,
            has_cost: request.cost.is_some(),
        };
        self.add(
            key,
            u64::from(request.is_first_in_turn),
            request.usage,
            request.cost,
        );
    }

    /// Returns `true` if the native session of a leg was read.
    fn has_read(&self, leg: &Leg) -> bool {
        let key = |id: &NativeId| (storage_provider(&leg.provider), id.clone());
        let native_id = leg.native_id.as_ref();
        native_id.is_some_and(|id| self.read_natives.contains(&key(id)))
    }

    /// Adds a turn of segue's record.
    fn add_own_turn(&mut self, session: &Session, provider: ProviderId, turn: &Turn) {
        let wanted = self.request.provider.as_ref();
        let is_other_provider =
            wanted.is_some_and(|wanted| storage_provider(wanted) != storage_provider(&provider));
        // A turn that did not finish and reports no usage may have used no tokens.
        let has_no_usage = turn.usage == Usage::default() && turn.state != TurnState::Finished;
        if is_other_provider || has_no_usage {
            return;
        }
        let key = LedgerKey {
            day: self.day(turn.started_at),
            provider,
            model: None,
            project: Some(session.project.key.clone()),
            has_usage: turn.usage != Usage::default(),
            has_cost: false,
        };
        self.add(key, 1, turn.usage, None);
    }

    fn day(&self, at: Timestamp) -> Date {
        at.to_zoned(self.request.zone.clone()).date()
    }

    fn add(&mut self, key: LedgerKey, turns: u64, usage: Usage, cost: Option<Cost>) {
        let totals = self.totals.entry(key).or_default();
        totals.turns += turns;
        totals.usage = totals.usage.saturating_add(usage);
        totals.cost = totals.cost + cost.unwrap_or_default();
    }

    fn into_records(self) -> Vec<SpendRecord> {
        let totals = self.totals.into_iter();
        let records = totals.map(|(key, totals)| SpendRecord {
            day: key.day,
            provider: key.provider,
            model: key.model,
            project: key.project,
            turns: totals.turns,
            usage: totals.usage,
            cost: key.has_cost.then_some(totals.cost),
        });
        records.collect()
    }
}
