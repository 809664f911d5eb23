//! What was spent, by agents that keep their own record and by those that only segue keeps one of.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use segue_catalog::{Catalog, Originals, ReadError, Request, Start, Tally};
use segue_core::spend::Spent;
use segue_core::{Cost, Leg, LegId, NativeId, ProviderId, Session, Turn, TurnId, TurnState, Usage};
use segue_store::{Filter, Page};

use crate::native::keeper;
use crate::{Engine, EngineError, Native};

/// How many sessions are asked for at a time.
const PAGE: u32 = 200;

/// What is asked.
#[derive(Debug, Clone)]
pub struct SpendingRequest {
    /// Only what was spent at or after this moment.
    pub since: Option<Timestamp>,
    /// Only what this agent spent.
    pub provider: Option<ProviderId>,
    /// Only what was spent in the project with this key.
    pub project: Option<String>,
    /// Whose days are meant.
    pub zone: TimeZone,
}

/// What was spent, and what could not be looked at.
#[derive(Debug, Default)]
pub struct Spendings {
    /// Each day's by agent, model and project.
    pub spent: Vec<Spent>,
    /// Of which agents something could not be read, and why.
    pub unreadable: Vec<(ProviderId, String)>,
}

impl Engine {
    /// What was spent. A turn that an agent keeps its own record of is counted by that record, others by ours.
    pub async fn spending(&self, request: &SpendingRequest) -> Result<Spendings, EngineError> {
        let filter = Filter {
            project: request.project.clone(),
            provider: request.provider.clone(),
            since: request.since,
            ..Filter::default()
        };
        let (mut natives, mut unreadable) = self.all_natives(&filter).await;
        // What a fork has in common with its origin is the origin's.
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

    /// Adds the turns that no agent keeps a readable record of.
    async fn own_spending(
        &self,
        request: &SpendingRequest,
        ledger: &mut Ledger,
    ) -> Result<(), EngineError> {
        // A session goes from agent to agent: which one it is with now says nothing of its turns.
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
            // Without a leg it was made in the agent's own program, or in a session that is gone.
            let read = leg.map_or(reads, |leg| ledger.has_read(leg));
            if !read {
                let keeper = keeper(provider);
                ledger.own(session, if reads { &keeper } else { provider }, turn);
            }
        }
        Ok(())
    }
}

/// What belongs together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Account {
    day: Date,
    provider: ProviderId,
    model: Option<String>,
    project: Option<String>,
    /// What is told and what is not is kept apart, so that no sum passes for more than it is.
    used: bool,
    paid: bool,
}

/// What is in an account.
#[derive(Debug, Default)]
struct Entry {
    turns: u64,
    usage: Usage,
    cost: Cost,
}

/// Adds up what is spent.
struct Ledger {
    request: SpendingRequest,
    accounts: BTreeMap<Account, Entry>,
    originals: HashMap<ProviderId, Originals>,
    /// The native sessions that were read.
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

    /// Adds all that was asked in a native session; says why not, if it can't be read.
    fn native(&mut self, catalog: &Catalog, native: &Native) -> Result<(), String> {
        let session = &native.session;
        let mut records = catalog
            .records(session, &Start::Beginning)
            .map_err(|error| cause(&error))?;
        // What was read before it broke off is better than nothing.
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

    /// Whether the native session of a leg was read.
    fn has_read(&self, leg: &Leg) -> bool {
        let id = leg.native_id.clone();
        id.is_some_and(|id| self.read.contains(&(keeper(&leg.provider), id)))
    }

    /// Adds a turn of segue's own.
    fn own(&mut self, session: &Session, provider: &ProviderId, turn: &Turn) {
        let wanted = self.request.provider.as_ref();
        let other = wanted.is_some_and(|wanted| keeper(wanted) != keeper(provider));
        // What did not come to its end and tells nothing may have used nothing.
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

/// What is wrong, with what that comes of.
fn cause(error: &ReadError) -> String {
    let source = std::error::Error::source(error);
    let source = source.map_or(String::new(), |source| format!(": {source}"));
    format!("{error}{source}")
}
