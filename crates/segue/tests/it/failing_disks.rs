//! Disks that are full, read-only or damaged: a clear error, the right exit code, nothing lost.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use insta::assert_snapshot;
use segue_testkit::{Output, World};

use crate::{count_sessions, world};

/// Runs segue with no file allowed to grow beyond this many blocks of 512 bytes (1024 in some shells).
pub(crate) fn with_file_limit(world: &World, blocks: u32, args: &[&str]) -> Output {
    let mut command = world.program("sh");
    command
        .args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_segue"))
        .args(args);
    Output::from(&command.output().unwrap(), world)
}

#[test]
fn a_disk_that_is_full_before_the_prompt() {
    let world = world();
    // A kill leaves the log behind, and with it the size beyond which nothing may grow.
    let mut events = world.events(["rehearse: say kept; hang"]);
    while events.next_event().unwrap()["event"] != "text" {}
    let _ = events.kill();
    let wal = fs::metadata(world.home().join("segue.db-wal"))
        .unwrap()
        .len();
    let blocks = u32::try_from(wal / 1024).unwrap();
    assert_snapshot!(with_file_limit(&world, blocks, &["chat", "--continue", "lost"]), @"
    --- stderr
    error: cannot write to the store [WORLD]/home/segue.db: the disk is full: disk I/O error
    hint: free some space; what was acknowledged before is safe, what was not is not there
    --- exit 1
    ");
    let json = with_file_limit(&world, blocks, &["chat", "--json", "--continue", "lost"]);
    assert_eq!(json.code, Some(1), "{json}");
    assert!(json.stdout.contains("the disk is full"), "{json}");
    // Reading needs no room, and what was acknowledged is there.
    let shown = with_file_limit(&world, blocks, &["session", "show", "latest"]);
    assert!(shown.stdout.contains("kept"), "{shown}");
    assert_eq!(
        world.json(["chat", "--json", "--continue", "again"])["turn"],
        2
    );
    world.assert_nothing_runs();
}

#[test]
fn a_disk_that_fills_up_in_the_middle_of_a_turn() {
    let world = world();
    let _ = world.json(["chat", "--json", "kept"]);
    let output = with_file_limit(
        &world,
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
    let shown = world.json(["session", "show", "--json", "latest"]);
    let turns = shown["turns"].as_array().unwrap();
    assert_eq!(turns[0]["state"], "finished");
    assert_eq!(turns[1]["state"], "interrupted");
    assert!(
        turns[1]["messages"]
            .to_string()
            .contains("three lines of notes")
    );
    assert_eq!(
        world.json(["chat", "--json", "--continue", "again"])["turn"],
        3
    );
    world.assert_nothing_runs();
}

#[test]
fn a_small_disk_that_is_really_full() {
    let world = world();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=700k,mode=0700", "tmpfs"])
        .arg(make_home(&world))
        .output()
        .unwrap();
    if !mount.status.success() {
        assert!(std::env::var_os("CI").is_none(), "CI must run this as root");
        crate::say("NOT RUN: mounting a small file system needs root\n");
        return;
    }
    let mut failed = None;
    for n in 0..60 {
        let output = world.segue([
            "chat",
            "--continue",
            &format!("rehearse: big 20kb; say {n}"),
        ]);
        if output.code != Some(0) {
            failed = Some(output);
            break;
        }
    }
    let turns = world.json(["session", "list", "--json"])[0]["turns"].clone();
    let output = Command::new("umount")
        .arg("-l")
        .arg(world.home())
        .output()
        .unwrap();
    assert!(output.status.success());
    let failed = failed.expect("700 kB hold no 60 turns");
    assert!([Some(1), Some(3)].contains(&failed.code), "{failed}");
    assert!(
        failed.stderr.contains("disk is full") || failed.stderr.contains("No space left"),
        "{failed}"
    );
    assert!(turns.as_u64().unwrap() >= 1);
    world.assert_nothing_runs();
}

fn make_home(world: &World) -> std::path::PathBuf {
    fs::create_dir(world.home()).unwrap();
    world.home()
}

/// Runs segue as a user to whom the modes of files mean something; root may write everywhere.
pub(crate) fn as_nobody(world: &World, args: &[&str]) -> Output {
    let program = world.path().join("segue");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_segue"), &program).unwrap();
        fs::set_permissions(world.path(), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = world.program("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program);
        command
    } else {
        world.program(&program)
    };
    Output::from(&command.args(args).output().unwrap(), world)
}

/// Gives everything in the home to the user of [`as_nobody`], without the right to change it.
pub(crate) fn make_read_only(world: &World) {
    let hand_over = |path: &std::path::Path, mode| {
        if rustix::process::geteuid().is_root() {
            chown(path, Some(65534), Some(65534)).unwrap();
        }
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for entry in fs::read_dir(world.home()).unwrap().flatten() {
        let mode = if entry.path().is_dir() { 0o500 } else { 0o400 };
        hand_over(&entry.path(), mode);
    }
    hand_over(&world.home(), 0o500);
}

#[test]
fn a_home_that_is_read_only() {
    let world = world();
    let _ = world.json(["chat", "--json", "kept"]);
    make_read_only(&world);
    assert_snapshot!(as_nobody(&world, &["chat", "--continue", "lost"]), @"
    --- stderr
    error: cannot write to the store [WORLD]/home/segue.db: it is read-only: attempt to write a readonly database
    hint: make the directory writable, or set SEGUE_HOME to one that is
    --- exit 1
    ");
    // What is there can still be read.
    let shown = as_nobody(&world, &["session", "show", "latest"]);
    assert!(shown.stdout.contains("kept"), "{shown}");
}

#[test]
fn a_home_that_can_not_be_made() {
    let world = world();
    fs::write(world.home(), "a file where the directory should be").unwrap();
    let output = world.segue(["chat", "hi"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(
        output
            .stderr
            .starts_with("error: cannot make the store [WORLD]/home/segue.db: "),
        "{output}"
    );
}

#[test]
fn a_file_that_is_not_a_store() {
    let world = world();
    make_home(&world);
    let garbage = "this is not a database, whatever its name says\n".repeat(100);
    fs::write(world.home().join("segue.db"), &garbage).unwrap();
    assert_snapshot!(world.segue(["chat", "hi"]), @"
    --- stderr
    error: the store [WORLD]/home/segue.db is damaged or is not a store: file is not a database
    hint: nothing was changed; move [WORLD]/home/segue.db away to start with an empty store, or restore a copy of it
    --- exit 1
    ");
    assert_snapshot!(world.segue(["session", "list"]).code.unwrap(), @"1");
    let doctor = world.segue(["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor}");
    assert!(doctor.stdout.contains("NOT healthy"), "{doctor}");
    assert_eq!(
        fs::read_to_string(world.home().join("segue.db")).unwrap(),
        garbage,
        "it is left as it was"
    );
}

#[test]
fn a_store_that_is_damaged_inside() {
    let world = world();
    for _ in 0..5 {
        let _ = world.json(["chat", "--json", "--continue", "rehearse: big 20kb"]);
    }
    // Put everything into the main file, then overwrite its middle.
    let path = world.home().join("segue.db");
    execute(&world, "PRAGMA wal_checkpoint(TRUNCATE)");
    let mut bytes = fs::read(&path).unwrap();
    let (start, end) = (bytes.len() / 4, bytes.len() * 3 / 4);
    bytes[start..end].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let _ = fs::remove_file(world.home().join("segue.db-wal"));
    let _ = fs::remove_file(world.home().join("segue.db-shm"));
    let doctor = world.segue(["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor}");
    let chat = world.segue(["chat", "--continue", "hi"]);
    assert!([Some(0), Some(1)].contains(&chat.code), "no panic: {chat}");
    assert!(!chat.stderr.contains("panicked"), "{chat}");
}

#[test]
fn a_store_of_a_newer_segue() {
    let world = world();
    let _ = world.json(["chat", "--json", "kept"]);
    let set = |version: u32| execute(&world, &format!("PRAGMA user_version = {version}"));
    set(99);
    assert_snapshot!(world.segue(["chat", "--continue", "hi"]), @"
    --- stderr
    error: the store [WORLD]/home/segue.db has format 99, and this segue knows only up to 12
    hint: update segue, or set SEGUE_HOME to another directory
    --- exit 1
    ");
    assert_eq!(world.segue(["session", "list"]).code, Some(1));
    set(12);
    assert_eq!(count_sessions(&world), 1);
}

/// Runs a statement on the store with another program than ours.
fn execute(world: &World, statement: &str) {
    let script = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute(sys.argv[2]); db.commit()";
    let mut python = world.program("python3");
    python.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    python
        .args(["-c", script])
        .arg(world.home().join("segue.db"))
        .arg(statement);
    let output = python.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn everything_is_private() {
    let world = world();
    let _ = world.json(["chat", "--json", "secret"]);
    let _ = world.segue(["session", "list"]);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&world.home()), 0o700);
    let mut looked_at = 0;
    for entry in fs::read_dir(world.home()).unwrap().flatten() {
        let expected = if entry.path().is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&entry.path()), expected, "{:?}", entry.path());
        looked_at += 1;
    }
    assert!(looked_at >= 4);
}
