//! Appends per second: the store with one writer and with several, compared with plain files on the same disk.

use segue_bench::create_temp_dir;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use segue_sqlite::SqliteStore;
use segue_store::Store;
use tokio::runtime::Runtime;

use crate::conversation::BenchSession;
use crate::raw::RawLog;
use crate::{MESSAGE_BYTES, build_runtime, message_text};
use segue_bench::measurement::{
    BenchmarkComparison, BenchmarkMode, Contestant, format_verdict, measure_rounds, print_table,
    rounds_from_args,
};

/// Number of writers that share the store in the measurement of group commit.
const WRITER_COUNT: u32 = 8;

pub(crate) fn compare_rates(extent: BenchmarkMode) {
    let (rounds, appends) = extent.pick((21, 1000), (2, 16));
    let rounds = rounds_from_args(rounds);
    let directory = create_temp_dir();
    let text = message_text();
    let capacity = appends as usize * MESSAGE_BYTES;
    let mut growing = RawLog::create_growing(&directory.path().join("growing"));
    let mut allocated = RawLog::create_allocated(&directory.path().join("allocated"), capacity);
    let mut alone = ConcurrentWriters::new(1, &directory.path().join("alone"));
    let mut together = ConcurrentWriters::new(WRITER_COUNT, &directory.path().join("together"));
    let mut contestants = [
        Contestant::new("plain file, growing", || {
            growing.measure_rate(appends, text.as_bytes())
        }),
        Contestant::new("plain file, at its full size", || {
            allocated.measure_rate(appends, text.as_bytes())
        }),
        Contestant::new("store, 1 writer", || alone.measure_rate(appends)),
        Contestant::new(format!("store, {WRITER_COUNT} writers"), || {
            together.measure_rate(appends)
        }),
    ];
    measure_rounds(&mut contestants, rounds);
    print_comparison(&contestants, rounds, appends);
}

fn print_comparison(contestants: &[Contestant<'_>; 4], rounds: usize, appends: u32) {
    let [growing, allocated, alone, together] = contestants;
    let row = |contestant: &Contestant<'_>, format_goal: fn(f64) -> String| {
        let ratio = BenchmarkComparison::from_rounds(contestant, growing, |value, baseline| {
            value / baseline
        });
        let rate = contestant.median();
        [
            contestant.name.clone(),
            format!("{rate:.0}"),
            format!("{:.0} µs", 1e6 / rate),
            ratio.format_cell(),
            format_goal(ratio.median),
        ]
    };
    print_table(
        &format!(
            "Appends, each on the disk before the next of its writer ({rounds} rounds of {appends})"
        ),
        [
            "",
            "a second",
            "time each",
            "ratio to the growing file",
            "aim",
        ],
        &[
            row(growing, |_| String::new()),
            row(allocated, |_| String::new()),
            row(alone, |ratio| format_verdict("at least 0.5", ratio >= 0.5)),
            row(together, |ratio| format_verdict("more than 1", ratio > 1.0)),
        ],
    );
}

/// Tasks that write concurrently to one store, each to its own session.
struct ConcurrentWriters {
    runtime: Runtime,
    store: Arc<dyn Store>,
    text: Arc<str>,
    sessions: Vec<BenchSession>,
}

impl ConcurrentWriters {
    fn new(count: u32, directory: &Path) -> Self {
        let runtime = build_runtime();
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(directory).unwrap());
        let text = message_text();
        let create =
            |number| runtime.block_on(BenchSession::with_next_message(2, &*store, number, &text));
        Self {
            sessions: (0..count).map(create).collect(),
            text: text.as_str().into(),
            runtime,
            store,
        }
    }

    /// Appends `appends` messages, divided evenly among the writers. Returns the appends per second.
    fn measure_rate(&mut self, appends: u32) -> f64 {
        let writers = u32::try_from(self.sessions.len()).unwrap();
        let appends_per_writer = appends / writers;
        let start = Instant::now();
        self.sessions = self.runtime.block_on(async {
            let tasks = self.sessions.drain(..).map(|session| {
                let (store, text) = (Arc::clone(&self.store), Arc::clone(&self.text));
                tokio::spawn(append_messages(session, store, text, appends_per_writer))
            });
            let mut sessions = Vec::new();
            for writer in tasks.collect::<Vec<_>>() {
                sessions.push(writer.await.unwrap());
            }
            sessions
        });
        f64::from(appends_per_writer * writers) / start.elapsed().as_secs_f64()
    }
}

async fn append_messages(
    mut session: BenchSession,
    store: Arc<dyn Store>,
    text: Arc<str>,
    appends: u32,
) -> BenchSession {
    for _ in 0..appends {
        session.append(&*store, &text).await;
    }
    session
}
