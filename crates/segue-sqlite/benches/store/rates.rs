//! Appends per second: the store with one writer and with several, compared with plain files on the same disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use segue_sqlite::SqliteStore;
use tokio::runtime::Runtime;

use crate::conversation::Conversation;
use crate::raw::RawLog;
use crate::{MESSAGE_BYTES, directory, runtime, text};
use segue_testkit::benchmark::{Compared, Contestant, Extent, print_table, take_turns, verdict};

/// Number of writers that share the store in the measurement of group commit.
const WRITERS: u32 = 8;

pub(crate) fn compare(extent: Extent) {
    let (rounds, appends) = extent.pick((21, 1000), (2, 16));
    let directory = directory();
    let text = text();
    let room = appends as usize * MESSAGE_BYTES;
    let mut growing = RawLog::growing(&directory.path().join("growing"));
    let mut allocated = RawLog::allocated(&directory.path().join("allocated"), room);
    let mut alone = Writers::new(1, &directory.path().join("alone"));
    let mut together = Writers::new(WRITERS, &directory.path().join("together"));
    let mut contestants = [
        Contestant::new("plain file, growing", || {
            growing.rate(appends, text.as_bytes())
        }),
        Contestant::new("plain file, at its full size", || {
            allocated.rate(appends, text.as_bytes())
        }),
        Contestant::new("store, 1 writer", || alone.rate(appends)),
        Contestant::new(format!("store, {WRITERS} writers"), || {
            together.rate(appends)
        }),
    ];
    take_turns(&mut contestants, rounds);
    print(&contestants, rounds, appends);
}

fn print(contestants: &[Contestant<'_>; 4], rounds: usize, appends: u32) {
    let [growing, allocated, alone, together] = contestants;
    let row = |contestant: &Contestant<'_>, aim: fn(f64) -> String| {
        let ratio = Compared::by_round(contestant, growing, |one, other| one / other);
        let rate = contestant.median();
        [
            contestant.name.clone(),
            format!("{rate:.0}"),
            format!("{:.0} µs", 1e6 / rate),
            ratio.cell(),
            aim(ratio.median),
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
            row(alone, |ratio| verdict("at least 0.5", ratio >= 0.5)),
            row(together, |ratio| verdict("more than 1", ratio > 1.0)),
        ],
    );
}

/// Tasks that write concurrently to one store, each to its own session.
struct Writers {
    runtime: Runtime,
    store: Arc<SqliteStore>,
    text: Arc<str>,
    conversations: Vec<Conversation>,
}

impl Writers {
    fn new(count: u32, directory: &Path) -> Self {
        let runtime = runtime();
        let store = Arc::new(SqliteStore::open(directory).unwrap());
        let text = text();
        let begin = |number| runtime.block_on(Conversation::before(2, &store, number, &text));
        Self {
            conversations: (0..count).map(begin).collect(),
            text: text.as_str().into(),
            runtime,
            store,
        }
    }

    /// Appends `appends` messages, divided evenly among the writers. Returns the appends per second.
    fn rate(&mut self, appends: u32) -> f64 {
        let writers = u32::try_from(self.conversations.len()).unwrap();
        let each = appends / writers;
        let start = Instant::now();
        self.conversations = self.runtime.block_on(async {
            let writing = self.conversations.drain(..).map(|conversation| {
                let (store, text) = (Arc::clone(&self.store), Arc::clone(&self.text));
                tokio::spawn(write(conversation, store, text, each))
            });
            let mut written = Vec::new();
            for writer in writing.collect::<Vec<_>>() {
                written.push(writer.await.unwrap());
            }
            written
        });
        f64::from(each * writers) / start.elapsed().as_secs_f64()
    }
}

async fn write(
    mut conversation: Conversation,
    store: Arc<SqliteStore>,
    text: Arc<str>,
    appends: u32,
) -> Conversation {
    for _ in 0..appends {
        conversation.append(&store, &text).await;
    }
    conversation
}
