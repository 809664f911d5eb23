//! Order of writes, syncs and acknowledgements, read from a trace of the system calls, because a kill cannot reveal a
//! missing sync. Every write of the store is synced to the disk before it is acknowledged. The write of a lease does
//! not wait for a sync, because no process owns a lease after a power failure.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use jiff::{SignedDuration, Timestamp};
use segue_core::agent::ProcessIdentity;
use segue_core::id::{ProviderId, SessionId};
use segue_core::session::{Message, Project, Role, Title, TurnState, Usage};
use segue_sqlite::SqliteStore;
use segue_store::{
    Draft, DraftKind, LeaseRequest, NewSession, SettleEffects, Store, TurnEnding, TurnEntry,
};

/// Environment variable with the directory for the child's store. Without it the test `child` does nothing.
const CHILD_STORE_VARIABLE: &str = "SEGUE_SYNC_CHILD";

fn acknowledge(operation: &str) {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "ACK {operation}").unwrap();
    stdout.flush().unwrap();
}

/// Runs in the child process: writes to the store, and prints an acknowledgement after each write has returned.
#[tokio::test]
async fn child() {
    let Some(directory) = std::env::var_os(CHILD_STORE_VARIABLE) else {
        return;
    };
    let store: &dyn Store = &SqliteStore::open(Path::new(&directory)).unwrap();
    let at = Timestamp::UNIX_EPOCH;
    let id = SessionId::from_timestamp(at, 1);
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
        conflict_filter: None,
    };
    store.create_session(new).await.unwrap();
    acknowledge("create");
    let request = LeaseRequest {
        session: id,
        owner: ProcessIdentity {
            host: "h".into(),
            pid: 1,
            start_time: "s".into(),
        },
        expires_after: SignedDuration::from_secs(9),
        dead_epoch: None,
    };
    let lease = store.acquire_lease(request).await.unwrap().lease;
    acknowledge("acquire");
    let prompt = Message::from_text(Role::User, "go", at);
    let turn = store.start_turn(&lease, prompt.into()).await.unwrap().id;
    acknowledge("begin_turn");
    for seq in 1..=20 {
        let content = "some words ".repeat(seq as usize * 40);
        let entry = if seq % 2 == 0 {
            let message = Message::from_text(Role::Assistant, content, at);
            TurnEntry::Message { seq, message }
        } else {
            TurnEntry::Draft(Draft {
                seq: seq + 1,
                kind: DraftKind::Text,
                text: content,
                at,
            })
        };
        store.append_entry(&lease, turn, entry).await.unwrap();
        acknowledge("append");
    }
    let ending = TurnEnding {
        state: TurnState::Finished,
        messages: Vec::new(),
        usage: Usage::default(),
        failure: None,
        at,
    };
    store
        .settle_turn(&lease, turn, ending, SettleEffects::default())
        .await
        .unwrap();
    acknowledge("finish_turn");
    store.release_lease(&lease).await.unwrap();
    acknowledge("release");
}

/// Event that a line of the trace shows.
#[derive(Debug, PartialEq, Eq)]
enum TraceEvent {
    WalWritten,
    WalSynced,
    WriteAcknowledged,
    LeaseAcknowledged,
}

fn parse_trace_event(line: &str) -> Option<TraceEvent> {
    let is_wal = line.contains("segue.db-wal>");
    if is_wal && (line.contains("pwrite64(") || line.contains("write(")) {
        Some(TraceEvent::WalWritten)
    } else if is_wal
        && (line.contains("fdatasync(") || line.contains("fsync("))
        && line.contains("= 0")
    {
        Some(TraceEvent::WalSynced)
    } else if line.contains("\"ACK acquire") || line.contains("\"ACK release") {
        Some(TraceEvent::LeaseAcknowledged)
    } else if line.contains("\"ACK ") {
        Some(TraceEvent::WriteAcknowledged)
    } else {
        None
    }
}

/// Returns the number of acknowledgements if each follows a write and its sync, and each acknowledgement of a lease
/// follows a write without a sync.
fn count_sound_acknowledgements(events: &[TraceEvent]) -> Result<usize, &'static str> {
    let (mut wrote, mut synced, mut count) = (false, false, 0);
    for event in events {
        match event {
            TraceEvent::WalWritten => (wrote, synced) = (true, false),
            TraceEvent::WalSynced => synced = true,
            TraceEvent::WriteAcknowledged | TraceEvent::LeaseAcknowledged if !wrote => {
                return Err("acknowledged without a write");
            }
            TraceEvent::WriteAcknowledged if !synced => return Err("acknowledged before the sync"),
            TraceEvent::LeaseAcknowledged if synced => return Err("a claim waited for the disk"),
            TraceEvent::WriteAcknowledged | TraceEvent::LeaseAcknowledged => {
                count += 1;
                (wrote, synced) = (false, false);
            }
        }
    }
    Ok(count)
}

#[test]
fn every_acknowledgement_follows_a_sync() {
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
        .env(CHILD_STORE_VARIABLE, directory.path().join("store"))
        .output()
        .expect("strace is needed; `cargo xtask test` installs it");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // If calls of two threads overlap, strace prints each in two halves; `join_split_calls` joins them at the second
    // half.
    let trace = fs::read_to_string(trace).unwrap();
    let events: Vec<TraceEvent> = join_split_calls(&trace)
        .iter()
        .filter_map(|line| parse_trace_event(line))
        .collect();
    assert_eq!(count_sound_acknowledgements(&events), Ok(25), "{events:?}");
}

fn join_split_calls(trace: &str) -> Vec<String> {
    let mut unfinished: Vec<(String, String)> = Vec::new();
    let mut complete_lines = Vec::new();
    for line in trace.lines() {
        let thread = line
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned();
        if let Some(first) = line.strip_suffix(" <unfinished ...>") {
            unfinished.push((thread, first.to_owned()));
        } else if let Some((_, second)) = line.split_once(" resumed>") {
            let index = unfinished
                .iter()
                .position(|(started_on, _)| *started_on == thread)
                .unwrap();
            complete_lines.push(format!("{}{second}", unfinished.remove(index).1));
        } else {
            complete_lines.push(line.to_owned());
        }
    }
    complete_lines
}

#[test]
fn the_trace_check_detects_missing_syncs() {
    use TraceEvent::{LeaseAcknowledged, WalSynced, WalWritten, WriteAcknowledged};
    assert_eq!(
        count_sound_acknowledgements(&[WalWritten, WalSynced, WriteAcknowledged]),
        Ok(1)
    );
    assert!(count_sound_acknowledgements(&[WalWritten, WriteAcknowledged, WalSynced]).is_err());
    assert!(
        count_sound_acknowledgements(&[WalWritten, WalSynced, WalWritten, WriteAcknowledged])
            .is_err()
    );
    assert!(count_sound_acknowledgements(&[WalSynced, WriteAcknowledged]).is_err());
    assert_eq!(
        count_sound_acknowledgements(&[WalWritten, LeaseAcknowledged]),
        Ok(1)
    );
    assert!(count_sound_acknowledgements(&[LeaseAcknowledged]).is_err());
    assert!(count_sound_acknowledgements(&[WalWritten, WalSynced, LeaseAcknowledged]).is_err());
    // The write after a lease must itself be synced; that sync also covers the lease.
    assert!(
        count_sound_acknowledgements(&[
            WalWritten,
            LeaseAcknowledged,
            WalWritten,
            WriteAcknowledged
        ])
        .is_err()
    );
    let lines = [
        r#"12 pwrite64(5</x/segue.db-wal>, "...", 24, 0) = 24"#,
        r"12 fdatasync(5</x/segue.db-wal>) = 0",
        r#"11 write(1</dev/null>, "ACK append\n", 11) = 11"#,
    ];
    let events: Vec<TraceEvent> = lines
        .iter()
        .filter_map(|line| parse_trace_event(line))
        .collect();
    assert_eq!(events, [WalWritten, WalSynced, WriteAcknowledged]);
}
