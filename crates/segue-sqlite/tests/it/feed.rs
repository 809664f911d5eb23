//! Campaign for the change feed: eight processes write, while another process follows the feed and is killed at random
//! points. The follower continues at the last cursor that it printed.
//!
//! The default is a few thousand changes; `SEGUE_FEED_CHANGES` changes that number, and `SEGUE_SEED` repeats a run.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use segue_core::agent::ProcessIdentity;
use segue_core::id::{ProviderId, SessionId};
use segue_core::session::{Message, Project, Role, Title, TurnState, Usage};
use segue_sqlite::SqliteStore;
use segue_store::{
    Change, ChangeFeed, ChangeKind, FeedCursor, NewSession, SettleEffects, Store, TurnEnding,
    TurnEntry,
};

/// Environment variable with the directory for the store of a child. Without it the children do nothing.
const CHILD_STORE_VARIABLE: &str = "SEGUE_FEED_CHILD";

/// Environment variable with the number of a writer, or the cursor of a follower.
const CHILD_START_VARIABLE: &str = "SEGUE_FEED_START";

/// Environment variable with the number of sessions that a writer creates.
const CHILD_SESSIONS_VARIABLE: &str = "SEGUE_FEED_SESSIONS";

/// Number of processes that write at the same time.
const WRITER_COUNT: u32 = 8;

/// Number of turns in a session of a writer.
const TURNS_PER_SESSION: u32 = 9;

/// Number of changes in a session of a writer: its creation, and three for each turn.
const CHANGES_PER_SESSION: u32 = 1 + 3 * TURNS_PER_SESSION;

fn read_env_number(name: &str, default: u32) -> u32 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn start_child(name: &str, store: &Path, start: &str, sessions: u32) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("feed::{name}"), "--nocapture"])
        .env(CHILD_STORE_VARIABLE, store)
        .env(CHILD_START_VARIABLE, start)
        .env(CHILD_SESSIONS_VARIABLE, sessions.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn message(role: Role) -> Message {
    Message::from_text(role, "the tests pass again", Timestamp::now())
}

async fn write_session(store: &dyn Store, number: u32) {
    let at = Timestamp::now();
    let new = NewSession {
        id: SessionId::from_timestamp(at, number),
        project: Project {
            key: "k".into(),
            cwd: "/".into(),
        },
        title: Title::from_prompt("t"),
        purpose: None,
        provider: ProviderId::rehearsal(),
        at,
        conflict_filter: None,
    };
    let owner = ProcessIdentity {
        host: "h".into(),
        pid: std::process::id(),
        start_time: "s".into(),
    };
    let started = store.start_session(new, owner, &message(Role::User)).await;
    let started = started.unwrap();
    let (lease, mut turn) = (started.lease, started.turn);
    for n in 1..=TURNS_PER_SESSION {
        let entry = TurnEntry::Message {
            seq: 1,
            message: message(Role::Assistant),
        };
        store.append_entry(&lease, turn.id, entry).await.unwrap();
        let ending = TurnEnding {
            state: TurnState::Finished,
            messages: Vec::new(),
            usage: Usage::default(),
            failure: None,
            at: Timestamp::now(),
        };
        let effects = SettleEffects::default();
        let settled = store.settle_turn(&lease, turn.id, ending, effects).await;
        settled.unwrap();
        if n < TURNS_PER_SESSION {
            let next = store.start_turn(&lease, message(Role::User).into()).await;
            turn = next.unwrap();
        }
    }
}

/// Runs in a child process: writes sessions.
#[tokio::test]
async fn writer() {
    let Some(directory) = std::env::var_os(CHILD_STORE_VARIABLE) else {
        return;
    };
    let store = SqliteStore::open(Path::new(&directory)).unwrap();
    let writer = read_env_number(CHILD_START_VARIABLE, 0);
    let sessions = read_env_number(CHILD_SESSIONS_VARIABLE, 0);
    for number in 0..sessions {
        write_session(&store, writer * sessions + number).await;
    }
}

/// Runs in a child process: prints the cursor and the position of each change after a cursor, until it is killed.
#[tokio::test]
async fn follower() {
    let Some(directory) = std::env::var_os(CHILD_STORE_VARIABLE) else {
        return;
    };
    let store = SqliteStore::open(Path::new(&directory)).unwrap();
    let start = std::env::var(CHILD_START_VARIABLE).unwrap();
    let mut cursor: FeedCursor = start.parse().unwrap();
    loop {
        let changes = store.changes(cursor, 50).await.unwrap();
        if changes.is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        for change in changes {
            cursor = change.cursor;
            let mut stdout = std::io::stdout().lock();
            writeln!(stdout, "CHANGE {cursor} {}", change.sequence).unwrap();
        }
    }
}

/// Position of the reader, and the positions of all changes that it has received.
struct FollowedFeed {
    cursor: FeedCursor,
    sequences: Vec<u64>,
}

impl FollowedFeed {
    /// Runs a follower until it has printed `limit` changes or the last one, and kills it. A change whose line was cut
    /// off by the kill is read again by the next follower.
    fn follow_and_kill(&mut self, directory: &Path, limit: usize, last: u64) {
        let mut child = start_child("follower", directory, &self.cursor.to_string(), 0);
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let mut is_killed = false;
        let mut received = 0;
        while output.read_line(&mut line).unwrap() > 0 {
            // The test runner may print its own text before the first change.
            let change = line.rfind("CHANGE ").map(|start| &line[start..]);
            if let Some(change) = change
                && let Some(change) = change.strip_suffix('\n')
                && let [_, cursor, sequence] = change.split(' ').collect::<Vec<_>>()[..]
            {
                self.cursor = cursor.parse().unwrap();
                self.sequences.push(sequence.parse().unwrap());
                received += 1;
            }
            line.clear();
            if !is_killed && (received >= limit || self.sequences.last() == Some(&last)) {
                // The lines that are already in the pipe are still read.
                child.kill().unwrap();
                is_killed = true;
            }
        }
        child.wait().unwrap();
    }
}

/// Checks that the changes of each session have the order in which its writer made them.
fn assert_sessions_in_order(changes: &[Change]) {
    let mut sessions: HashMap<&SessionId, Vec<ChangeKind>> = HashMap::new();
    for change in changes {
        sessions
            .entry(&change.session)
            .or_default()
            .push(change.kind);
    }
    for (session, kinds) in sessions {
        let mut expected = vec![ChangeKind::SessionCreated];
        let turns = kinds.iter().filter_map(|kind| match kind {
            ChangeKind::TurnStarted { turn, .. } => Some(*turn),
            _ => None,
        });
        for (turn, number) in turns.zip(1..) {
            expected.extend([
                ChangeKind::TurnStarted { turn, number },
                ChangeKind::MessageSaved { turn, message: 1 },
                ChangeKind::TurnEnded { turn },
            ]);
        }
        assert_eq!(kinds, expected, "{session}");
    }
}

#[tokio::test]
async fn a_follower_that_is_killed_misses_and_repeats_no_change() {
    let change_count = read_env_number("SEGUE_FEED_CHANGES", 3000);
    let mut seed = u64::from(read_env_number("SEGUE_SEED", 1));
    let sessions_per_writer = change_count.div_ceil(WRITER_COUNT * CHANGES_PER_SESSION);
    let expected_count = u64::from(sessions_per_writer * WRITER_COUNT * CHANGES_PER_SESSION);
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    let start_writer = |n: u32| {
        start_child(
            "writer",
            directory.path(),
            &n.to_string(),
            sessions_per_writer,
        )
    };
    let writers: Vec<Child> = (0..WRITER_COUNT).map(start_writer).collect();
    let mut followed = FollowedFeed {
        cursor: FeedCursor::START,
        sequences: Vec::new(),
    };
    let mut kills = 0;
    while followed.sequences.last() != Some(&expected_count) {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let limit = 1 + usize::try_from((seed >> 33) % u64::from(change_count / 50 + 10)).unwrap();
        followed.follow_and_kill(directory.path(), limit, expected_count);
        kills += 1;
    }
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let expected: Vec<u64> = (1..=expected_count).collect();
    assert_eq!(
        followed.sequences, expected,
        "a gap, a repetition or a reordering"
    );
    assert_eq!(store.feed_end().await.unwrap(), followed.cursor);
    let changes = store.changes(FeedCursor::START, u32::MAX).await.unwrap();
    assert_eq!(changes.len(), expected.len());
    assert_sessions_in_order(&changes);
    assert!(kills > 10, "the follower was killed {kills} times only");
}
