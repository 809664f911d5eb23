//! Benchmark of complete segue processes, from start to exit.
//!
//! Run with `cargo bench -p segue-bench --bench process`; docs/benchmarks.md explains the table. `--fill DIRECTORY` only
//! creates the large store in a directory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints to standard output and panics on any unexpected result"
)]

use segue_bench::{create_temp_dir, segue_program};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use segue_core::agent::ProcessIdentity;
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::session::{Message, Project, Role, Session, Title, TurnState, Usage};
use segue_sqlite::{FILE_NAME, SqliteStore};
use segue_store::{LeaseRequest, NewLeg, NewSession, SettleEffects, Store, TurnEnding};
use tempfile::TempDir;
use tokio::task::JoinSet;

use segue_bench::measurement::{
    BenchmarkComparison, BenchmarkMode, Contestant, format_verdict, measure_rounds, print_table,
    quantile,
};

/// Program that does nothing; its time is the minimum for any process.
const BASELINE_PROGRAM: &str = "/bin/true";

const LIST_ARGS: [&str; 5] = ["session", "list", "--all", "--limit", "20"];

/// Number of sessions that the list shows; the small store has no more than these.
const LISTED_SESSIONS: u32 = 20;

/// Number of projects that the sessions are distributed over.
const PROJECT_COUNT: u32 = 50;

/// Number of sessions that are written concurrently. It is high so that they share commits.
const MAX_CONCURRENT_FILLS: usize = 256;

fn main() {
    let mode = BenchmarkMode::from_args();
    let (session_count, rounds, chats) = mode.pick((20_000, 300, 50), (100, 2, 2));
    let mut args = std::env::args().skip_while(|arg| arg != "--fill");
    if let Some(directory) = args.nth(1) {
        return fill_home(Path::new(&directory), session_count);
    }
    mode.print_smoke_warning();
    let (small, large, fresh) = (
        create_filled_home(LISTED_SESSIONS),
        create_filled_home(session_count),
        create_temp_dir(),
    );
    let used = create_used_home(&large, mode.pick(40, 1));
    let list_name =
        |store_description: &str| format!("segue {} ({store_description})", LIST_ARGS.join(" "));
    let mut quick = [
        Contestant::new(BASELINE_PROGRAM, || {
            measure_milliseconds(&mut baseline_command())
        }),
        Contestant::new("segue --version", || {
            measure_milliseconds(&mut segue_command(&small, &["--version"]))
        }),
        Contestant::new(list_name(&format!("{LISTED_SESSIONS} sessions")), || {
            measure_milliseconds(&mut segue_command(&small, &LIST_ARGS))
        }),
        Contestant::new(list_name(&format!("{session_count} sessions")), || {
            measure_milliseconds(&mut segue_command(&large, &LIST_ARGS))
        }),
        Contestant::new(list_name("the same, after chats"), || {
            measure_milliseconds(&mut segue_command(&used, &LIST_ARGS))
        }),
    ];
    measure_rounds(&mut quick, rounds);
    let mut slow = [
        Contestant::new(BASELINE_PROGRAM, || {
            measure_milliseconds(&mut baseline_command())
        }),
        Contestant::new("segue chat hello (rehearsal)", || {
            measure_milliseconds(&mut segue_command(&fresh, &["chat", "hello"]))
        }),
    ];
    measure_rounds(&mut slow, chats);
    print_results(&quick, &slow);
}

fn print_results(quick: &[Contestant<'_>; 5], slow: &[Contestant<'_>; 2]) {
    let [baseline, version, small, large, used] = quick;
    let [chat_baseline, chat] = slow;
    let no_target = |_: f64, _: f64| String::new();
    let at_most_10 = |median: f64, _: f64| format_verdict("at most 10 ms", median <= 10.0);
    let at_most_5_more = |_: f64, extra: f64| format_verdict("at most 5 ms more", extra <= 5.0);
    print_table(
        "Whole processes, from the call to the end",
        [
            "",
            "runs",
            "median",
            "90 of 100 within",
            "more than /bin/true",
            "aim",
        ],
        &[
            format_row(baseline, baseline, no_target),
            format_row(version, baseline, at_most_5_more),
            format_row(small, baseline, no_target),
            format_row(large, baseline, at_most_10),
            format_row(used, baseline, at_most_10),
            format_row(chat, chat_baseline, no_target),
        ],
    );
    let growth = BenchmarkComparison::from_rounds(large, small, |large, small| large / small);
    println!(
        "\nThe list of the large store takes {} times as long as that of the small one.",
        growth.format_cell()
    );
}

/// Formats the row of a contestant. `format_target` receives two medians in milliseconds: the time of the process and
/// its difference to the baseline.
fn format_row(
    contestant: &Contestant<'_>,
    baseline: &Contestant<'_>,
    format_target: impl Fn(f64, f64) -> String,
) -> [String; 6] {
    let extra =
        BenchmarkComparison::from_rounds(contestant, baseline, |own_value, baseline_value| {
            own_value - baseline_value
        });
    [
        contestant.name.clone(),
        contestant.values.len().to_string(),
        format!("{:.2} ms", contestant.median()),
        format!("{:.2} ms", quantile(&contestant.values, 0.9)),
        format!("{:.2} ms", extra.median),
        format_target(contestant.median(), extra.median),
    ]
}

/// Runs a process to its end and returns the elapsed milliseconds.
fn measure_milliseconds(command: &mut Command) -> f64 {
    let start = Instant::now();
    let status = command.status().unwrap();
    let elapsed = start.elapsed();
    assert!(status.success(), "{command:?}: {status}");
    elapsed.as_secs_f64() * 1e3
}

fn baseline_command() -> Command {
    with_null_streams(Command::new(BASELINE_PROGRAM))
}

/// Returns a command for the built binary with its own home and a cleared environment.
fn segue_command(home: &TempDir, args: &[&str]) -> Command {
    let mut command = with_null_streams(Command::new(segue_program()));
    command
        .args(args)
        .env("HOME", home.path())
        .env("SEGUE_HOME", home.path())
        .current_dir(home.path());
    command
}

fn with_null_streams(mut command: Command) -> Command {
    command
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Creates a home with `session_count` sessions of one turn each.
fn create_filled_home(session_count: u32) -> TempDir {
    let home = create_temp_dir();
    fill_home(home.path(), session_count);
    let output = segue_command(&home, &LIST_ARGS)
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    // An empty list would be fast for the wrong reason.
    assert!(lines.lines().count() > LISTED_SESSIONS as usize, "{lines}");
    home
}

/// Creates a store with `session_count` sessions of one turn each in a directory.
fn fill_home(directory: &Path, session_count: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(fill_store(directory, session_count));
}

/// Copies a store and adds `chats` chats to it, as in a store that is in use.
fn create_used_home(origin: &TempDir, chats: u32) -> TempDir {
    let home = create_temp_dir();
    fs::copy(origin.path().join(FILE_NAME), home.path().join(FILE_NAME)).unwrap();
    for _ in 0..chats {
        measure_milliseconds(&mut segue_command(&home, &["chat", "hello"]));
    }
    home
}

async fn fill_store(home: &Path, session_count: u32) {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(home).unwrap());
    let mut tasks = JoinSet::new();
    for number in 0..session_count {
        if tasks.len() == MAX_CONCURRENT_FILLS {
            tasks.join_next().await.unwrap().unwrap();
        }
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let session = store.create_session(new_session(number)).await.unwrap();
            write_turn(&*store, session).await;
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
}

fn new_session(number: u32) -> NewSession {
    let at = Timestamp::UNIX_EPOCH
        + SignedDuration::from_hours(480_000)
        + SignedDuration::from_mins(i64::from(number));
    let project = number % PROJECT_COUNT;
    NewSession {
        id: SessionId::from_timestamp(at, number),
        project: Project {
            key: format!("/src/app-{project}/.git"),
            cwd: format!("/src/app-{project}"),
        },
        title: Title::from_prompt(&format!("why does test {number} of the parser fail?")),
        purpose: None,
        provider: ProviderId::rehearsal(),
        at,
        conflict_filter: None,
    }
}

/// Writes one turn in the same steps as the engine: prompt, leg, attempt, answer.
async fn write_turn(store: &dyn Store, session: Session) {
    let at = session.created_at;
    let native_id = NativeId::parse(&format!("r-{}", session.id)).unwrap();
    let request = LeaseRequest {
        session: session.id,
        owner: ProcessIdentity {
            host: "here".into(),
            pid: 1,
            start_time: "then".into(),
        },
        expires_after: SignedDuration::from_mins(5),
        dead_epoch: None,
    };
    let lease = store.acquire_lease(request).await.unwrap().lease;
    let prompt = Message::from_text(Role::User, session.title.as_str(), at);
    let turn = store.start_turn(&lease, prompt.into()).await.unwrap().id;
    let leg = NewLeg {
        provider: session.provider,
        native_id: Some(native_id),
        at,
    };
    let leg = store.open_leg(&lease, leg).await.unwrap().id;
    store.begin_attempt(&lease, turn, leg, at).await.unwrap();
    let answer = Message::from_text(
        Role::Assistant,
        "because of a missing bracket. ".repeat(20),
        at,
    );
    let ending = TurnEnding {
        state: TurnState::Finished,
        messages: vec![(1, answer)],
        usage: Usage::default(),
        failure: None,
        at,
    };
    let effects = SettleEffects::default();
    store
        .settle_turn(&lease, turn, ending, effects)
        .await
        .unwrap();
    store.release_lease(&lease).await.unwrap();
}
