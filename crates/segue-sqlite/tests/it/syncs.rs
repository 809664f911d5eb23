//! Order of writes, syncs and acknowledgements, read from a trace of the system calls, because a kill cannot reveal a
//! missing sync. Every write of the store is synced to the disk before it is acknowledged. The write of a lease does
//! not wait for a sync, because no process owns a lease after a power failure.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use jiff::{SignedDuration, Timestamp};
use segue_core::agent::ProcessMark;
use segue_core::id::{ProviderId, SessionId};
use segue_core::session::{Message, Project, Role, Title, TurnState, Usage};
use segue_sqlite::SqliteStore;
use segue_store::{Draft, DraftKind, Entry, Finish, LeaseRequest, NewSession, Store};

/// Environment variable with the directory for the child's store. Without it the test `child` does nothing.
const CHILD: &str = "SEGUE_SYNC_CHILD";

fn acknowledge(what: &str) {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "ACK {what}").unwrap();
    stdout.flush().unwrap();
}

/// Runs in the child process: writes to the store, and prints an acknowledgement after each write has returned.
#[tokio::test]
async fn child() {
    let Some(directory) = std::env::var_os(CHILD) else {
        return;
    };
    let store = SqliteStore::open(Path::new(&directory)).unwrap();
    let at = Timestamp::UNIX_EPOCH;
    let id = SessionId::at(at, 1);
    let new = NewSession {
        id: id.clone(),
        project: Project {
            key: "k".into(),
            cwd: "/".into(),
        },
        title: Title::from_prompt("t"),
        purpose: None,
        provider: ProviderId::rehearsal(),
        at,
        unless: None,
    };
    store.create(new).await.unwrap();
    acknowledge("create");
    let request = LeaseRequest {
        session: id,
        owner: ProcessMark {
            host: "h".into(),
            pid: 1,
            started: "s".into(),
        },
        at,
        expires_after: SignedDuration::from_secs(9),
        dead_epoch: None,
    };
    let lease = store.acquire(request).await.unwrap().lease;
    acknowledge("acquire");
    let prompt = Message::text(Role::User, "go", at);
    let turn = store.begin_turn(&lease, &prompt).await.unwrap().id;
    acknowledge("begin_turn");
    for seq in 1..=20 {
        let words = "some words ".repeat(seq as usize * 40);
        let entry = if seq % 2 == 0 {
            let message = Message::text(Role::Assistant, words, at);
            Entry::Message { seq, message }
        } else {
            Entry::Draft(Draft {
                seq: seq + 1,
                kind: DraftKind::Text,
                text: words,
                at,
            })
        };
        store.append(&lease, turn, entry).await.unwrap();
        acknowledge("append");
    }
    let finish = Finish {
        state: TurnState::Finished,
        messages: Vec::new(),
        usage: Usage::default(),
        failure: None,
        at,
    };
    store.finish_turn(&lease, turn, finish).await.unwrap();
    acknowledge("finish_turn");
    store.release(&lease).await.unwrap();
    acknowledge("release");
}

/// Event that a line of the trace shows.
#[derive(Debug, PartialEq, Eq)]
enum Call {
    WroteLog,
    SyncedLog,
    Acknowledged,
    Claimed,
}

fn call(line: &str) -> Option<Call> {
    let log = line.contains("segue.db-wal>");
    if log && (line.contains("pwrite64(") || line.contains("write(")) {
        Some(Call::WroteLog)
    } else if log
        && (line.contains("fdatasync(") || line.contains("fsync("))
        && line.contains("= 0")
    {
        Some(Call::SyncedLog)
    } else if line.contains("\"ACK acquire") || line.contains("\"ACK release") {
        Some(Call::Claimed)
    } else if line.contains("\"ACK ") {
        Some(Call::Acknowledged)
    } else {
        None
    }
}

/// Returns the number of acknowledgements if each follows a write and its sync, and each acknowledgement of a lease
/// follows a write without a sync.
fn count_sound_acknowledgements(calls: &[Call]) -> Result<usize, &'static str> {
    let (mut wrote, mut synced, mut count) = (false, false, 0);
    for call in calls {
        match call {
            Call::WroteLog => (wrote, synced) = (true, false),
            Call::SyncedLog => synced = true,
            Call::Acknowledged | Call::Claimed if !wrote => {
                return Err("acknowledged without a write");
            }
            Call::Acknowledged if !synced => return Err("acknowledged before the sync"),
            Call::Claimed if synced => return Err("a claim waited for the disk"),
            Call::Acknowledged | Call::Claimed => {
                count += 1;
                (wrote, synced) = (false, false);
            }
        }
    }
    Ok(count)
}

#[test]
fn every_acknowledgement_comes_after_a_sync() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let output = Command::new("strace")
        .args([
            "-f",
            "-y",
            "-e",
            "trace=write,pwrite64,fsync,fdatasync",
            "-o",
        ])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "syncs::child", "--nocapture"])
        .env(CHILD, directory.path().join("store"))
        .output()
        .expect("strace is needed; `cargo xtask test` installs it");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // If calls of two threads overlap, strace prints each in two halves; `whole_calls` joins them at the second half.
    let trace = fs::read_to_string(trace).unwrap();
    let calls: Vec<Call> = whole_calls(&trace)
        .iter()
        .filter_map(|line| call(line))
        .collect();
    assert_eq!(count_sound_acknowledgements(&calls), Ok(25), "{calls:?}");
}

fn whole_calls(trace: &str) -> Vec<String> {
    let mut begun: Vec<(String, String)> = Vec::new();
    let mut whole = Vec::new();
    for line in trace.lines() {
        let thread = line
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned();
        if let Some(first) = line.strip_suffix(" <unfinished ...>") {
            begun.push((thread, first.to_owned()));
        } else if let Some((_, second)) = line.split_once(" resumed>") {
            let at = begun.iter().position(|(of, _)| *of == thread).unwrap();
            whole.push(format!("{}{second}", begun.remove(at).1));
        } else {
            whole.push(line.to_owned());
        }
    }
    whole
}

#[test]
fn the_watcher_notices_what_is_missing() {
    use Call::{Acknowledged, Claimed, SyncedLog, WroteLog};
    assert_eq!(
        count_sound_acknowledgements(&[WroteLog, SyncedLog, Acknowledged]),
        Ok(1)
    );
    assert!(count_sound_acknowledgements(&[WroteLog, Acknowledged, SyncedLog]).is_err());
    assert!(count_sound_acknowledgements(&[WroteLog, SyncedLog, WroteLog, Acknowledged]).is_err());
    assert!(count_sound_acknowledgements(&[SyncedLog, Acknowledged]).is_err());
    assert_eq!(count_sound_acknowledgements(&[WroteLog, Claimed]), Ok(1));
    assert!(count_sound_acknowledgements(&[Claimed]).is_err());
    assert!(count_sound_acknowledgements(&[WroteLog, SyncedLog, Claimed]).is_err());
    // The write after a lease must itself be synced; that sync also covers the lease.
    assert!(count_sound_acknowledgements(&[WroteLog, Claimed, WroteLog, Acknowledged]).is_err());
    let lines = [
        r#"12 pwrite64(5</x/segue.db-wal>, "...", 24, 0) = 24"#,
        r"12 fdatasync(5</x/segue.db-wal>) = 0",
        r#"11 write(1</dev/null>, "ACK append\n", 11) = 11"#,
    ];
    let calls: Vec<Call> = lines.iter().filter_map(|line| call(line)).collect();
    assert_eq!(calls, [WroteLog, SyncedLog, Acknowledged]);
}
