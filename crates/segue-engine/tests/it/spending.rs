//! Usage and cost: each turn counts once, even if both segue and the agent recorded it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use jiff::civil::date;
use jiff::tz::{TimeZone, offset};
use segue_catalog::{
    Catalog, IdHint, KeyedMessage, Mark, NativeRecord, NativeSessionKind, ReadError, ReadStart,
    Reader, RecordEvent, Records, SessionHead, SessionLocation, SessionScan, SkippedContent,
};
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{Message, OpenMode, Part, Role, StopReason, Usage};
use segue_core::spend::Cost;
use segue_core::spend::{Prices, SpendGrouping, SpendRecord, Spending};
use segue_engine::{SpendingRequest, Target};

use crate::scripted::{EngineHarness, ScriptedAction, send_text, session_target};

/// A request: its time, id, model, tokens, and cost in millionths.
type SampleRequest = (&'static str, &'static str, &'static str, u64, Option<u64>);

/// Sessions of an agent: their ids and requests. Each request is a separate turn.
#[derive(Clone, Default)]
struct NativeUsageStub(Arc<Mutex<Vec<(&'static str, SampleRequests)>>>);

type SampleRequests = Vec<SampleRequest>;

impl NativeUsageStub {
    fn add_session(&self, id: &'static str, requests: &[SampleRequest]) {
        self.0.lock().unwrap().push((id, requests.to_vec()));
    }
}

impl Reader for NativeUsageStub {
    fn provider(&self) -> &'static str {
        "scripted"
    }

    fn scan_sessions(&self) -> SessionScan {
        let sessions = self.0.lock().unwrap();
        let locations = sessions.iter().map(|(id, _)| SessionLocation {
            path: PathBuf::from(id),
            id_hint: IdHint::Complete((*id).to_owned()),
            size: 1,
            modified: Timestamp::now(),
            archived: false,
        });
        SessionScan {
            locations: locations.collect(),
            unreadable: Vec::new(),
        }
    }

    fn read_head(&self, location: &SessionLocation) -> Result<SessionHead, ReadError> {
        let id = NativeId::parse(location.path.to_str().unwrap()).unwrap();
        Ok(SessionHead {
            kind: NativeSessionKind::Conversation,
            cwd: Some("/gone/away".into()),
            ..SessionHead::new(id, Timestamp::now())
        })
    }

    fn open_records(
        &self,
        location: &SessionLocation,
        _: &ReadStart,
    ) -> Result<Box<dyn Records>, ReadError> {
        let sessions = self.0.lock().unwrap();
        let id = location.path.to_str().unwrap();
        let (_, requests) = sessions
            .iter()
            .find(|(session_id, _)| *session_id == id)
            .unwrap();
        if requests.is_empty() {
            let source = std::io::Error::other("it is broken");
            let path = location.path.clone();
            return Err(ReadError::Io { path, source });
        }
        let records = requests.iter().flat_map(turn_records).collect::<Vec<_>>();
        Ok(Box::new(StubUsageRecords(records.into_iter())))
    }
}

fn turn_records(&(at, id, model, tokens, cost): &SampleRequest) -> [NativeRecord; 2] {
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
            usage: total_usage(tokens),
            model: Some(model.to_owned()),
            cost: cost.map(Cost::from_micros),
        }),
    ]
}

struct StubUsageRecords(std::vec::IntoIter<NativeRecord>);

impl Records for StubUsageRecords {
    fn next(&mut self) -> Result<Option<NativeRecord>, ReadError> {
        Ok(self.0.next())
    }

    fn skipped(&self) -> SkippedContent {
        SkippedContent::default()
    }
}

fn total_usage(tokens: u64) -> Usage {
    Usage {
        total_tokens: Some(tokens),
        ..Usage::default()
    }
}

fn harness_with_usage() -> (NativeUsageStub, EngineHarness) {
    let native = NativeUsageStub::default();
    let harness = EngineHarness::with_catalog(Catalog::new(vec![Arc::new(native.clone())]));
    (native, harness)
}

/// Returns a request for all usage, with days three hours west of Greenwich.
fn all_usage_request() -> SpendingRequest {
    SpendingRequest {
        since: None,
        provider: None,
        project: None,
        zone: TimeZone::fixed(offset(-3)),
    }
}

async fn load_spending(harness: &EngineHarness, request: &SpendingRequest) -> Vec<SpendRecord> {
    let report = harness
        .engine
        .library()
        .compute_spending(request)
        .await
        .unwrap();
    assert!(report.unreadable.is_empty(), "{:?}", report.unreadable);
    report.records
}

/// Returns the total number of turns and tokens.
fn total_turns_and_tokens(records: &[SpendRecord]) -> (u64, u64) {
    let total = Spending::from_records(records, &[SpendGrouping::Day], &Prices::default()).total;
    (total.turns, total.tokens().unwrap_or(0))
}

/// Runs a turn that reports this usage.
async fn run_turn_with_usage(
    harness: &EngineHarness,
    usage: Usage,
    target: Target,
) -> segue_engine::TurnReport {
    harness.script([
        send_text("x"),
        ScriptedAction::TurnEnded(StopReason::EndTurn, usage),
    ]);
    let request = harness.request("hello", target);
    harness.chat(request, |_| {}).await.unwrap()
}

#[tokio::test]
async fn days_models_and_reported_costs_are_separate_records() {
    let (native, harness) = harness_with_usage();
    native.add_session(
        "a",
        &[
            ("2026-11-16T02:59:59Z", "1", "m", 1, None),
            ("2026-11-16T03:00:00Z", "2", "m", 10, None),
            ("2026-11-16T04:00:00Z", "3", "m", 100, Some(5)),
            ("2026-11-16T05:00:00Z", "4", "m", 1000, Some(6)),
            ("2026-11-16T05:00:00Z", "5", "n", 10_000, None),
        ],
    );
    let rows: Vec<_> = load_spending(&harness, &all_usage_request())
        .await
        .into_iter()
        .map(|record| {
            assert_eq!(record.project.as_deref(), Some("/gone/away"));
            let cost = record.cost.map(Cost::micros);
            let tokens = record.usage.total_tokens.unwrap();
            (
                record.day,
                record.model.unwrap(),
                record.turns,
                tokens,
                cost,
            )
        })
        .collect();
    let (before, after) = (date(2026, 11, 15), date(2026, 11, 16));
    let row = |day, model: &str, turns, tokens, cost| (day, model.to_owned(), turns, tokens, cost);
    assert_eq!(
        rows,
        [
            row(before, "m", 1, 1, None),
            row(after, "m", 1, 10, None),
            row(after, "m", 2, 1100, Some(11)),
            row(after, "n", 1, 10_000, None),
        ]
    );
    let later = SpendingRequest {
        since: Some("2026-11-16T04:00:00Z".parse().unwrap()),
        ..all_usage_request()
    };
    assert_eq!(
        total_turns_and_tokens(&load_spending(&harness, &later).await),
        (3, 11_100)
    );
    let other_project = SpendingRequest {
        project: Some("/elsewhere".into()),
        ..all_usage_request()
    };
    assert_eq!(load_spending(&harness, &other_project).await, []);
}

#[tokio::test]
async fn a_fork_counts_only_its_own_requests() {
    let (native, harness) = harness_with_usage();
    let first = ("2026-11-16T02:00:00Z", "1", "m", 1, None);
    let second = ("2026-11-16T02:01:00Z", "2", "m", 10, None);
    native.add_session("origin", &[first, second]);
    native.add_session(
        "fork",
        &[first, ("2026-11-16T02:02:00Z", "3", "m", 100, None)],
    );
    assert_eq!(
        total_turns_and_tokens(&load_spending(&harness, &all_usage_request()).await),
        (3, 111)
    );
}

#[tokio::test]
async fn a_turn_in_both_records_counts_once() {
    let (native, harness) = harness_with_usage();
    // The agent has no record of the turn, so segue's record counts.
    let report = run_turn_with_usage(&harness, total_usage(7), Target::New).await;
    assert_eq!(
        total_turns_and_tokens(&load_spending(&harness, &all_usage_request()).await),
        (1, 7)
    );
    // The agent has a record of the native session native-1, which is more precise.
    native.add_session("native-1", &[("2026-11-16T02:00:00Z", "1", "m", 9, None)]);
    assert_eq!(
        total_turns_and_tokens(&load_spending(&harness, &all_usage_request()).await),
        (1, 9)
    );
    // The next leg runs on native-2, of which the agent has no record.
    *harness.agent.resume_mode.lock().unwrap() = OpenMode::Fresh;
    run_turn_with_usage(&harness, total_usage(100), session_target(&report)).await;
    assert_eq!(
        total_turns_and_tokens(&load_spending(&harness, &all_usage_request()).await),
        (2, 109)
    );
    // A fork shares both turns, and makes no request.
    let session = harness
        .store
        .session(&report.session)
        .await
        .unwrap()
        .unwrap();
    let project = session.project.clone();
    harness
        .engine
        .sessions()
        .fork_session(&session, None, None, &project)
        .await
        .unwrap();
    assert_eq!(
        total_turns_and_tokens(&load_spending(&harness, &all_usage_request()).await),
        (2, 109)
    );
    let for_provider = |provider: &str| SpendingRequest {
        provider: Some(ProviderId::parse(provider).unwrap()),
        ..all_usage_request()
    };
    assert_eq!(
        total_turns_and_tokens(&load_spending(&harness, &for_provider("scripted")).await),
        (2, 109)
    );
    assert_eq!(
        total_turns_and_tokens(&load_spending(&harness, &for_provider("acp:scripted")).await),
        (2, 109)
    );
    assert_eq!(
        total_turns_and_tokens(&load_spending(&harness, &for_provider("claude")).await),
        (0, 0)
    );
    let for_project = SpendingRequest {
        project: Some(project.key),
        ..all_usage_request()
    };
    // The agent's record assigns native-1 to another project, so segue's record counts for this one.
    assert_eq!(
        total_turns_and_tokens(&load_spending(&harness, &for_project).await),
        (2, 107)
    );
    let tomorrow = SpendingRequest {
        since: Some(Timestamp::MAX),
        ..all_usage_request()
    };
    assert_eq!(load_spending(&harness, &tomorrow).await, []);
}

#[tokio::test]
async fn a_turn_without_reported_usage_does_not_count_as_zero() {
    let (_, harness) = harness_with_usage();
    run_turn_with_usage(&harness, Usage::default(), Target::New).await;
    let records = load_spending(&harness, &all_usage_request()).await;
    let totals = Spending::from_records(&records, &[], &Prices::default()).total;
    assert_eq!(
        (totals.turns, totals.unreported_turns, totals.tokens()),
        (1, 1, None)
    );
}

#[tokio::test]
async fn an_unreadable_native_session_is_reported_and_the_own_record_counts() {
    let (native, harness) = harness_with_usage();
    run_turn_with_usage(&harness, total_usage(7), Target::New).await;
    native.add_session("native-1", &[]);
    native.add_session("other", &[("2026-11-16T02:00:00Z", "1", "m", 9, None)]);
    let report = harness
        .engine
        .library()
        .compute_spending(&all_usage_request())
        .await
        .unwrap();
    assert_eq!(total_turns_and_tokens(&report.records), (2, 16));
    let [(provider, reason)] = report.unreadable.as_slice() else {
        panic!("{:?}", report.unreadable);
    };
    assert_eq!(provider.as_str(), "scripted");
    assert!(
        reason.contains("native-1") && reason.contains("it is broken"),
        "{reason}"
    );
}
