//! Cost of one more message in a short session and in a long session.

use std::path::Path;
use std::time::{Duration, Instant};

use segue_sqlite::SqliteStore;
use tokio::runtime::Runtime;

use crate::conversation::Conversation;
use crate::rewrite::{ChatFile, Done};
use crate::{directory, runtime, text};
use segue_testkit::benchmark::{
    Compared, Contestant, Extent, print_table, quantile, take_turns, verdict,
};

/// Number of the message that is measured in a short session.
const SHORT: u32 = 10;

/// Number of messages that are appended per round; the result of the round is their median time.
const IN_A_ROW: u32 = 10;

pub(crate) fn compare(extent: Extent) {
    let (rounds, long) = extent.pick((20, 10_000), (2, 100));
    let directory = directory();
    let window = u32::try_from(rounds).unwrap() * IN_A_ROW;
    let mut short_sessions = ShortSessions::new(window, &directory.path().join("short"));
    let mut long_session = LongSession::new(long - window / 2, &directory.path().join("long"));
    let short_file = ChatFile::before(SHORT, directory.path(), &text());
    let long_file = ChatFile::before(long, directory.path(), &text());
    let mut contestants = [
        Contestant::new("store", || short_sessions.append()),
        Contestant::new("store", || long_session.append()),
        Contestant::new("JSON file, rewritten and synced", || {
            rewrite(&short_file, Done::Synced, IN_A_ROW)
        }),
        Contestant::new("JSON file, rewritten and synced", || {
            rewrite(&long_file, Done::Synced, 1)
        }),
        Contestant::new("JSON file, rewritten, not synced", || {
            rewrite(&short_file, Done::Written, IN_A_ROW)
        }),
        Contestant::new("JSON file, rewritten, not synced", || {
            rewrite(&long_file, Done::Written, 1)
        }),
    ];
    take_turns(&mut contestants, rounds);
    print(&contestants, rounds, long);
}

fn print(contestants: &[Contestant<'_>; 6], rounds: usize, long: u32) {
    let stored = &contestants[1];
    let row = |short: &Contestant<'_>, long: &Contestant<'_>, aim: fn(f64) -> String| {
        let growth = Compared::by_round(long, short, |long, short| long / short);
        let to_store = Compared::by_round(long, stored, |file, store| file / store);
        [
            short.name.clone(),
            in_words(short.median()),
            in_words(long.median()),
            growth.cell(),
            format!("{:.1}", to_store.median),
            aim(growth.median),
        ]
    };
    let [
        short_store,
        long_store,
        short_synced,
        long_synced,
        short_written,
        long_written,
    ] = contestants;
    let nth = [SHORT, long].map(|nth| format!("message {nth}"));
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
                verdict("at most 1.2", growth <= 1.2)
            }),
            row(short_synced, long_synced, |_| String::new()),
            row(short_written, long_written, |_| String::new()),
        ],
    );
}

/// Formats microseconds with a unit.
fn in_words(micros: f64) -> String {
    if micros < 1e4 {
        format!("{micros:.0} µs")
    } else {
        format!("{:.1} ms", micros / 1e3)
    }
}

/// Returns the median duration of the appends in microseconds.
fn median_micros(appends: impl Iterator<Item = Duration>) -> f64 {
    let micros: Vec<f64> = appends.map(|took| took.as_secs_f64() * 1e6).collect();
    quantile(&micros, 0.5)
}

fn rewrite(file: &ChatFile, done: Done, times: u32) -> f64 {
    median_micros((0..times).map(|_| file.add_message(done)))
}

/// Sessions whose next message is number [`SHORT`]; each is used once.
struct ShortSessions {
    runtime: Runtime,
    store: SqliteStore,
    text: String,
    unused: Vec<Conversation>,
}

impl ShortSessions {
    fn new(count: u32, directory: &Path) -> Self {
        let (runtime, store, text) = (runtime(), SqliteStore::open(directory).unwrap(), text());
        let begin = |number| runtime.block_on(Conversation::before(SHORT, &store, number, &text));
        Self {
            unused: (0..count).map(begin).collect(),
            runtime,
            store,
            text,
        }
    }

    fn append(&mut self) -> f64 {
        let (runtime, store, text) = (&self.runtime, &self.store, &self.text);
        let rest = self.unused.len() - IN_A_ROW as usize;
        let used = self.unused.drain(rest..);
        median_micros(used.map(|mut session| append(runtime, store, &mut session, text)))
    }
}

/// A single session that grows.
struct LongSession {
    runtime: Runtime,
    store: SqliteStore,
    text: String,
    conversation: Conversation,
}

impl LongSession {
    fn new(next: u32, directory: &Path) -> Self {
        let (runtime, store, text) = (runtime(), SqliteStore::open(directory).unwrap(), text());
        let conversation = runtime.block_on(Conversation::before(next, &store, 0, &text));
        Self {
            runtime,
            store,
            text,
            conversation,
        }
    }

    fn append(&mut self) -> f64 {
        let Self {
            runtime,
            store,
            text,
            conversation,
        } = self;
        median_micros((0..IN_A_ROW).map(|_| append(runtime, store, conversation, text)))
    }
}

fn append(
    runtime: &Runtime,
    store: &SqliteStore,
    conversation: &mut Conversation,
    text: &str,
) -> Duration {
    let start = Instant::now();
    runtime.block_on(conversation.append(store, text));
    start.elapsed()
}
