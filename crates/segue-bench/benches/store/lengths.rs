//! Cost of one more message in a short session and in a long session.

use segue_bench::create_temp_dir;
use std::path::Path;
use std::time::{Duration, Instant};

use segue_sqlite::SqliteStore;
use segue_store::Store;
use tokio::runtime::Runtime;

use crate::conversation::BenchSession;
use crate::rewrite::{JsonChatFile, SyncMode};
use crate::{build_runtime, message_text};
use segue_bench::measurement::{
    BenchmarkComparison, BenchmarkMode, Contestant, format_verdict, measure_rounds, print_table,
    quantile,
};

/// Number of the message that is measured in a short session.
const SHORT_SESSION_MESSAGES: u32 = 10;

/// Number of messages that are appended per round; the result of the round is their median time.
const APPENDS_PER_ROUND: u32 = 10;

pub(crate) fn compare_lengths(extent: BenchmarkMode) {
    let (rounds, long) = extent.pick((20, 10_000), (2, 100));
    let directory = create_temp_dir();
    let window = u32::try_from(rounds).unwrap() * APPENDS_PER_ROUND;
    let mut short_sessions = ShortSessions::new(window, &directory.path().join("short"));
    let mut long_session = LongSession::new(long - window / 2, &directory.path().join("long"));
    let short_file =
        JsonChatFile::with_next_message(SHORT_SESSION_MESSAGES, directory.path(), &message_text());
    let long_file = JsonChatFile::with_next_message(long, directory.path(), &message_text());
    let mut contestants = [
        Contestant::new("store", || short_sessions.measure_appends()),
        Contestant::new("store", || long_session.measure_appends()),
        Contestant::new("JSON file, rewritten and synced", || {
            measure_rewrite(&short_file, SyncMode::Synced, APPENDS_PER_ROUND)
        }),
        Contestant::new("JSON file, rewritten and synced", || {
            measure_rewrite(&long_file, SyncMode::Synced, 1)
        }),
        Contestant::new("JSON file, rewritten, not synced", || {
            measure_rewrite(&short_file, SyncMode::Unsynced, APPENDS_PER_ROUND)
        }),
        Contestant::new("JSON file, rewritten, not synced", || {
            measure_rewrite(&long_file, SyncMode::Unsynced, 1)
        }),
    ];
    measure_rounds(&mut contestants, rounds);
    print_comparison(&contestants, rounds, long);
}

fn print_comparison(contestants: &[Contestant<'_>; 6], rounds: usize, long: u32) {
    let store_baseline = &contestants[1];
    let row = |short: &Contestant<'_>, long: &Contestant<'_>, format_goal: fn(f64) -> String| {
        let growth = BenchmarkComparison::from_rounds(long, short, |long, short| long / short);
        let to_store =
            BenchmarkComparison::from_rounds(long, store_baseline, |file, store| file / store);
        [
            short.name.clone(),
            format_micros(short.median()),
            format_micros(long.median()),
            growth.format_cell(),
            format!("{:.1}", to_store.median),
            format_goal(growth.median),
        ]
    };
    let [
        short_store,
        long_store,
        short_synced,
        long_synced,
        short_unsynced,
        long_unsynced,
    ] = contestants;
    let nth = [SHORT_SESSION_MESSAGES, long].map(|nth| format!("message {nth}"));
    print_table(
        &format!("One more message in a short and in a long session ({rounds} rounds)"),
        [
            "",
            &nth[0],
            &nth[1],
            "growth",
            "the latter, to the store",
            "aim for growth",
        ],
        &[
            row(short_store, long_store, |growth| {
                format_verdict("at most 1.2", growth <= 1.2)
            }),
            row(short_synced, long_synced, |_| String::new()),
            row(short_unsynced, long_unsynced, |_| String::new()),
        ],
    );
}

/// Formats microseconds with a unit.
fn format_micros(micros: f64) -> String {
    if micros < 1e4 {
        format!("{micros:.0} µs")
    } else {
        format!("{:.1} ms", micros / 1e3)
    }
}

/// Returns the median duration of the appends in microseconds.
fn median_micros(appends: impl Iterator<Item = Duration>) -> f64 {
    let micros: Vec<f64> = appends
        .map(|duration| duration.as_secs_f64() * 1e6)
        .collect();
    quantile(&micros, 0.5)
}

fn measure_rewrite(file: &JsonChatFile, sync_mode: SyncMode, times: u32) -> f64 {
    median_micros((0..times).map(|_| file.add_message(sync_mode)))
}

/// Sessions whose next message is number [`SHORT_SESSION_MESSAGES`]; each is used once.
struct ShortSessions {
    runtime: Runtime,
    store: SqliteStore,
    text: String,
    unused: Vec<BenchSession>,
}

impl ShortSessions {
    fn new(count: u32, directory: &Path) -> Self {
        let (runtime, store, text) = (
            build_runtime(),
            SqliteStore::open(directory).unwrap(),
            message_text(),
        );
        let create = |number| {
            runtime.block_on(BenchSession::with_next_message(
                SHORT_SESSION_MESSAGES,
                &store,
                number,
                &text,
            ))
        };
        Self {
            unused: (0..count).map(create).collect(),
            runtime,
            store,
            text,
        }
    }

    fn measure_appends(&mut self) -> f64 {
        let (runtime, store, text) = (&self.runtime, &self.store, &self.text);
        let remaining = self.unused.len() - APPENDS_PER_ROUND as usize;
        let used = self.unused.drain(remaining..);
        median_micros(used.map(|mut session| measure_append(runtime, store, &mut session, text)))
    }
}

/// A single session that grows.
struct LongSession {
    runtime: Runtime,
    store: SqliteStore,
    text: String,
    session: BenchSession,
}

impl LongSession {
    fn new(next: u32, directory: &Path) -> Self {
        let (runtime, store, text) = (
            build_runtime(),
            SqliteStore::open(directory).unwrap(),
            message_text(),
        );
        let session = runtime.block_on(BenchSession::with_next_message(next, &store, 0, &text));
        Self {
            runtime,
            store,
            text,
            session,
        }
    }

    fn measure_appends(&mut self) -> f64 {
        let Self {
            runtime,
            store,
            text,
            session,
        } = self;
        median_micros((0..APPENDS_PER_ROUND).map(|_| measure_append(runtime, store, session, text)))
    }
}

fn measure_append(
    runtime: &Runtime,
    store: &dyn Store,
    session: &mut BenchSession,
    text: &str,
) -> Duration {
    let start = Instant::now();
    runtime.block_on(session.append(store, text));
    start.elapsed()
}
