//! Usage and cost: each turn counts once, in whichever record it is.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use jiff::civil::date;
use jiff::tz::{TimeZone, offset};
use segue_catalog::{
    Catalog, RecordEvent, SessionLocation, SessionHead, IdHint, NativeSessionKind, Mark, ReadError, Reader, NativeRecord, Records, KeyedMessage,
    SkippedContent, ReadStart, SessionScan,
};
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{Message, OpenMode, Part, Role, StopReason, Usage};
use segue_core::spend::Cost;
use segue_core::spend::{SpendGrouping, Prices, Spending, SpendRecord};
use segue_engine::{SpendingRequest, Target};
use segue_store::Store;

use crate::scripted::{Cue, Stage, same, say};

/// A request: its time, id, model, tokens, and cost in millionths.
type Asked = (&'static str, &'static str, &'static str, u64, Option<u64>);

/// Sessions of an agent: their ids and requests. Each request is a separate turn.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<(&'static str, Requests)>>>);

type Requests = Vec<Asked>;

impl Kept {
    fn add(&self, id: &'static str, asked: &[Asked]) {
        self.0.lock().unwrap().push((id, asked.to_vec()));
    }
}

impl Reader for Kept {
    fn provider(&self) -> &'static str {
        "scripted"
    }

    fn scan_sessions(&self) -> SessionScan {
        let kept = self.0.lock().unwrap();
        let found = kept.iter().map(|(id, _)| SessionLocation {
            path: PathBuf::from(id),
            id_hint: IdHint::Complete((*id).to_owned()),
            size: 1,
            modified: Timestamp::now(),
            archived: false,
        });
        SessionScan {
            locations: found.collect(),
            unreadable: Vec::new(),
        }
    }

    fn read_head(&self, found: &SessionLocation) -> Result<SessionHead, ReadError> {
        let id = NativeId::parse(found.path.to_str().unwrap()).unwrap();
        Ok(SessionHead {
            kind: NativeSessionKind::Conversation,
            cwd: Some("/gone/away".into()),
            ..SessionHead::new(id, Timestamp::now())
        })
    }

    fn open_records(&self, found: &SessionLocation, _: &ReadStart) -> Result<Box<dyn Records>, ReadError> {
        let kept = self.0.lock().unwrap();
        let id = found.path.to_str().unwrap();
        let (_, asked) = kept.iter().find(|(kept, _)| *kept == id).unwrap();
        if asked.is_empty() {
            let source = std::io::Error::other("it is broken");
            let path = found.path.clone();
            return Err(ReadError::Io { path, source });
        }
        let records = asked.iter().flat_map(turn).collect::<Vec<_>>();
        Ok(Box::new(Told(records.into_iter())))
    }
}

fn turn(&(at, id, model, tokens, cost): &Asked) -> [NativeRecord; 2] {
    let at: Timestamp = at.parse().unwrap();
    let record = |event| NativeRecord {
        mark: Mark::Id(id.to_owned()),
        at: Some(at),
        events: vec![event],
    };
    let text = vec![Part::Text("x".into())];
    let message = Message::new(Role::User, text, at);
    [
        record(RecordEvent::Prompt(KeyedMessage { key: None, message })),
        record(RecordEvent::RequestUsage {
            request_id: Some(id.to_owned()),
            usage: used(tokens),
            model: Some(model.to_owned()),
            cost: cost.map(Cost::from_micros),
        }),
    ]
}

struct Told(std::vec::IntoIter<NativeRecord>);

impl Records for Told {
    fn next(&mut self) -> Result<Option<NativeRecord>, ReadError> {
        Ok(self.0.next())
    }

    fn skipped(&self) -> SkippedContent {
        SkippedContent::default()
    }
}

fn used(tokens: u64) -> Usage {
    Usage {
        total_tokens: Some(tokens),
        ..Usage::default()
    }
}

fn stage() -> (Kept, Stage) {
    let kept = Kept::default();
    let stage = Stage::beside(Catalog::new(vec![Arc::new(kept.clone())]));
    (kept, stage)
}

/// Returns a request for all usage, with days three hours west of Greenwich.
fn everything() -> SpendingRequest {
    SpendingRequest {
        since: None,
        provider: None,
        project: None,
        zone: TimeZone::fixed(offset(-3)),
    }
}

async fn spent(stage: &Stage, request: &SpendingRequest) -> Vec<SpendRecord> {
    let found = stage.engine.compute_spending(request).await.unwrap();
    assert!(found.unreadable.is_empty(), "{:?}", found.unreadable);
    found.records
}

/// Returns the total number of turns and tokens.
fn total(spent: &[SpendRecord]) -> (u64, u64) {
    let total = Spending::from_records(spent, &[SpendGrouping::Day], &Prices::default()).total;
    (total.turns, total.tokens().unwrap_or(0))
}

/// Runs a turn that reports this usage.
async fn uses(stage: &Stage, usage: Usage, target: Target) -> segue_engine::TurnReport {
    stage.script([say("x"), Cue::Done(StopReason::EndTurn, usage)]);
    let request = stage.request("hello", target);
    stage.chat(request, |_| {}).await.unwrap()
}

#[tokio::test]
async fn days_models_and_costs_are_kept_apart() {
    let (kept, stage) = stage();
    kept.add(
        "a",
        &[
            ("2026-11-16T02:59:59Z", "1", "m", 1, None),
            ("2026-11-16T03:00:00Z", "2", "m", 10, None),
            ("2026-11-16T04:00:00Z", "3", "m", 100, Some(5)),
            ("2026-11-16T05:00:00Z", "4", "m", 1000, Some(6)),
            ("2026-11-16T05:00:00Z", "5", "n", 10_000, None),
        ],
    );
    let told: Vec<_> = spent(&stage, &everything())
        .await
        .into_iter()
        .map(|spent| {
            assert_eq!(spent.project.as_deref(), Some("/gone/away"));
            let cost = spent.cost.map(Cost::micros);
            let tokens = spent.usage.total_tokens.unwrap();
            (spent.day, spent.model.unwrap(), spent.turns, tokens, cost)
        })
        .collect();
    let (before, after) = (date(2026, 11, 15), date(2026, 11, 16));
    let row = |day, model: &str, turns, tokens, cost| (day, model.to_owned(), turns, tokens, cost);
    assert_eq!(
        told,
        [
            row(before, "m", 1, 1, None),
            row(after, "m", 1, 10, None),
            row(after, "m", 2, 1100, Some(11)),
            row(after, "n", 1, 10_000, None),
        ]
    );
    let later = SpendingRequest {
        since: Some("2026-11-16T04:00:00Z".parse().unwrap()),
        ..everything()
    };
    assert_eq!(total(&spent(&stage, &later).await), (3, 11_100));
    let elsewhere = SpendingRequest {
        project: Some("/elsewhere".into()),
        ..everything()
    };
    assert_eq!(spent(&stage, &elsewhere).await, []);
}

#[tokio::test]
async fn a_fork_pays_only_for_what_it_asks_itself() {
    let (kept, stage) = stage();
    let first = ("2026-11-16T02:00:00Z", "1", "m", 1, None);
    let second = ("2026-11-16T02:01:00Z", "2", "m", 10, None);
    kept.add("origin", &[first, second]);
    kept.add(
        "fork",
        &[first, ("2026-11-16T02:02:00Z", "3", "m", 100, None)],
    );
    assert_eq!(total(&spent(&stage, &everything()).await), (3, 111));
}

#[tokio::test]
async fn a_turn_counts_once_whoever_keeps_it() {
    let (kept, stage) = stage();
    // The agent has no record of the turn, so segue's record counts.
    let report = uses(&stage, used(7), Target::New).await;
    assert_eq!(total(&spent(&stage, &everything()).await), (1, 7));
    // The agent has a record of the native session native-1, which is more precise.
    kept.add("native-1", &[("2026-11-16T02:00:00Z", "1", "m", 9, None)]);
    assert_eq!(total(&spent(&stage, &everything()).await), (1, 9));
    // The next leg runs on native-2, of which the agent has no record.
    *stage.agent.goes_on.lock().unwrap() = OpenMode::Fresh;
    uses(&stage, used(100), same(&report)).await;
    assert_eq!(total(&spent(&stage, &everything()).await), (2, 109));
    // A fork shares both turns, and makes no request.
    let session = stage.store.session(&report.session).await.unwrap().unwrap();
    let project = session.project.clone();
    stage.engine.fork_session(&session, None, &project).await.unwrap();
    assert_eq!(total(&spent(&stage, &everything()).await), (2, 109));
    let other = |provider: &str| SpendingRequest {
        provider: Some(ProviderId::parse(provider).unwrap()),
        ..everything()
    };
    assert_eq!(total(&spent(&stage, &other("scripted")).await), (2, 109));
    assert_eq!(
        total(&spent(&stage, &other("acp:scripted")).await),
        (2, 109)
    );
    assert_eq!(total(&spent(&stage, &other("claude")).await), (0, 0));
    let in_it = SpendingRequest {
        project: Some(project.key),
        ..everything()
    };
    // The agent's record assigns native-1 to another project, so segue's record counts for this one.
    assert_eq!(total(&spent(&stage, &in_it).await), (2, 107));
    let tomorrow = SpendingRequest {
        since: Some(Timestamp::MAX),
        ..everything()
    };
    assert_eq!(spent(&stage, &tomorrow).await, []);
}

#[tokio::test]
async fn a_turn_that_tells_nothing_is_no_zero() {
    let (_, stage) = stage();
    uses(&stage, Usage::default(), Target::New).await;
    let spent = spent(&stage, &everything()).await;
    let sum = Spending::from_records(&spent, &[], &Prices::default()).total;
    assert_eq!((sum.turns, sum.unreported_turns, sum.tokens()), (1, 1, None));
}

#[tokio::test]
async fn what_cannot_be_read_is_told_and_ours_counts() {
    let (kept, stage) = stage();
    uses(&stage, used(7), Target::New).await;
    kept.add("native-1", &[]);
    kept.add("other", &[("2026-11-16T02:00:00Z", "1", "m", 9, None)]);
    let found = stage.engine.compute_spending(&everything()).await.unwrap();
    assert_eq!(total(&found.records), (2, 16));
    let [(provider, why)] = found.unreadable.as_slice() else {
        panic!("{:?}", found.unreadable);
    };
    assert_eq!(provider.as_str(), "scripted");
    assert!(
        why.contains("native-1") && why.contains("it is broken"),
        "{why}"
    );
}
