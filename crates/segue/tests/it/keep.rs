//! `segue session delete`, `forget`, `archive` and `restore` with sessions that agents keep.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use insta::assert_snapshot;
use segue_testkit::{Output, World};
use serde_json::{Value, json};

use crate::failing_disks::{as_nobody, make_read_only, with_file_limit};
use crate::world;

const SAMPLE: &str = include_str!("../../../segue-catalog/tests/it/samples/claude.jsonl");
const ID: &str = "0b5e4c3a-1111-4222-8333-444455556666";
const NAME: &str = "claude:0b5e4c3a-1111-4222-8333-444455556666";

/// A world in which Claude Code has a session, and files that go with it.
fn with_session() -> World {
    let world = world();
    put(&world, ID);
    world
}

fn put(world: &World, id: &str) {
    let cwd = world.project().display().to_string();
    let text = SAMPLE
        .replace(ID, id)
        .replace("\"/w\"", &format!("{cwd:?}"));
    let main = projects(world).join(format!("{id}.jsonl"));
    for (path, text) in [
        (main, text.as_str()),
        (
            projects(world).join(format!("{id}/tool-results/a.txt")),
            "what a tool said\n",
        ),
        (
            world
                .path()
                .join(format!(".claude/todos/{id}-agent-{id}.json")),
            "[]",
        ),
    ] {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        age(&path, 3);
    }
}

/// Makes a file so many days old.
fn age(path: &Path, days: u64) {
    let then = SystemTime::now() - Duration::from_secs(days * 86_400);
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(then).unwrap();
}

fn projects(world: &World) -> PathBuf {
    world.path().join(".claude/projects/-p")
}

/// Everything that Claude Code has, with when it was written.
fn everything(directory: &Path) -> Vec<(PathBuf, Vec<u8>, SystemTime)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(everything(&path));
        } else {
            let written = fs::metadata(&path).unwrap().modified().unwrap();
            all.push((path.clone(), fs::read(&path).unwrap(), written));
        }
    }
    all.sort();
    all
}

fn claude(world: &World) -> Vec<(PathBuf, Vec<u8>, SystemTime)> {
    everything(&world.path().join(".claude"))
}

#[test]
fn a_native_session_is_deleted_and_brought_back() {
    let world = with_session();
    let before = claude(&world);
    assert_snapshot!(world.segue(["session", "delete", "--dry-run", "0b5e"]), @"
    Would delete claude:0b5e4c3a-1111-4222-8333-444455556666 by removing its files, after a copy went to the trash:
      [WORLD]/.claude/projects/-p/0b5e4c3a-1111-4222-8333-444455556666.jsonl
      [WORLD]/.claude/projects/-p/0b5e4c3a-1111-4222-8333-444455556666/tool-results/a.txt
      [WORLD]/.claude/todos/0b5e4c3a-1111-4222-8333-444455556666-agent-0b5e4c3a-1111-4222-8333-444455556666.json
    --- exit 0
    ");
    assert_snapshot!(world.segue(["session", "delete", "0b5e"]), @"
    --- stderr
    error: deleting needs a confirmation, and there is no terminal to ask on
    hint: add --yes
    --- exit 2
    ");
    assert_eq!(claude(&world), before);
    assert!(!world.home().join("trash").exists());

    assert_snapshot!(world.segue(["session", "delete", "--yes", "0b5e"]), @"
    Deleted claude:0b5e4c3a-1111-4222-8333-444455556666 (Shopping).
    claude:0b5e4c3a-1111-4222-8333-444455556666 is in the trash; `segue session restore claude:0b5e4c3a-1111-4222-8333-444455556666` brings it back.
    --- exit 0
    ");
    assert_eq!(claude(&world), []);
    assert_eq!(crate::count_sessions(&world), 0);
    let again = world.segue(["session", "delete", "--yes", NAME]);
    let deleted = format!("error: {NAME} is deleted already; a copy is in [WORLD]/home/trash/");
    assert!(
        again.stderr.starts_with(&deleted) && again.code == Some(1),
        "{again}"
    );
    let copies = world.json(["session", "archive", "--list", "--json"]);
    assert_eq!(copies[0]["kept"], "trash");
    assert_eq!(copies[0]["turns"], 3);
    assert_eq!(copies[0]["files"].as_array().unwrap().len(), 3);

    assert_snapshot!(world.segue(["session", "restore", "0b5e"]), @r#"
    Restored claude:0b5e4c3a-1111-4222-8333-444455556666 (Shopping) from the trash.
      [WORLD]/.claude/projects/-p/0b5e4c3a-1111-4222-8333-444455556666.jsonl
      [WORLD]/.claude/projects/-p/0b5e4c3a-1111-4222-8333-444455556666/tool-results/a.txt
      [WORLD]/.claude/todos/0b5e4c3a-1111-4222-8333-444455556666-agent-0b5e4c3a-1111-4222-8333-444455556666.json
    Go on with: claude --resume 0b5e4c3a-1111-4222-8333-444455556666   or: segue chat --resume claude:0b5e4c3a-1111-4222-8333-444455556666 "…"
    --- exit 0
    "#);
    assert_eq!(claude(&world), before);
    assert_snapshot!(world.segue(["session", "restore", "0b5e"]), @r#"
    --- stderr
    error: there is no copy of a session "0b5e", neither in the archive nor in the trash
    hint: `segue session archive --list` shows all copies
    --- exit 1
    "#);
}

#[test]
fn what_is_purged_is_gone_with_all_copies() {
    let world = with_session();
    let _ = world.json(["session", "archive", "--json", NAME]);
    let _ = world.json(["session", "delete", "--yes", "--json", NAME]);
    let _ = world.json(["session", "restore", "--json", NAME]);
    let _ = world.json(["session", "delete", "--yes", "--json", NAME]);
    // In the trash and in the archive; the latter is still listed.
    assert_eq!(crate::count_sessions(&world), 1);
    assert_snapshot!(world.segue(["session", "delete", "--yes", NAME]).stdout.lines().next().unwrap(), @"Deleted claude:0b5e4c3a-1111-4222-8333-444455556666 (Shopping).");
    assert_eq!(crate::count_sessions(&world), 0);
    let copies = world.json(["session", "archive", "--list", "--json"]);
    assert_eq!(copies.as_array().unwrap().len(), 2, "{copies:#}");
    assert_snapshot!(world.segue(["session", "delete", "--purge", "--yes", NAME]), @"
    Removed what was kept of claude:0b5e4c3a-1111-4222-8333-444455556666.
    --- exit 0
    ");
    assert_eq!(
        world.json(["session", "archive", "--list", "--json"]),
        json!([])
    );

    put(&world, ID);
    let _ = world.json(["session", "archive", "--json", NAME]);
    let deleted = world.json(["session", "delete", "--purge", "--yes", "--json", NAME]);
    assert_eq!(deleted["native"][0]["copy"], Value::Null);
    assert_eq!(
        world.json(["session", "archive", "--list", "--json"]),
        json!([])
    );
    assert_eq!(claude(&world), []);
}

#[test]
fn an_archived_session_is_listed_shown_and_gone_on_with_once_it_is_gone() {
    let world = with_session();
    let shown = world.segue(["session", "show", NAME]).stdout;
    let archived = world.segue(["session", "archive", "latest"]);
    assert!(
        archived
            .stdout
            .starts_with(&format!("Archived {NAME} (Shopping): ")),
        "{archived}"
    );
    assert_snapshot!(world.segue(["session", "archive", "latest"]), @"
    claude:0b5e4c3a-1111-4222-8333-444455556666 (Shopping) is already archived as it is.
    --- exit 0
    ");
    fs::remove_dir_all(world.path().join(".claude")).unwrap();
    let listed = world.json(["session", "list", "--json"]);
    assert_eq!(listed[0]["status"], "archived", "{listed:#}");
    assert_eq!(listed[0]["title"], "Shopping");
    let kept = shown.replace(" · kept by claude\n", " · only in segue's archive\n");
    assert_ne!(kept, shown);
    assert_eq!(world.segue(["session", "show", NAME]).stdout, kept);
    let info = world.segue(["session", "info", NAME]).stdout;
    let info: Vec<&str> = info.lines().rev().take(2).collect();
    assert_eq!(
        info,
        [
            "claude does not have this session any more; it is in segue's archive",
            "go on     segue session restore claude:0b5e4c3a-1111-4222-8333-444455556666   (gives it back to claude)",
        ]
    );
    assert_eq!(
        world.json(["session", "info", "--json", "0b5e"])["session"]["turns"],
        3
    );
    // Its agent is not even on this machine, but what it had comes back.
    let restored = world.json(["session", "restore", "--json", NAME]);
    assert_eq!(restored["files"].as_array().unwrap().len(), 3);
    let again = world.json(["session", "restore", "--json", NAME]);
    assert_eq!(again["unchanged"].as_array().unwrap().len(), 3);
    let listed = world.json(["session", "list", "--json"]);
    assert_eq!(listed[0]["status"], "idle", "{listed:#}");
}

#[test]
fn many_are_archived_at_once_by_age() {
    let world = with_session();
    put(&world, "aaaaaaaa-1111-4222-8333-444455556666");
    let new = "bbbbbbbb-1111-4222-8333-444455556666";
    put(&world, new);
    let path = projects(&world).join(format!("{new}.jsonl"));
    let text = fs::read_to_string(&path).unwrap();
    let today = jiff::Timestamp::now().strftime("%Y-%m-%dT").to_string();
    fs::write(&path, text.replace("2026-01-02T", &today)).unwrap();
    let all = |args: &[&str]| world.segue([&["session", "archive", "--all"], args].concat());
    assert!(
        all(&["--older-than", "2d", "--dry-run"])
            .stdout
            .contains("Would archive claude:aaaaaaaa")
    );
    assert!(!world.home().join("archive").exists());
    let done = all(&["--older-than", "2d", "-p", "claude"]);
    assert!(
        done.stdout.ends_with("2 archived, 0 as before.\n"),
        "{done}"
    );
    let done = all(&["-p", "claude"]);
    assert!(
        done.stdout.ends_with("1 archived, 2 as before.\n"),
        "{done}"
    );
    assert_snapshot!(all(&["-p", "clod"]), @"
    --- stderr
    error: nobody here is called clod
    hint: there are: claude, codex, gemini, opencode, rehearsal
    --- exit 2
    ");
    assert_snapshot!(all(&["--older-than", "soon"]), @r#"
    --- stderr
    error: "soon" is not a time
    hint: write a time such as 2025-12-07T14:30:22Z, a day such as 2025-12-07, `today` or `yesterday`, or how long ago: 30m, 12h, 7d, 2w, 6mo, 1y
    --- exit 2
    "#);
    assert_snapshot!(world.segue(["session", "restore", "claude:"]).stderr.lines().next().unwrap(), @r#"error: "claude:" matches 3 sessions"#);
}

#[test]
fn a_session_that_somebody_is_at_work_in_stays() {
    let world = with_session();
    let before = claude(&world);
    let open = File::open(projects(&world).join(format!("{ID}.jsonl"))).unwrap();
    let mut sleep = world.program("sleep");
    let mut child = sleep.arg("600").stdin(Stdio::from(open)).spawn().unwrap();
    let refused = world.segue(["session", "delete", "--yes", NAME]);
    let planned = world.json(["session", "delete", "--dry-run", "--json", NAME]);
    assert_eq!(planned["native"][0]["in_use_by"], child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_snapshot!(refused, @"
    --- stderr
    error: claude:0b5e4c3a-1111-4222-8333-444455556666 is in use by process [PID] (sleep)
    hint: end it first, or go on there; nothing was changed
    --- exit 1
    ");
    assert_eq!(claude(&world), before);
    assert!(!world.home().join("trash").exists());
    // Written a moment ago is told, and no reason to refuse.
    let main = projects(&world).join(format!("{ID}.jsonl"));
    fs::write(&main, fs::read(&main).unwrap()).unwrap();
    let done = world.segue(["session", "delete", "--yes", NAME]);
    assert!(
        done.stderr
            .contains(" s ago; an agent that is still at work"),
        "{done}"
    );
    assert_eq!(done.code, Some(0));
}

#[test]
fn a_session_that_its_own_program_is_at_work_in_is_not_opened_twice() {
    let world = with_session();
    let mut other = world.program("sh");
    other.args(["-c", "read x", "claude", "--resume", ID]);
    let mut child = other.stdin(Stdio::piped()).spawn().unwrap();
    let refused = world.segue(["session", "resume", "--print", NAME]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_snapshot!(refused, @"
    --- stderr
    error: claude:0b5e4c3a-1111-4222-8333-444455556666 can't go on in the agent's own program: process [PID] (sh) is at work in it
    hint: go on there, or end it first
    --- exit 1
    ");
}

#[test]
fn what_differs_is_never_written_over() {
    let world = with_session();
    let _ = world.json(["session", "archive", "--json", NAME]);
    let main = projects(&world).join(format!("{ID}.jsonl"));
    fs::write(&main, "somebody else's\n").unwrap();
    fs::remove_dir_all(projects(&world).join(ID)).unwrap();
    let before = claude(&world);
    assert_snapshot!(world.segue(["session", "restore", NAME]), @"
    --- stderr
    error: [WORLD]/.claude/projects/-p/0b5e4c3a-1111-4222-8333-444455556666.jsonl is there already, and differs
    hint: nothing was put back; move that away first, or go on with what is there
    --- exit 1
    ");
    assert_eq!(claude(&world), before);
}

#[test]
fn a_full_disk_loses_nothing() {
    let world = with_session();
    let noise = (0..200_000_u32).map(|n| n.wrapping_mul(2_654_435_761) ^ n.rotate_left(13));
    let noise: Vec<u8> = noise.flat_map(u32::to_le_bytes).collect();
    fs::write(
        projects(&world).join(format!("{ID}/tool-results/a.txt")),
        noise,
    )
    .unwrap();
    let before = claude(&world);
    // The store is there by now, and needs no more room.
    let _ = world.segue(["session", "list"]);
    for args in [
        ["session", "archive", NAME].as_slice(),
        &["session", "delete", "--yes", NAME],
    ] {
        let failed = with_file_limit(&world, 400, args);
        assert_eq!(failed.code, Some(1), "{failed}");
        assert!(
            failed.stderr.contains("cannot write") || failed.stderr.contains("File too large"),
            "{failed}"
        );
        assert_eq!(claude(&world), before, "{failed}");
        let copies = world.json(["session", "archive", "--list", "--json"]);
        assert_eq!(copies, json!([]), "half a copy is none");
    }
    let done = world.segue(["session", "delete", "--yes", NAME]);
    assert_eq!(done.code, Some(0), "{done}");
    assert_eq!(claude(&world), []);
}

#[test]
fn what_cannot_be_removed_stays_whole_with_a_copy_in_the_trash() {
    let world = with_session();
    let before = claude(&world);
    fs::create_dir(world.home()).unwrap();
    fs::set_permissions(world.home(), fs::Permissions::from_mode(0o777)).unwrap();
    let failed = as_nobody(&world, &["session", "delete", "--yes", NAME]);
    assert_eq!(failed.code, Some(1), "{failed}");
    assert!(failed.stderr.contains("cannot remove"), "{failed}");
    assert_eq!(claude(&world), before);
}

#[test]
fn a_home_that_is_read_only_takes_no_copy_and_what_to_do_is_said() {
    let world = with_session();
    for made in [false, true] {
        if made {
            // There is a place for copies, which can't be written either.
            fs::set_permissions(world.home(), fs::Permissions::from_mode(0o700)).unwrap();
            let _ = world.json(["session", "archive", "--json", NAME]);
            let main = projects(&world).join(format!("{ID}.jsonl"));
            let text = fs::read_to_string(&main).unwrap();
            fs::write(&main, format!("{text}\n")).unwrap();
        }
        let _ = world.segue(["session", "list"]);
        make_read_only(&world);
        for args in [
            &["session", "archive", NAME][..],
            &["session", "delete", "--yes", NAME],
        ] {
            let failed = as_nobody(&world, args);
            let hint = "hint: make the directory writable, or set SEGUE_HOME to one that is\n";
            assert!(failed.stderr.ends_with(hint), "{failed}");
            assert_eq!(failed.code, Some(1), "{failed}");
        }
    }
}

#[test]
fn a_deletion_that_is_killed_anywhere_loses_nothing() {
    let world = with_session();
    let before = claude(&world);
    let mut killed = 0;
    for step in 0..60 {
        let mut command = world.command(["session", "delete", "--yes", NAME]);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(step * 2));
        killed += usize::from(child.kill().is_ok());
        child.wait().unwrap();
        if claude(&world) != before {
            let restored = world.segue(["session", "restore", NAME]);
            assert_eq!(restored.code, Some(0), "{restored}");
        }
        assert_eq!(claude(&world), before, "after {step} ms");
    }
    assert!(killed > 0);
    // Copies of deletions that came no further than that are all whole.
    let copies = world.segue(["session", "archive", "--list"]);
    assert_eq!(
        (copies.stderr.contains("can't be read"), copies.code),
        (false, Some(0)),
        "{copies}"
    );
}

#[test]
fn segues_own_record_is_forgotten_alone() {
    let world = world();
    let id = world.json(["chat", "--json", "hello"])["session_id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_snapshot!(world.segue(["session", "forget", &id]), @"
    --- stderr
    error: forgetting needs a confirmation, and there is no terminal to ask on
    hint: add --yes
    --- exit 2
    ");
    assert_snapshot!(world.segue(["session", "forget", "--yes", &id]), @"
    Forgot [SESSION] (hello).
    What rehearsal has of it stays, but can't be found through segue any more.
    --- exit 0
    ");
    assert_eq!(crate::count_sessions(&world), 0);
    put(&world, ID);
    let _ = world.segue(["session", "adopt", NAME]);
    let own = world.json(["session", "list", "--json"])[0]["id"].clone();
    assert_snapshot!(world.segue(["session", "forget", "--yes", own.as_str().unwrap()]), @"
    Forgot [SESSION] (Shopping).
    What its agent has of it stays, and is listed by itself from now on.
    --- exit 0
    ");
    assert_eq!(
        world.segue(["session", "forget", "--yes", NAME]).code,
        Some(1)
    );
    assert_eq!(crate::count_sessions(&world), 1);
}

#[test]
fn doctor_says_what_is_about_to_be_deleted() {
    let world = with_session();
    let main = projects(&world).join(format!("{ID}.jsonl"));
    let retention = || {
        let report = world.json(["doctor", "--json"]);
        let providers = report["providers"].as_array().unwrap().clone();
        let claude = providers.into_iter().find(|one| one["name"] == "claude");
        claude.unwrap()["retention"].clone()
    };
    assert_eq!(retention()["after_days"], 30);
    assert_eq!(retention()["due"], 0);
    age(&main, 25);
    assert_eq!(retention()["due"], 1);
    let told = world.segue(["doctor"]).stdout.replace("\n           ", " ");
    assert!(
        told.contains("keeps    them for 30 days; 1 will be deleted within 7 days: `segue session archive --all --older-than 23d -p claude` keeps them"),
        "{told}"
    );
    let done = world.segue([
        "session",
        "archive",
        "--all",
        "--older-than",
        "23d",
        "-p",
        "claude",
    ]);
    assert!(
        done.stdout.ends_with("1 archived, 0 as before.\n"),
        "{done}"
    );
    assert_eq!(retention()["due"], 0);
    assert_eq!(retention()["due_but_archived"], 1);
    fs::write(
        world.path().join(".claude/settings.json"),
        "{\"cleanupPeriodDays\": 365}",
    )
    .unwrap();
    assert_eq!(retention()["after_days"], 365);
    assert_eq!(retention()["due_but_archived"], 0);
}

#[test]
fn a_session_of_segues_is_brought_back_by_its_own_id() {
    let world = with_session();
    let before = claude(&world);
    let adopted = world.segue(["session", "adopt", NAME]);
    assert_eq!(adopted.code, Some(0), "{adopted}");
    let listed = world.json(["session", "list", "--json"]);
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    // While segue has it, its copies are those of what it runs on.
    let _ = world.json(["session", "archive", "--json", &id]);
    let restored = world.json(["session", "restore", "--json", &id]);
    assert_eq!(restored["restored"], NAME);
    assert_eq!(restored["from"], "archive");
    let purged = world.segue(["session", "delete", "--purge", "--native", "--yes", &id]);
    assert_eq!(purged.code, Some(0), "{purged}");
    let none = world.segue(["session", "restore", &id]);
    assert!(
        none.stderr.contains("there is no copy of a session"),
        "{none}"
    );

    // Once it is deleted, its copy in the trash remembers.
    put(&world, ID);
    let deleted = world.segue(["session", "delete", "--yes", &id]);
    assert_eq!(deleted.code, Some(0), "{deleted}");
    assert_eq!(claude(&world), []);
    let end = id.rsplit('_').next().unwrap();
    let restored = world.json(["session", "restore", "--json", end]);
    assert_eq!(restored["restored"], NAME);
    assert_eq!(restored["from"], "trash");
    assert_eq!(claude(&world).len(), before.len());
}

#[test]
fn title_and_tags_come_back_with_what_they_were_given_to() {
    let world = with_session();
    let named = world.json(["session", "rename", NAME, "Pay twice", "--json"]);
    let id = named["id"].as_str().unwrap();
    let _ = world.json(["session", "tag", id, "billing", "urgent", "--json"]);
    let deleted = world.segue(["session", "delete", "--yes", id]);
    assert_eq!(deleted.code, Some(0), "{deleted}");
    assert_snapshot!(world.segue(["session", "restore", NAME]), @r#"
    Restored claude:0b5e4c3a-1111-4222-8333-444455556666 (Shopping) from the trash.
      [WORLD]/.claude/projects/-p/0b5e4c3a-1111-4222-8333-444455556666.jsonl
      [WORLD]/.claude/projects/-p/0b5e4c3a-1111-4222-8333-444455556666/tool-results/a.txt
      [WORLD]/.claude/todos/0b5e4c3a-1111-4222-8333-444455556666-agent-0b5e4c3a-1111-4222-8333-444455556666.json
    It is session [SESSION] again (Pay twice) #billing #urgent.
    Go on with: claude --resume 0b5e4c3a-1111-4222-8333-444455556666   or: segue chat --resume claude:0b5e4c3a-1111-4222-8333-444455556666 "…"
    --- exit 0
    "#);
    let told = |json: &serde_json::Value| {
        let told = (&json["title"], &json["title_from"], &json["tags"]);
        serde_json::json!(told)
    };
    let back = world.json(["session", "info", id, "--json"]);
    assert_eq!(
        told(&back["session"]),
        serde_json::json!(["Pay twice", "user", ["billing", "urgent"]])
    );
    let listed = world.json(["session", "list", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed:#}");

    // Without a title of segue's own and without tags it is the agent's own again.
    let _ = world.json(["session", "delete", "--yes", "--json", id]);
    let _ = world.json(["session", "restore", "--json", id]);
    let _ = world.json(["session", "forget", "--yes", "--json", id]);
    let _ = world.json(["session", "adopt", NAME, "--json"]);
    let adopted = world.json(["session", "list", "--json"]);
    let adopted = adopted[0]["id"].as_str().unwrap();
    let _ = world.json(["session", "delete", "--yes", "--json", adopted]);
    let restored = world.json(["session", "restore", "--json", NAME]);
    assert_eq!(restored["session_id"], serde_json::Value::Null);
}

/// A session of an agent that answers in a conversation of its own.
fn chat(world: &World, agent: &str) -> String {
    let told = world.json(["chat", "--json", "-p", agent, "hello"]);
    told["session_id"].as_str().unwrap().to_owned()
}

/// What the question of a command says that is asked on a terminal, and answered with no.
fn asked(world: &World, arguments: &str) -> String {
    let mut command = world.program("script");
    let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_segue"));
    command
        .args(["-q", "-e", "-c", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("script is part of every Linux");
    child.stdin.take().unwrap().write_all(b"n\n").unwrap();
    let screen = Output::from(&child.wait_with_output().unwrap(), world).stdout;
    let question = screen.lines().find(|line| line.contains("? [y/N]"));
    let question = question.unwrap_or_else(|| panic!("{screen}"));
    question.split("? [y/N]").next().unwrap().to_owned()
}

#[test]
fn that_nothing_brings_a_session_back_is_said_before_it_is_deleted() {
    let world = world();
    let id = chat(&world, "rehearsal");
    let before = everything(&world.home().join("rehearsal"));
    assert_snapshot!(world.segue(["session", "delete", "--dry-run", &id]), @"
    Would delete [SESSION] (hello, 1 turn).
    Would delete rehearsal:[NATIVE] by removing its file, for good:
      [WORLD]/home/rehearsal/[NATIVE].jsonl
    Nothing of it would go to the trash, so nothing could bring it back.
    --- exit 0
    ");
    assert_snapshot!(
        asked(&world, &format!("session delete {id}")),
        @"Delete [SESSION] (hello, 1 turn) with rehearsal:[NATIVE] for good: nothing of it goes to the trash"
    );
    assert_eq!(everything(&world.home().join("rehearsal")), before);
    // Of what an agent has whose files can be read there is a copy, so nothing of the kind is said.
    put(&world, ID);
    assert_snapshot!(asked(&world, &format!("session delete {NAME}")), @"Delete claude:0b5e4c3a-1111-4222-8333-444455556666 (Shopping)");
}

#[test]
fn the_built_in_agents_file_goes_with_the_session() {
    for how in [
        &["--yes"][..],
        &["--yes", "--purge"],
        &["--yes", "--native"],
    ] {
        let world = world();
        let (id, _other) = (chat(&world, "rehearsal"), chat(&world, "rehearsal"));
        let files = || everything(&world.home().join("rehearsal")).len();
        assert_eq!(files(), 2);
        let delete = [&["session", "delete", "--json", &id], how].concat();
        let told = world.json(&delete);
        let native = &told["native"][0];
        assert_eq!(native["provider"], "rehearsal", "{told:#}");
        let file = PathBuf::from(native["files"][0].as_str().unwrap());
        assert!(!file.exists(), "{told:#}");
        assert_eq!(files(), 1, "that of another session stays");
    }
}

#[test]
fn what_only_its_agent_can_find_is_called_by_the_agents_name() {
    let world = world();
    let (program, theirs) = (env!("CARGO_BIN_EXE_segue"), world.path().join("two"));
    let config = world.path().join(".config/segue/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    let agent =
        format!("[acp.two]\npath = {program:?}\nargs = [\"rehearsal-agent\", {theirs:?}]\n");
    fs::write(config, agent).unwrap();
    let id = chat(&world, "acp:two");
    assert_snapshot!(world.segue(["session", "delete", "--dry-run", &id]), @"
    Would delete [SESSION] (hello, 1 turn).
    Nothing of it would go to the trash, so nothing could bring it back.
    Would leave acp:two:[NATIVE]: only acp:two knows where it is.
    --- exit 0
    ");
    let told = world.json(["session", "delete", "--dry-run", "--json", &id]);
    assert_eq!(told["spared"][0]["provider"], "acp:two", "{told:#}");
    assert_snapshot!(
        asked(&world, &format!("session forget {id}")),
        @"Forget [SESSION] (hello, 1 turn) for good: nothing of it can be found through segue then"
    );
    assert_snapshot!(world.segue(["session", "forget", "--yes", &id]), @"
    Forgot [SESSION] (hello).
    What acp:two has of it stays, but can't be found through segue any more.
    --- exit 0
    ");
    assert_eq!(everything(&theirs).len(), 1);
}
