//! Usage and cost, from the agents' records and, for turns without a readable one, from segue's record.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use segue_catalog::{Catalog, Originals, ReadError, Request, Start, Tally};
use segue_core::id::{LegId, NativeId, ProviderId, TurnId};
use segue_core::session::{Leg, Session, Turn, TurnState, Usage};
use segue_core::spend::Cost;
use segue_core::spend::Spent;
use segue_store::{Filter, Page};

use crate::native::keeper;
use crate::{Engine, EngineError, Native};

/// Number of sessions in one query to the store.
const PAGE: u32 = 200;

/// Filters of a spending report.
#[derive(Debug, Clone)]
pub struct SpendingRequest {
    /// Earliest time that counts. `None` for no limit.
    pub since: Option<Timestamp>,
    /// Agent that counts. `None` for all.
    pub provider: Option<ProviderId>,
    /// Key of the project that counts. `None` for all.
    pub project: Option<String>,
    /// Time zone that determines the days.
    pub zone: TimeZone,
}

/// Usage and cost, with the records that could not be read.
#[derive(Debug, Default)]
pub struct Spendings {
    /// Usage and cost by day, agent, model and project.
    pub spent: Vec<Spent>,
    /// Agents with records that could not be read, and the reasons.
    pub unreadable: Vec<(ProviderId, String)>,
}

impl Engine {
    /// Computes usage and cost. A turn counts by the agent's record if segue can read it, else by segue's record.
    pub async fn spending(&self, request: &SpendingRequest) -> Result<Spendings, EngineError> {
        let filter = Filter {
            project: request.project.clone(),
            provider: request.provider.clone(),
            since: request.since,
            ..Filter::default()
        };
        let (mut natives, mut unreadable) = self.all_natives(&filter).await;
        // A fork repeats requests of its origin. They count for the origin, which is older.
        natives.sort_by_key(|native| native.session.head.created_at);
        let wanted = request.clone();
        let read = move |catalog: &Catalog| {
            let mut ledger = Ledger::new(wanted);
            let mut missed = Vec::new();
            for native in &natives {
                if let Err(why) = ledger.native(catalog, native) {
                    missed.push((native.session.provider.clone(), why));
                }
            }
            (ledger, missed)
        };
        let (mut ledger, missed) = self.with_catalog(read).await;
        unreadable.extend(missed);
        self.own_spending(request, &mut ledger).await?;
        Ok(Spendings {
            spent: ledger.into_spent(),
            unreadable,
        })
    }

    /// Adds the turns for which there is no readable record of an agent.
    async fn own_spending(
        &self,
        request: &SpendingRequest,
        ledger: &mut Ledger,
    ) -> Result<(), EngineError> {
        // A session can change its provider, so the current provider does not apply to all its turns.
        let filter = Filter {
            project: request.project.clone(),
            since: request.since,
            ..Filter::default()
        };
        let mut legs: HashMap<LegId, Leg> = HashMap::new();
        let mut turns: BTreeMap<TurnId, (Session, Turn)> = BTreeMap::new();
        let mut page = Page::first(PAGE);
        loop {
            let found = self.store.find(&filter, page).await?;
            for session in found.sessions {
                let of_it = self.store.legs(&session.id).await?;
                legs.extend(of_it.into_iter().map(|leg| (leg.id, leg)));
                for turn in self.store.turns(&session.id).await? {
                    if turn.sent && !ledger.is_before(turn.started_at) {
                        // A fork shares its turns with its origin.
                        turns.insert(turn.id, (session.clone(), turn));
                    }
                }
            }
            let Some(after) = found.next else { break };
            page = Page {
                after: Some(after),
                limit: PAGE,
            };
        }
        for (session, turn) in turns.values() {
            let attempts = self.store.attempts(turn.id).await?;
            let leg = attempts.last().and_then(|last| legs.get(&last.leg));
            let provider = leg.map_or(&session.provider, |leg| &leg.provider);
            let reads = self.reads(provider);
            // A turn without a leg was made in the agent's own program, or in a session that was deleted.
            let read = leg.map_or(reads, |leg| ledger.has_read(leg));
            if !read {
                let keeper = keeper(provider);
                ledger.own(session, if reads { &keeper } else { provider }, turn);
            }
        }
        Ok(())
    }
}

/// Key under which usage and cost are added up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Account {
    day: Date,
    provider: ProviderId,
    model: Option<String>,
    project: Option<String>,
    /// Whether usage is known. Known and unknown amounts have separate entries, so that no total appears complete if it
    /// is not.
    used: bool,
    paid: bool,
}

/// Totals of an account.
#[derive(Debug, Default)]
struct Entry {
    turns: u64,
    usage: Usage,
    cost: Cost,
}

/// Accumulator of usage and cost.
struct Ledger {
    request: SpendingRequest,
    accounts: BTreeMap<Account, Entry>,
    originals: HashMap<ProviderId, Originals>,
    /// Native sessions that were read.
    read: HashSet<(ProviderId, NativeId)>,
}

impl Ledger {
    fn new(request: SpendingRequest) -> Self {
        Self {
            request,
            accounts: BTreeMap::new(),
            originals: HashMap::new(),
            read: HashSet::new(),
        }
    }

    fn is_before(&self, at: Timestamp) -> bool {
        self.request.since.is_some_and(|since| at < since)
    }

    /// Adds all requests of a native session. Fails with the reason if it cannot be read to the end.
    fn native(&mut self, catalog: &Catalog, native: &Native) -> Result<(), String> {
        let session = &native.session;
        let mut records = catalog
            .records(session, &Start::Beginning)
            .map_err(|error| cause(&error))?;
        // The requests before a read error count as well.
        let mut tally = Tally::default();
        let broken = loop {
            match records.next() {
                Ok(Some(record)) => tally.add(record),
                Ok(None) => break None,
                Err(error) => break Some(cause(&error)),
            }
        };
        self.read
            .insert((session.provider.clone(), session.head.id.clone()));
        let originals = self.originals.entry(session.provider.clone()).or_default();
        for request in originals.among(tally.into_requests()) {
            self.requested(native, request);
        }
        broken.map_or(Ok(()), Err)
    }

    fn requested(&mut self, native: &Native, request: Request) {
        let at = request.at.unwrap_or(native.session.head.updated_at);
        if self.is_before(at) {
            return;
        }
        let account = Account {
            day: self.day(at),
            provider: native.session.provider.clone(),
            model: request.model,
            project: native.project.clone(),
            used: true,
            paid: request.cost.is_some(),
        };
        self.enter(
            account,
            u64::from(request.begins),
            request.usage,
            request.cost,
        );
    }

    /// Returns `true` if the native session of a leg was read.
    fn has_read(&self, leg: &Leg) -> bool {
        let id = leg.native_id.clone();
        id.is_some_and(|id| self.read.contains(&(keeper(&leg.provider), id)))
    }

    /// Adds a turn of segue's record.
    fn own(&mut self, session: &Session, provider: &ProviderId, turn: &Turn) {
        let wanted = self.request.provider.as_ref();
        let other = wanted.is_some_and(|wanted| keeper(wanted) != keeper(provider));
        // A turn that did not finish and reports no usage may have used no tokens.
        let silent = turn.usage == Usage::default() && turn.state != TurnState::Finished;
        if other || silent {
            return;
        }
        let account = Account {
            day: self.day(turn.started_at),
            provider: provider.clone(),
            model: None,
            project: Some(session.project.key.clone()),
            used: turn.usage != Usage::default(),
            paid: false,
        };
        self.enter(account, 1, turn.usage, None);
    }

    fn day(&self, at: Timestamp) -> Date {
        at.to_zoned(self.request.zone.clone()).date()
    }

    fn enter(&mut self, account: Account, turns: u64, usage: Usage, cost: Option<Cost>) {
        let entry = self.accounts.entry(account).or_default();
        entry.turns += turns;
        entry.usage = entry.usage.plus(usage);
        entry.cost = entry.cost + cost.unwrap_or_default();
    }

    fn into_spent(self) -> Vec<Spent> {
        let spent = |(account, entry): (Account, Entry)| Spent {
            day: account.day,
            provider: account.provider,
            model: account.model,
            project: account.project,
            turns: entry.turns,
            usage: entry.usage,
            cost: account.paid.then_some(entry.cost),
        };
        self.accounts.into_iter().map(spent).collect()
    }
}

/// Formats a read error with its cause.
fn cause(error: &ReadError) -> String {
    let source = std::error::Error::source(error);
    let source = source.map_or(String::new(), |source| format!(": {source}"));
    format!("{error}{source}")
}
