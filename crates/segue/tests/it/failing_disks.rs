//! Full, read-only and damaged disks: each failure gives a clear error and the right exit code and loses no data.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use insta::assert_snapshot;
use segue_testkit::{ProgramOutput, TestHome};

use crate::{count_sessions, new_test_home};

/// Runs segue with a maximum file size of `blocks` blocks of 512 bytes (1024 in some shells).
pub(crate) fn run_with_file_limit(home: &TestHome, blocks: u32, args: &[&str]) -> ProgramOutput {
    let mut command = home.program_command("sh");
    command
        .args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_segue"))
        .args(args);
    ProgramOutput::from_std(&command.output().unwrap(), home)
}

#[test]
fn a_full_disk_refuses_the_prompt_and_loses_no_saved_turn() {
    let home = new_test_home();
    // A kill leaves the log file; its size is the limit for the following commands.
    let mut events = home.start_chat(["rehearse: say kept; hang"]);
    while events.next_event().unwrap()["event"] != "text" {}
    let _ = events.kill();
    let wal = fs::metadata(home.segue_home().join("segue.db-wal"))
        .unwrap()
        .len();
    let blocks = u32::try_from(wal / 1024).unwrap();
    assert_snapshot!(run_with_file_limit(&home, blocks, &["chat", "--continue", "lost"]), @"
    --- stderr
    error: cannot write to store [HOME]/home/segue.db: the disk is full: disk I/O error
    hint: free disk space and retry; saved turns are safe
    --- exit 1
    ");
    let json = run_with_file_limit(&home, blocks, &["chat", "--json", "--continue", "lost"]);
    assert_eq!(json.code, Some(1), "{json}");
    assert!(json.stdout.contains("the disk is full"), "{json}");
    // Reading needs no space, and acknowledged data is complete.
    let transcript = run_with_file_limit(&home, blocks, &["session", "show", "latest"]);
    assert!(transcript.stdout.contains("kept"), "{transcript}");
    assert_eq!(
        home.run_segue_json(["chat", "--json", "--continue", "again"])["turn"],
        2
    );
    home.assert_no_processes();
}

#[test]
fn a_disk_that_fills_up_mid_turn_interrupts_the_turn() {
    let home = new_test_home();
    let _ = home.run_segue_json(["chat", "--json", "kept"]);
    let output = run_with_file_limit(
        &home,
        4000,
        &[
            "chat",
            "--continue",
            "rehearse: say small; tool; big 30mb; wait 5s",
        ],
    );
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert!(
        output.stderr.contains("the disk is full"),
        "{}",
        output.stderr
    );
    let transcript = home.run_segue_json(["session", "show", "--json", "latest"]);
    let turns = transcript["turns"].as_array().unwrap();
    assert_eq!(turns[0]["state"], "finished");
    assert_eq!(turns[1]["state"], "interrupted");
    assert!(
        turns[1]["messages"]
            .to_string()
            .contains("three lines of notes")
    );
    assert_eq!(
        home.run_segue_json(["chat", "--json", "--continue", "again"])["turn"],
        3
    );
    home.assert_no_processes();
}

#[test]
fn a_full_file_system_fails_with_a_disk_full_error() {
    let home = new_test_home();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=700k,mode=0700", "tmpfs"])
        .arg(create_segue_home(&home))
        .output()
        .unwrap();
    if !mount.status.success() {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI must run this test as root"
        );
        crate::print_to_stderr("NOT RUN: mounting a small file system needs root\n");
        return;
    }
    let mut failed = None;
    for n in 0..60 {
        let output = home.run_segue([
            "chat",
            "--continue",
            &format!("rehearse: big 20kb; say {n}"),
        ]);
        if output.code != Some(0) {
            failed = Some(output);
            break;
        }
    }
    let turns = home.run_segue_json(["session", "list", "--json"])[0]["turns"].clone();
    let output = Command::new("umount")
        .arg("-l")
        .arg(home.segue_home())
        .output()
        .unwrap();
    assert!(output.status.success());
    let failed = failed.expect("60 turns fit into 700 kB");
    assert!([Some(1), Some(3)].contains(&failed.code), "{failed}");
    assert!(
        failed.stderr.contains("disk is full") || failed.stderr.contains("No space left"),
        "{failed}"
    );
    assert!(turns.as_u64().unwrap() >= 1);
    home.assert_no_processes();
}

fn create_segue_home(home: &TestHome) -> std::path::PathBuf {
    fs::create_dir(home.segue_home()).unwrap();
    home.segue_home()
}

/// Runs segue as an unprivileged user, because file modes do not restrict root.
pub(crate) fn run_unprivileged(home: &TestHome, args: &[&str]) -> ProgramOutput {
    let program = home.path().join("segue");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_segue"), &program).unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = home.program_command("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program);
        command
    } else {
        home.program_command(&program)
    };
    ProgramOutput::from_std(&command.args(args).output().unwrap(), home)
}

/// Makes the files in segue's home readable, but not writable, for the user of [`run_unprivileged`].
pub(crate) fn make_segue_home_read_only(home: &TestHome) {
    let set_owner_and_mode = |path: &std::path::Path, mode| {
        if rustix::process::geteuid().is_root() {
            chown(path, Some(65534), Some(65534)).unwrap();
        }
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for entry in fs::read_dir(home.segue_home()).unwrap().flatten() {
        let mode = if entry.path().is_dir() { 0o500 } else { 0o400 };
        set_owner_and_mode(&entry.path(), mode);
    }
    set_owner_and_mode(&home.segue_home(), 0o500);
}

#[test]
fn a_read_only_home_refuses_prompts_and_can_be_read() {
    let home = new_test_home();
    let _ = home.run_segue_json(["chat", "--json", "kept"]);
    make_segue_home_read_only(&home);
    assert_snapshot!(run_unprivileged(&home, &["chat", "--continue", "lost"]), @"
    --- stderr
    error: cannot write to store [HOME]/home/segue.db: it is read-only: attempt to write a readonly database
    hint: make the directory writable, or set SEGUE_HOME to a writable directory
    --- exit 1
    ");
    // Existing sessions can still be read.
    let transcript = run_unprivileged(&home, &["session", "show", "latest"]);
    assert!(transcript.stdout.contains("kept"), "{transcript}");
}

#[test]
fn a_home_that_cannot_be_created_is_an_error() {
    let home = new_test_home();
    fs::write(home.segue_home(), "a file where the directory should be").unwrap();
    let output = home.run_segue(["chat", "hi"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(
        output
            .stderr
            .starts_with("error: cannot create store [HOME]/home/segue.db: "),
        "{output}"
    );
}

#[test]
fn a_file_that_is_not_a_store_is_rejected_unchanged() {
    let home = new_test_home();
    create_segue_home(&home);
    let garbage = "this is not a database\n".repeat(100);
    fs::write(home.segue_home().join("segue.db"), &garbage).unwrap();
    assert_snapshot!(home.run_segue(["chat", "hi"]), @"
    --- stderr
    error: store [HOME]/home/segue.db is damaged or not a segue store: file is not a database
    hint: restore a backup of [HOME]/home/segue.db, or move it away to start with an empty store; nothing was changed
    --- exit 1
    ");
    assert_snapshot!(home.run_segue(["session", "list"]).code.unwrap(), @"1");
    let doctor = home.run_segue(["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor}");
    assert!(doctor.stdout.contains("NOT healthy"), "{doctor}");
    assert_eq!(
        fs::read_to_string(home.segue_home().join("segue.db")).unwrap(),
        garbage,
        "the file was changed"
    );
}

#[test]
fn a_damaged_store_is_reported_without_a_panic() {
    let home = new_test_home();
    for _ in 0..5 {
        let _ = home.run_segue_json(["chat", "--json", "--continue", "rehearse: big 20kb"]);
    }
    // Move all data into the main file, then overwrite its middle.
    let path = home.segue_home().join("segue.db");
    execute_sql(&home, "PRAGMA wal_checkpoint(TRUNCATE)");
    let mut bytes = fs::read(&path).unwrap();
    let (start, end) = (bytes.len() / 4, bytes.len() * 3 / 4);
    bytes[start..end].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let _ = fs::remove_file(home.segue_home().join("segue.db-wal"));
    let _ = fs::remove_file(home.segue_home().join("segue.db-shm"));
    let doctor = home.run_segue(["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor}");
    let chat = home.run_segue(["chat", "--continue", "hi"]);
    assert!([Some(0), Some(1)].contains(&chat.code), "{chat}");
    assert!(!chat.stderr.contains("panicked"), "{chat}");
}

#[test]
fn a_store_with_a_newer_format_is_rejected() {
    let home = new_test_home();
    let _ = home.run_segue_json(["chat", "--json", "kept"]);
    let set_format = |version: u32| execute_sql(&home, &format!("PRAGMA user_version = {version}"));
    set_format(99);
    assert_snapshot!(home.run_segue(["chat", "--continue", "hi"]), @"
    --- stderr
    error: store [HOME]/home/segue.db has format 99; this segue supports up to 15
    hint: update segue, or set SEGUE_HOME to another directory
    --- exit 1
    ");
    assert_eq!(home.run_segue(["session", "list"]).code, Some(1));
    set_format(15);
    assert_eq!(count_sessions(&home), 1);
}

/// Runs an SQL statement on the store with Python instead of segue.
fn execute_sql(home: &TestHome, statement: &str) {
    let script = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute(sys.argv[2]); db.commit()";
    let mut python = home.program_command("python3");
    python.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    python
        .args(["-c", script])
        .arg(home.segue_home().join("segue.db"))
        .arg(statement);
    let output = python.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn all_files_in_the_home_are_private() {
    let home = new_test_home();
    let _ = home.run_segue_json(["chat", "--json", "secret"]);
    let _ = home.run_segue(["session", "list"]);
    let file_mode =
        |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(file_mode(&home.segue_home()), 0o700);
    let mut checked_files = 0;
    for entry in fs::read_dir(home.segue_home()).unwrap().flatten() {
        let expected = if entry.path().is_dir() { 0o700 } else { 0o600 };
        assert_eq!(file_mode(&entry.path()), expected, "{:?}", entry.path());
        checked_files += 1;
    }
    assert!(checked_files >= 4);
}
