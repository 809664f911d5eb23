//! What a whole process costs, from the call to its end.
//!
//! `cargo bench -p segue --bench process`; docs/benchmarks.md explains the table.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark speaks on standard output and stops at the first surprise"
)]

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
use segue_store::{TurnEnding, LeaseRequest, NewLeg, NewSession, Store};
use tempfile::TempDir;
use tokio::task::JoinSet;

use segue_testkit::benchmark::{
    BenchmarkComparison, Contestant, BenchmarkMode, print_table, quantile, measure_rounds, format_verdict,
};

/// The least that a process can do.
const NOTHING: &str = "/bin/true";

/// What is listed, and how.
const LIST: [&str; 5] = ["session", "list", "--all", "--limit", "20"];

/// How many sessions a list shows; a store with no more than these is small.
const LISTED: u32 = 20;

/// How many projects the sessions are spread over.
const PROJECTS: u32 = 50;

/// How many sessions are filled in at a time; many, so that they share commits.
const FILLED_TOGETHER: usize = 256;

fn main() {
    let extent = BenchmarkMode::from_args();
    extent.print_smoke_warning();
    let (many, rounds, chats) = extent.pick((20_000, 300, 50), (100, 2, 2));
    let (small, large, fresh) = (filled_home(LISTED), filled_home(many), home());
    let used = used_home(&large, extent.pick(40, 1));
    let list = |of: &str| format!("segue {} ({of})", LIST.join(" "));
    let mut quick = [
        Contestant::new(NOTHING, || run(&mut nothing())),
        Contestant::new("segue --version", || {
            run(&mut segue(&small, &["--version"]))
        }),
        Contestant::new(list(&format!("{LISTED} sessions")), || {
            run(&mut segue(&small, &LIST))
        }),
        Contestant::new(list(&format!("{many} sessions")), || {
            run(&mut segue(&large, &LIST))
        }),
        Contestant::new(list("the same, after chats"), || {
            run(&mut segue(&used, &LIST))
        }),
    ];
    measure_rounds(&mut quick, rounds);
    let mut slow = [
        Contestant::new(NOTHING, || run(&mut nothing())),
        Contestant::new("segue chat hello (rehearsal)", || {
            run(&mut segue(&fresh, &["chat", "hello"]))
        }),
    ];
    measure_rounds(&mut slow, chats);
    print(&quick, &slow);
}

fn print(quick: &[Contestant<'_>; 5], slow: &[Contestant<'_>; 2]) {
    let [nothing, version, small, large, used] = quick;
    let [nothing_again, chat] = slow;
    let no_aim = |_: f64, _: f64| String::new();
    let at_most_10 = |whole: f64, _: f64| format_verdict("at most 10 ms", whole <= 10.0);
    let at_most_5_more = |_: f64, more: f64| format_verdict("at most 5 ms more", more <= 5.0);
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
            row(nothing, nothing, no_aim),
            row(version, nothing, at_most_5_more),
            row(small, nothing, no_aim),
            row(large, nothing, at_most_10),
            row(used, nothing, at_most_10),
            row(chat, nothing_again, no_aim),
        ],
    );
    let growth = BenchmarkComparison::from_rounds(large, small, |large, small| large / small);
    println!(
        "\nThe list of the large store takes {} times as long as that of the small one.",
        growth.format_cell()
    );
}

/// `aim` judges by the median of the whole and of what it is more than nothing, in milliseconds.
fn row(
    contestant: &Contestant<'_>,
    nothing: &Contestant<'_>,
    aim: impl Fn(f64, f64) -> String,
) -> [String; 6] {
    let more = BenchmarkComparison::from_rounds(contestant, nothing, |one, other| one - other);
    [
        contestant.name.clone(),
        contestant.values.len().to_string(),
        format!("{:.2} ms", contestant.median()),
        format!("{:.2} ms", quantile(&contestant.values, 0.9)),
        format!("{:.2} ms", more.median),
        aim(contestant.median(), more.median),
    ]
}

/// Runs a process to its end, and returns the milliseconds it took.
fn run(command: &mut Command) -> f64 {
    let start = Instant::now();
    let status = command.status().unwrap();
    let took = start.elapsed();
    assert!(status.success(), "{command:?}: {status}");
    took.as_secs_f64() * 1e3
}

fn nothing() -> Command {
    quiet(Command::new(NOTHING))
}

/// The binary as built, with a home of its own and nothing else from this environment.
fn segue(home: &TempDir, args: &[&str]) -> Command {
    let mut command = quiet(Command::new(env!("CARGO_BIN_EXE_segue")));
    command
        .args(args)
        .env("HOME", home.path())
        .env("SEGUE_HOME", home.path())
        .current_dir(home.path());
    command
}

fn quiet(mut command: Command) -> Command {
    command
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// A directory on the disk that the build is on; the usual one for temporary files may be memory.
fn home() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A home with so many sessions of one turn each.
fn filled_home(sessions: u32) -> TempDir {
    let home = home();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(fill(home.path(), sessions));
    let listed = segue(&home, &LIST).stdout(Stdio::piped()).output().unwrap();
    let lines = String::from_utf8(listed.stdout).unwrap();
    // A list that is empty for some reason would be quick for the wrong one.
    assert!(lines.lines().count() > LISTED as usize, "{lines}");
    home
}

/// A copy of a store in which some chats were had since, as in a store that is in use.
fn used_home(origin: &TempDir, chats: u32) -> TempDir {
    let home = home();
    fs::copy(origin.path().join(FILE_NAME), home.path().join(FILE_NAME)).unwrap();
    for _ in 0..chats {
        run(&mut segue(&home, &["chat", "hello"]));
    }
    home
}

async fn fill(home: &Path, sessions: u32) {
    let store = Arc::new(SqliteStore::open(home).unwrap());
    let mut filling = JoinSet::new();
    for number in 0..sessions {
        if filling.len() == FILLED_TOGETHER {
            filling.join_next().await.unwrap().unwrap();
        }
        let store = Arc::clone(&store);
        filling.spawn(async move {
            let session = store.create_session(new_session(number)).await.unwrap();
            write_turn(&store, session).await;
        });
    }
    while let Some(filled) = filling.join_next().await {
        filled.unwrap();
    }
}

fn new_session(number: u32) -> NewSession {
    let at = Timestamp::UNIX_EPOCH
        + SignedDuration::from_hours(480_000)
        + SignedDuration::from_mins(i64::from(number));
    let project = number % PROJECTS;
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

/// One turn as the engine writes it: prompt, leg, attempt, answer.
async fn write_turn(store: &SqliteStore, session: Session) {
    let at = session.created_at;
    let native_id = NativeId::parse(&format!("r-{}", session.id)).unwrap();
    let request = LeaseRequest {
        session: session.id,
        owner: ProcessIdentity {
            host: "here".into(),
            pid: 1,
            start_time: "then".into(),
        },
        at,
        expires_after: SignedDuration::from_mins(5),
        dead_epoch: None,
    };
    let lease = store.acquire_lease(request).await.unwrap().lease;
    let prompt = Message::from_text(Role::User, session.title.as_str(), at);
    let turn = store.begin_turn(&lease, &prompt).await.unwrap().id;
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
    let finish = TurnEnding {
        state: TurnState::Finished,
        messages: vec![(1, answer)],
        usage: Usage::default(),
        failure: None,
        at,
    };
    store.finish_turn(&lease, turn, finish).await.unwrap();
    store.release_lease(&lease).await.unwrap();
}
