//! A kill can't reveal a missing sync, so this watches the system calls of a whole turn: when the prompt goes
//! to the agent, the log has been synced since it was written there. (That every single write of the store is synced
//! before it is acknowledged is shown the same way in `segue-sqlite`.)

use crate::world;

#[test]
fn the_prompt_is_on_the_disk_before_it_is_sent() {
    let world = world();
    let trace = world.path().join("trace");
    let output = world
        .program("strace")
        .args([
            "-f",
            "-y",
            "-s",
            "8192",
            "-e",
            "trace=write,pwrite64,fsync,fdatasync",
            "-o",
        ])
        .arg(&trace)
        .arg(env!("CARGO_BIN_EXE_segue"))
        .args(["chat", "precious words"])
        .output()
        .expect("strace is needed; `cargo xtask test` installs it");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let trace = std::fs::read_to_string(trace).unwrap();
    let mut unsynced = false;
    let (mut written, mut sent) = (false, false);
    // A call that takes a while is told in two lines, with those of other threads between them.
    let mut syncing: Option<&str> = None;
    for line in trace.lines() {
        let thread = line.split(' ').next().unwrap_or_default();
        let log = line.contains("segue.db-wal>");
        let begun = log && (line.contains("fdatasync(") || line.contains("fsync("));
        if begun && line.contains("<unfinished") {
            syncing = Some(thread);
        }
        let ended = syncing == Some(thread) && line.contains("sync resumed>");
        let sync = begun || ended;
        // Who is at work in a session goes to the same log at any time, and need not be synced.
        if log && line.contains("write") && line.contains("precious words") {
            (written, unsynced) = (true, true);
        } else if sync && line.contains("= 0") {
            unsynced = false;
        } else if line.contains("session/prompt") && line.contains("write(") {
            assert!(
                !unsynced,
                "the prompt was sent before the log was synced:\n{trace}"
            );
            sent = true;
            break;
        }
    }
    assert!(sent, "the prompt was sent:\n{trace}");
    assert!(
        written,
        "the prompt was written to the log before:\n{trace}"
    );
}
