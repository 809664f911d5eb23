//! Time of a query for the session of a feature, in a small store and in a large store.

use std::path::Path;
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use segue_core::id::{FeatureId, ProviderId, SessionId};
use segue_core::scope::{Purpose, Scope};
use segue_core::session::{Project, Title};
use segue_sqlite::SqliteStore;
use segue_store::{Filter, NewSession, Page, Store};
use segue_testkit::benchmark::{Compared, Contestant, Extent, print_table, take_turns, verdict};
use tokio::runtime::Runtime;

use crate::{directory, runtime};

/// Number of sessions per feature.
const EACH: u32 = 10;

pub(crate) fn compare(extent: Extent) {
    let (large, rounds) = extent.pick((20_000, 21), (200, 2));
    let directory = directory();
    let small_store = Sessions::new(200, &directory.path().join("small"));
    let large_store = Sessions::new(large, &directory.path().join("large"));
    let anybody = |sessions: &Sessions| sessions.find(None);
    let agent = ProviderId::codex();
    let codex = |sessions: &Sessions| sessions.find(Some(&agent));
    let mut contestants = [
        Contestant::new("200 sessions", || anybody(&small_store)),
        Contestant::new(format!("{large} sessions"), || anybody(&large_store)),
        Contestant::new(format!("{large} sessions, of one agent"), || {
            codex(&large_store)
        }),
    ];
    take_turns(&mut contestants, rounds);
    let [small, ..] = &contestants;
    let rows = contestants.each_ref().map(|contestant| {
        let ratio = Compared::by_round(contestant, small, |one, other| one / other);
        let time = contestant.median();
        [
            contestant.name.clone(),
            format!("{:.0} µs", time * 1e6),
            ratio.cell(),
            verdict("at most 2 ms", time <= 0.002),
        ]
    });
    print_table(
        &format!("The newest session of a feature, each of {rounds} rounds over 100 features"),
        ["", "time each", "ratio to the small store", "aim"],
        &rows,
    );
}

/// A store with sessions for features, all in one project.
struct Sessions {
    runtime: Runtime,
    store: SqliteStore,
    features: u32,
}

impl Sessions {
    fn new(count: u32, directory: &Path) -> Self {
        let runtime = runtime();
        let store = SqliteStore::open(directory).unwrap();
        let features = count / EACH;
        runtime.block_on(async {
            for number in 0..count {
                store.create(session(number, features)).await.unwrap();
            }
        });
        Self {
            runtime,
            store,
            features,
        }
    }

    /// Returns the mean time of a query for the session of a feature, in seconds.
    fn find(&self, provider: Option<&ProviderId>) -> f64 {
        const LOOKED_UP: u32 = 100;
        let start = Instant::now();
        self.runtime.block_on(async {
            for number in 0..LOOKED_UP {
                let filter = Filter {
                    project: Some("/src/app/.git".into()),
                    purpose: Some(purpose(number * 7 % self.features)),
                    provider: provider.cloned(),
                    ..Filter::default()
                };
                let found = self.store.find(&filter, Page::first(1)).await.unwrap();
                assert_eq!(found.sessions.len(), 1);
            }
        });
        start.elapsed().as_secs_f64() / f64::from(LOOKED_UP)
    }
}

fn purpose(number: u32) -> Purpose {
    Purpose::of(Scope::Feature(
        FeatureId::parse(&format!("feature {number}")).unwrap(),
    ))
}

fn session(number: u32, features: u32) -> NewSession {
    let at = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(i64::from(number));
    // The oldest session of each feature is Codex's, so that a search from the newest finds it last.
    let provider = if number < features {
        ProviderId::codex()
    } else {
        ProviderId::rehearsal()
    };
    NewSession {
        id: SessionId::at(at, number),
        project: Project {
            key: "/src/app/.git".into(),
            cwd: "/src/app".into(),
        },
        title: Title::from_prompt(&format!("session {number}")),
        purpose: Some(purpose(number % features)),
        provider,
        at,
        unless: None,
    }
}
