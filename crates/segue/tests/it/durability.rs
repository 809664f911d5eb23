//! Durability of the prompt, checked with the system calls of a turn, because a kill cannot reveal a missing sync: the
//! store's log must be synced between the write of the prompt and its transmission to the agent. (A test in
//! `segue-sqlite` checks in the same way that each write is synced before it is acknowledged.)

use crate::new_test_home;

#[test]
fn a_prompt_is_synced_to_disk_before_it_is_sent() {
    let home = new_test_home();
    let trace = home.path().join("trace");
    let output = home
        .program_command("strace")
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
        .expect("strace is not installed; `cargo xtask test` installs it");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let trace = std::fs::read_to_string(trace).unwrap();
    let mut is_unsynced = false;
    let (mut is_written, mut is_sent) = (false, false);
    // strace prints a long call as two lines, with lines of other threads between them.
    let mut syncing_thread: Option<&str> = None;
    for line in trace.lines() {
        let thread = line.split(' ').next().unwrap_or_default();
        let is_log_line = line.contains("segue.db-wal>");
        let is_sync_start = is_log_line && (line.contains("fdatasync(") || line.contains("fsync("));
        if is_sync_start && line.contains("<unfinished") {
            syncing_thread = Some(thread);
        }
        let is_sync_end = syncing_thread == Some(thread) && line.contains("sync resumed>");
        let is_sync = is_sync_start || is_sync_end;
        // Heartbeats of the lease are written to the same log at any time and need no sync.
        if is_log_line && line.contains("write") && line.contains("precious words") {
            (is_written, is_unsynced) = (true, true);
        } else if is_sync && line.contains("= 0") {
            is_unsynced = false;
        } else if line.contains("session/prompt") && line.contains("write(") {
            assert!(
                !is_unsynced,
                "the prompt was sent before the log was synced:\n{trace}"
            );
            is_sent = true;
            break;
        }
    }
    assert!(is_sent, "the prompt was never sent:\n{trace}");
    assert!(
        is_written,
        "the prompt was not written to the log before it was sent:\n{trace}"
    );
}
