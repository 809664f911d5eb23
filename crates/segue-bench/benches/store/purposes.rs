//! Time of a query for the session of a feature, in a small store and in a large store.

use segue_bench::create_temp_dir;
use std::path::Path;
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use segue_bench::measurement::{
    BenchmarkComparison, BenchmarkMode, Contestant, format_verdict, measure_rounds, print_table,
};
use segue_core::id::{FeatureId, ProviderId, SessionId};
use segue_core::scope::{Purpose, Scope};
use segue_core::session::{Project, Title};
use segue_sqlite::SqliteStore;
use segue_store::{NewSession, PageRequest, SessionFilter, SessionQueries, SessionStore};
use tokio::runtime::Runtime;

use crate::build_runtime;

/// Number of sessions per feature.
const SESSIONS_PER_FEATURE: u32 = 10;

pub(crate) fn compare_purpose_queries(extent: BenchmarkMode) {
    let (large, rounds) = extent.pick((20_000, 21), (200, 2));
    let directory = create_temp_dir();
    let small_store = FeatureStore::new(200, &directory.path().join("small"));
    let large_store = FeatureStore::new(large, &directory.path().join("large"));
    let any_provider = |store: &FeatureStore| store.measure_lookup(None);
    let provider = ProviderId::codex();
    let codex = |store: &FeatureStore| store.measure_lookup(Some(&provider));
    let mut contestants = [
        Contestant::new("200 sessions", || any_provider(&small_store)),
        Contestant::new(format!("{large} sessions"), || any_provider(&large_store)),
        Contestant::new(format!("{large} sessions, of one agent"), || {
            codex(&large_store)
        }),
    ];
    measure_rounds(&mut contestants, rounds);
    let [small, ..] = &contestants;
    let rows = contestants.each_ref().map(|contestant| {
        let ratio =
            BenchmarkComparison::from_rounds(contestant, small, |value, baseline| value / baseline);
        let time = contestant.median();
        [
            contestant.name.clone(),
            format!("{:.0} µs", time * 1e6),
            ratio.format_cell(),
            format_verdict("at most 2 ms", time <= 0.002),
        ]
    });
    print_table(
        &format!("The newest session of a feature, each of {rounds} rounds over 100 features"),
        ["", "time each", "ratio to the small store", "aim"],
        &rows,
    );
}

/// A store with sessions for features, all in one project.
struct FeatureStore {
    runtime: Runtime,
    store: SqliteStore,
    features: u32,
}

impl FeatureStore {
    fn new(count: u32, directory: &Path) -> Self {
        let runtime = build_runtime();
        let store = SqliteStore::open(directory).unwrap();
        let features = count / SESSIONS_PER_FEATURE;
        runtime.block_on(async {
            for number in 0..count {
                store
                    .create_session(feature_session(number, features))
                    .await
                    .unwrap();
            }
        });
        Self {
            runtime,
            store,
            features,
        }
    }

    /// Returns the mean time of a query for the session of a feature, in seconds.
    fn measure_lookup(&self, provider: Option<&ProviderId>) -> f64 {
        const LOOKUPS_PER_ROUND: u32 = 100;
        let start = Instant::now();
        self.runtime.block_on(async {
            for number in 0..LOOKUPS_PER_ROUND {
                let filter = SessionFilter {
                    project: Some("/src/app/.git".into()),
                    purpose: Some(feature_purpose(number * 7 % self.features)),
                    provider: provider.cloned(),
                    ..SessionFilter::default()
                };
                let page = self
                    .store
                    .list_sessions(&filter, PageRequest::first(1))
                    .await
                    .unwrap();
                assert_eq!(page.sessions.len(), 1);
            }
        });
        start.elapsed().as_secs_f64() / f64::from(LOOKUPS_PER_ROUND)
    }
}

fn feature_purpose(number: u32) -> Purpose {
    Purpose::for_scope(Scope::Feature(
        FeatureId::parse(&format!("feature {number}")).unwrap(),
    ))
}

fn feature_session(number: u32, features: u32) -> NewSession {
    let at = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(i64::from(number));
    // The oldest session of each feature is Codex's, so that a search from the newest finds it last.
    let provider = if number < features {
        ProviderId::codex()
    } else {
        ProviderId::rehearsal()
    };
    NewSession {
        id: SessionId::from_timestamp(at, number),
        project: Project {
            key: "/src/app/.git".into(),
            cwd: "/src/app".into(),
        },
        title: Title::from_prompt(&format!("session {number}")),
        purpose: Some(feature_purpose(number % features)),
        provider,
        at,
        conflict_filter: None,
    }
}
