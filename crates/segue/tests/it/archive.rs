//! `segue session delete`, `forget`, `archive` and `restore` with native sessions.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use insta::assert_snapshot;
use segue_testkit::{ProgramOutput, TestHome};
use serde_json::{Value, json};

use crate::failing_disks::{make_segue_home_read_only, run_unprivileged, run_with_file_limit};
use crate::new_test_home;

const CLAUDE_SAMPLE: &str = include_str!("../../../segue-providers/tests/it/samples/claude.jsonl");
const NATIVE_ID: &str = "0b5e4c3a-1111-4222-8333-444455556666";
const NATIVE_REF: &str = "claude:0b5e4c3a-1111-4222-8333-444455556666";

/// Creates a home with a Claude Code session and its additional files.
fn home_with_session() -> TestHome {
    let home = new_test_home();
    write_claude_session(&home, NATIVE_ID);
    home
}

fn write_claude_session(home: &TestHome, id: &str) {
    let cwd = home.project().display().to_string();
    let text = CLAUDE_SAMPLE
        .replace(NATIVE_ID, id)
        .replace("\"/w\"", &format!("{cwd:?}"));
    let main = claude_project_dir(home).join(format!("{id}.jsonl"));
    for (path, text) in [
        (main, text.as_str()),
        (
            claude_project_dir(home).join(format!("{id}/tool-results/a.txt")),
            "output of a tool\n",
        ),
        (
            home.path()
                .join(format!(".claude/todos/{id}-agent-{id}.json")),
            "[]",
        ),
    ] {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        set_file_age(&path, 3);
    }
}

/// Sets the modification time of a file to `days` days ago.
fn set_file_age(path: &Path, days: u64) {
    let modified = SystemTime::now() - Duration::from_secs(days * 86_400);
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(modified).unwrap();
}

fn claude_project_dir(home: &TestHome) -> PathBuf {
    home.path().join(".claude/projects/-p")
}

/// Returns all files below a directory with their contents and modification times.
fn read_all_files(directory: &Path) -> Vec<(PathBuf, Vec<u8>, SystemTime)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(read_all_files(&path));
        } else {
            let modified = fs::metadata(&path).unwrap().modified().unwrap();
            files.push((path.clone(), fs::read(&path).unwrap(), modified));
        }
    }
    files.sort();
    files
}

fn claude_files(home: &TestHome) -> Vec<(PathBuf, Vec<u8>, SystemTime)> {
    read_all_files(&home.path().join(".claude"))
}

#[test]
fn a_native_session_is_deleted_and_restored() {
    let home = home_with_session();
    let before = claude_files(&home);
    assert_snapshot!(home.run_segue(["session", "delete", "--dry-run", "0b5e"]), @"
    Would delete claude:0b5e4c3a-1111-4222-8333-444455556666 by removing its files, after copying it to the trash:
      [HOME]/.claude/projects/-p/0b5e4c3a-1111-4222-8333-444455556666.jsonl
      [HOME]/.claude/projects/-p/0b5e4c3a-1111-4222-8333-444455556666/tool-results/a.txt
      [HOME]/.claude/todos/0b5e4c3a-1111-4222-8333-444455556666-agent-0b5e4c3a-1111-4222-8333-444455556666.json
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["session", "delete", "0b5e"]), @"
    --- stderr
    error: deleting needs confirmation, but standard input is not a terminal
    hint: use `--yes` to skip the confirmation
    --- exit 2
    ");
    assert_eq!(claude_files(&home), before);
    assert!(!home.segue_home().join("trash").exists());

    assert_snapshot!(home.run_segue(["session", "delete", "--yes", "0b5e"]), @"
    Deleted claude:0b5e4c3a-1111-4222-8333-444455556666 (Shopping).
    claude:0b5e4c3a-1111-4222-8333-444455556666 is in the trash; restore it with `segue session restore claude:0b5e4c3a-1111-4222-8333-444455556666`.
    --- exit 0
    ");
    assert_eq!(claude_files(&home), []);
    assert_eq!(crate::count_sessions(&home), 0);
    let second_delete = home.run_segue(["session", "delete", "--yes", NATIVE_REF]);
    let deleted =
        format!("error: {NATIVE_REF} is already deleted; a copy is in [HOME]/home/trash/");
    assert!(
        second_delete.stderr.starts_with(&deleted) && second_delete.code == Some(1),
        "{second_delete}"
    );
    let copies = home.run_segue_json(["session", "archive", "--list", "--json"]);
    assert_eq!(copies[0]["kept"], "trash");
    assert_eq!(copies[0]["turns"], 3);
    assert_eq!(copies[0]["files"].as_array().unwrap().len(), 3);

    assert_snapshot!(home.run_segue(["session", "restore", "0b5e"]), @r#"
    Restored claude:0b5e4c3a-1111-4222-8333-444455556666 (Shopping) from the trash.
      [HOME]/.claude/projects/-p/0b5e4c3a-1111-4222-8333-444455556666.jsonl
      [HOME]/.claude/projects/-p/0b5e4c3a-1111-4222-8333-444455556666/tool-results/a.txt
      [HOME]/.claude/todos/0b5e4c3a-1111-4222-8333-444455556666-agent-0b5e4c3a-1111-4222-8333-444455556666.json
    Resume it with: claude --resume 0b5e4c3a-1111-4222-8333-444455556666   or: segue chat --resume claude:0b5e4c3a-1111-4222-8333-444455556666 "…"
    --- exit 0
    "#);
    assert_eq!(claude_files(&home), before);
    assert_snapshot!(home.run_segue(["session", "restore", "0b5e"]), @r#"
    --- stderr
    error: no copy of session "0b5e" found in the archive or the trash
    hint: run `segue session archive --list` to list all copies
    --- exit 1
    "#);
}

#[test]
fn a_purge_removes_the_session_and_all_copies() {
    let home = home_with_session();
    let _ = home.run_segue_json(["session", "archive", "--json", NATIVE_REF]);
    let _ = home.run_segue_json(["session", "delete", "--yes", "--json", NATIVE_REF]);
    let _ = home.run_segue_json(["session", "restore", "--json", NATIVE_REF]);
    let _ = home.run_segue_json(["session", "delete", "--yes", "--json", NATIVE_REF]);
    // Copies are in the trash and in the archive; the archived one is still listed.
    assert_eq!(crate::count_sessions(&home), 1);
    assert_snapshot!(home.run_segue(["session", "delete", "--yes", NATIVE_REF]).stdout.lines().next().unwrap(), @"Deleted claude:0b5e4c3a-1111-4222-8333-444455556666 (Shopping).");
    assert_eq!(crate::count_sessions(&home), 0);
    let copies = home.run_segue_json(["session", "archive", "--list", "--json"]);
    assert_eq!(copies.as_array().unwrap().len(), 2, "{copies:#}");
    assert_snapshot!(home.run_segue(["session", "delete", "--purge", "--yes", NATIVE_REF]), @"
    Deleted all copies of claude:0b5e4c3a-1111-4222-8333-444455556666.
    --- exit 0
    ");
    assert_eq!(
        home.run_segue_json(["session", "archive", "--list", "--json"]),
        json!([])
    );

    write_claude_session(&home, NATIVE_ID);
    let _ = home.run_segue_json(["session", "archive", "--json", NATIVE_REF]);
    let deleted = home.run_segue_json([
        "session", "delete", "--purge", "--yes", "--json", NATIVE_REF,
    ]);
    assert_eq!(deleted["native"][0]["copy"], Value::Null);
    assert_eq!(
        home.run_segue_json(["session", "archive", "--list", "--json"]),
        json!([])
    );
    assert_eq!(claude_files(&home), []);
}

#[test]
fn an_archived_session_is_listed_shown_and_restored_after_its_files_are_lost() {
    let home = home_with_session();
    let transcript = home.run_segue(["session", "show", NATIVE_REF]).stdout;
    let archived = home.run_segue(["session", "archive", "latest"]);
    assert!(
        archived
            .stdout
            .starts_with(&format!("Archived {NATIVE_REF} (Shopping): ")),
        "{archived}"
    );
    assert_snapshot!(home.run_segue(["session", "archive", "latest"]), @"
    Already archived: claude:0b5e4c3a-1111-4222-8333-444455556666 (Shopping).
    --- exit 0
    ");
    fs::remove_dir_all(home.path().join(".claude")).unwrap();
    let listed = home.run_segue_json(["session", "list", "--json"]);
    assert_eq!(listed[0]["status"], "archived", "{listed:#}");
    assert_eq!(listed[0]["title"], "Shopping");
    let archived_transcript = transcript.replace(
        " · native session of claude\n",
        " · only in segue's archive\n",
    );
    assert_ne!(archived_transcript, transcript);
    assert_eq!(
        home.run_segue(["session", "show", NATIVE_REF]).stdout,
        archived_transcript
    );
    let info = home.run_segue(["session", "info", NATIVE_REF]).stdout;
    let info: Vec<&str> = info.lines().rev().take(2).collect();
    assert_eq!(
        info,
        [
            "claude no longer has this session; this is the copy in segue's archive",
            "restore   segue session restore claude:0b5e4c3a-1111-4222-8333-444455556666   (puts it back for claude)",
        ]
    );
    assert_eq!(
        home.run_segue_json(["session", "info", "--json", "0b5e"])["session"]["turns"],
        3
    );
    // The files are restored even though the agent is not installed.
    let restored = home.run_segue_json(["session", "restore", "--json", NATIVE_REF]);
    assert_eq!(restored["files"].as_array().unwrap().len(), 3);
    let second_restore = home.run_segue_json(["session", "restore", "--json", NATIVE_REF]);
    assert_eq!(second_restore["unchanged"].as_array().unwrap().len(), 3);
    let listed = home.run_segue_json(["session", "list", "--json"]);
    assert_eq!(listed[0]["status"], "idle", "{listed:#}");
}

#[test]
fn sessions_are_archived_together_by_age() {
    let home = home_with_session();
    write_claude_session(&home, "aaaaaaaa-1111-4222-8333-444455556666");
    let recent_id = "bbbbbbbb-1111-4222-8333-444455556666";
    write_claude_session(&home, recent_id);
    let path = claude_project_dir(&home).join(format!("{recent_id}.jsonl"));
    let text = fs::read_to_string(&path).unwrap();
    let today = jiff::Timestamp::now().strftime("%Y-%m-%dT").to_string();
    fs::write(&path, text.replace("2026-01-02T", &today)).unwrap();
    let archive_all =
        |args: &[&str]| home.run_segue([&["session", "archive", "--all"], args].concat());
    assert!(
        archive_all(&["--older-than", "2d", "--dry-run"])
            .stdout
            .contains("Would archive claude:aaaaaaaa")
    );
    assert!(!home.segue_home().join("archive").exists());
    let outcome = archive_all(&["--older-than", "2d", "-p", "claude"]);
    assert!(
        outcome.stdout.ends_with("2 archived, 0 unchanged.\n"),
        "{outcome}"
    );
    let outcome = archive_all(&["-p", "claude"]);
    assert!(
        outcome.stdout.ends_with("1 archived, 2 unchanged.\n"),
        "{outcome}"
    );
    assert_snapshot!(archive_all(&["-p", "clod"]), @"
    --- stderr
    error: unknown agent `clod`
    hint: available agents: claude, codex, gemini, opencode, rehearsal
    --- exit 2
    ");
    assert_snapshot!(archive_all(&["--older-than", "soon"]), @r#"
    --- stderr
    error: "soon" is not a valid time
    hint: use a time such as 2025-12-07T14:30:22Z, a date such as 2025-12-07, `today`, `yesterday`, or an age such as 30m, 12h, 7d, 2w, 6mo or 1y
    --- exit 2
    "#);
    assert_snapshot!(home.run_segue(["session", "restore", "claude:"]).stderr.lines().next().unwrap(), @r#"error: "claude:" matches 3 sessions"#);
}

#[test]
fn a_session_in_use_by_a_process_is_not_deleted() {
    let home = home_with_session();
    let before = claude_files(&home);
    let open = File::open(claude_project_dir(&home).join(format!("{NATIVE_ID}.jsonl"))).unwrap();
    let mut sleep = home.program_command("sleep");
    let mut child = sleep.arg("600").stdin(Stdio::from(open)).spawn().unwrap();
    let refused = home.run_segue(["session", "delete", "--yes", NATIVE_REF]);
    let planned = home.run_segue_json(["session", "delete", "--dry-run", "--json", NATIVE_REF]);
    assert_eq!(planned["native"][0]["in_use_by"], child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_snapshot!(refused, @"
    --- stderr
    error: claude:0b5e4c3a-1111-4222-8333-444455556666 is in use by process [PID] (sleep)
    hint: end that process first; nothing was changed
    --- exit 1
    ");
    assert_eq!(claude_files(&home), before);
    assert!(!home.segue_home().join("trash").exists());
    // A recent write causes a warning, but the session is deleted.
    let main = claude_project_dir(&home).join(format!("{NATIVE_ID}.jsonl"));
    fs::write(&main, fs::read(&main).unwrap()).unwrap();
    let outcome = home.run_segue(["session", "delete", "--yes", NATIVE_REF]);
    assert!(
        outcome
            .stderr
            .contains(" s ago; an agent that still uses it may write it again"),
        "{outcome}"
    );
    assert_eq!(outcome.code, Some(0));
}

#[test]
fn a_session_open_in_its_own_program_is_not_resumed() {
    let home = home_with_session();
    let mut agent_program = home.program_command("sh");
    agent_program.args(["-c", "read x", "claude", "--resume", NATIVE_ID]);
    let mut child = agent_program.stdin(Stdio::piped()).spawn().unwrap();
    let refused = home.run_segue(["session", "resume", "--print", NATIVE_REF]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_snapshot!(refused, @"
    --- stderr
    error: cannot resume claude:0b5e4c3a-1111-4222-8333-444455556666 in the agent's own program: process [PID] (sh) is using it
    hint: continue in that program, or end it first
    --- exit 1
    ");
}

#[test]
fn a_restore_never_overwrites_a_different_file() {
    let home = home_with_session();
    let _ = home.run_segue_json(["session", "archive", "--json", NATIVE_REF]);
    let main = claude_project_dir(&home).join(format!("{NATIVE_ID}.jsonl"));
    fs::write(&main, "another file\n").unwrap();
    fs::remove_dir_all(claude_project_dir(&home).join(NATIVE_ID)).unwrap();
    let before = claude_files(&home);
    assert_snapshot!(home.run_segue(["session", "restore", NATIVE_REF]), @"
    --- stderr
    error: [HOME]/.claude/projects/-p/0b5e4c3a-1111-4222-8333-444455556666.jsonl already exists with different content
    hint: move the existing file away and retry; nothing was restored
    --- exit 1
    ");
    assert_eq!(claude_files(&home), before);
}

#[test]
fn a_full_disk_loses_no_session_file() {
    let home = home_with_session();
    let noise = (0..200_000_u32).map(|n| n.wrapping_mul(2_654_435_761) ^ n.rotate_left(13));
    let noise: Vec<u8> = noise.flat_map(u32::to_le_bytes).collect();
    fs::write(
        claude_project_dir(&home).join(format!("{NATIVE_ID}/tool-results/a.txt")),
        noise,
    )
    .unwrap();
    let before = claude_files(&home);
    // Create the store first, so that only the copy needs space.
    let _ = home.run_segue(["session", "list"]);
    for args in [
        ["session", "archive", NATIVE_REF].as_slice(),
        &["session", "delete", "--yes", NATIVE_REF],
    ] {
        let failed = run_with_file_limit(&home, 400, args);
        assert_eq!(failed.code, Some(1), "{failed}");
        assert!(
            failed.stderr.contains("cannot write") || failed.stderr.contains("File too large"),
            "{failed}"
        );
        assert_eq!(claude_files(&home), before, "{failed}");
        let copies = home.run_segue_json(["session", "archive", "--list", "--json"]);
        assert_eq!(copies, json!([]), "an incomplete copy is listed");
    }
    let outcome = home.run_segue(["session", "delete", "--yes", NATIVE_REF]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert_eq!(claude_files(&home), []);
}

#[test]
fn a_session_that_cannot_be_removed_stays_complete() {
    let home = home_with_session();
    let before = claude_files(&home);
    fs::create_dir(home.segue_home()).unwrap();
    fs::set_permissions(home.segue_home(), fs::Permissions::from_mode(0o777)).unwrap();
    let failed = run_unprivileged(&home, &["session", "delete", "--yes", NATIVE_REF]);
    assert_eq!(failed.code, Some(1), "{failed}");
    assert!(failed.stderr.contains("cannot remove"), "{failed}");
    assert_eq!(claude_files(&home), before);
}

#[test]
fn a_read_only_home_refuses_copies_with_a_hint() {
    let home = home_with_session();
    for has_archive in [false, true] {
        if has_archive {
            // The archive directory exists, but is not writable.
            fs::set_permissions(home.segue_home(), fs::Permissions::from_mode(0o700)).unwrap();
            let _ = home.run_segue_json(["session", "archive", "--json", NATIVE_REF]);
            let main = claude_project_dir(&home).join(format!("{NATIVE_ID}.jsonl"));
            let text = fs::read_to_string(&main).unwrap();
            fs::write(&main, format!("{text}\n")).unwrap();
        }
        let _ = home.run_segue(["session", "list"]);
        make_segue_home_read_only(&home);
        for args in [
            &["session", "archive", NATIVE_REF][..],
            &["session", "delete", "--yes", NATIVE_REF],
        ] {
            let failed = run_unprivileged(&home, args);
            let hint =
                "hint: make the directory writable, or set SEGUE_HOME to a writable directory\n";
            assert!(failed.stderr.ends_with(hint), "{failed}");
            assert_eq!(failed.code, Some(1), "{failed}");
        }
    }
}

#[test]
fn a_killed_deletion_loses_no_file() {
    let home = home_with_session();
    let before = claude_files(&home);
    let mut killed = 0;
    for step in 0..60 {
        let mut command = home.segue_command(["session", "delete", "--yes", NATIVE_REF]);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(step * 2));
        killed += usize::from(child.kill().is_ok());
        child.wait().unwrap();
        if claude_files(&home) != before {
            let restored = home.run_segue(["session", "restore", NATIVE_REF]);
            assert_eq!(restored.code, Some(0), "{restored}");
        }
        assert_eq!(claude_files(&home), before, "after {step} ms");
    }
    assert!(killed > 0);
    // All copies that the killed deletions left are complete.
    let copies = home.run_segue(["session", "archive", "--list"]);
    assert_eq!(
        (copies.stderr.contains("cannot read a copy"), copies.code),
        (false, Some(0)),
        "{copies}"
    );
}

#[test]
fn forget_removes_only_the_record_of_segue() {
    let home = new_test_home();
    let id = home.run_segue_json(["chat", "--json", "hello"])["session_id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_snapshot!(home.run_segue(["session", "forget", &id]), @"
    --- stderr
    error: forgetting needs confirmation, but standard input is not a terminal
    hint: use `--yes` to skip the confirmation
    --- exit 2
    ");
    assert_snapshot!(home.run_segue(["session", "forget", "--yes", &id]), @"
    Forgot [SESSION] (hello).
    The native session of rehearsal remains, but segue cannot list it.
    --- exit 0
    ");
    assert_eq!(crate::count_sessions(&home), 0);
    write_claude_session(&home, NATIVE_ID);
    let _ = home.run_segue(["session", "adopt", NATIVE_REF]);
    let own_id = home.run_segue_json(["session", "list", "--json"])[0]["id"].clone();
    assert_snapshot!(home.run_segue(["session", "forget", "--yes", own_id.as_str().unwrap()]), @"
    Forgot [SESSION] (Shopping).
    Its native session remains, and segue now lists it separately.
    --- exit 0
    ");
    assert_eq!(
        home.run_segue(["session", "forget", "--yes", NATIVE_REF])
            .code,
        Some(1)
    );
    assert_eq!(crate::count_sessions(&home), 1);
}

#[test]
fn doctor_reports_sessions_due_for_deletion() {
    let home = home_with_session();
    let main = claude_project_dir(&home).join(format!("{NATIVE_ID}.jsonl"));
    let retention = || {
        let report = home.run_segue_json(["doctor", "--json"]);
        let providers = report["providers"].as_array().unwrap().clone();
        let claude = providers
            .into_iter()
            .find(|provider| provider["name"] == "claude");
        claude.unwrap()["retention"].clone()
    };
    assert_eq!(retention()["after_days"], 30);
    assert_eq!(retention()["due"], 0);
    set_file_age(&main, 25);
    assert_eq!(retention()["due"], 1);
    let output = home
        .run_segue(["doctor"])
        .stdout
        .replace("\n                ", " ");
    assert!(
        output.contains("retention     30 days; 1 session will be deleted within 7 days: run `segue session archive --all --older-than 23d -p claude` to keep copies"),
        "{output}"
    );
    let outcome = home.run_segue([
        "session",
        "archive",
        "--all",
        "--older-than",
        "23d",
        "-p",
        "claude",
    ]);
    assert!(
        outcome.stdout.ends_with("1 archived, 0 unchanged.\n"),
        "{outcome}"
    );
    assert_eq!(retention()["due"], 0);
    assert_eq!(retention()["due_but_archived"], 1);
    fs::write(
        home.path().join(".claude/settings.json"),
        "{\"cleanupPeriodDays\": 365}",
    )
    .unwrap();
    assert_eq!(retention()["after_days"], 365);
    assert_eq!(retention()["due_but_archived"], 0);
}

#[test]
fn an_adopted_session_is_restored_by_its_segue_id() {
    let home = home_with_session();
    let before = claude_files(&home);
    let adopted = home.run_segue(["session", "adopt", NATIVE_REF]);
    assert_eq!(adopted.code, Some(0), "{adopted}");
    let listed = home.run_segue_json(["session", "list", "--json"]);
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    // While the session exists, its id refers to the copies of its native session.
    let _ = home.run_segue_json(["session", "archive", "--json", &id]);
    let restored = home.run_segue_json(["session", "restore", "--json", &id]);
    assert_eq!(restored["restored"], NATIVE_REF);
    assert_eq!(restored["from"], "archive");
    let purged = home.run_segue(["session", "delete", "--purge", "--native", "--yes", &id]);
    assert_eq!(purged.code, Some(0), "{purged}");
    let not_found = home.run_segue(["session", "restore", &id]);
    assert!(
        not_found.stderr.contains("no copy of session"),
        "{not_found}"
    );

    // After the deletion, the copy in the trash contains the id.
    write_claude_session(&home, NATIVE_ID);
    let deleted = home.run_segue(["session", "delete", "--yes", &id]);
    assert_eq!(deleted.code, Some(0), "{deleted}");
    assert_eq!(claude_files(&home), []);
    let id_suffix = id.rsplit('_').next().unwrap();
    let restored = home.run_segue_json(["session", "restore", "--json", id_suffix]);
    assert_eq!(restored["restored"], NATIVE_REF);
    assert_eq!(restored["from"], "trash");
    assert_eq!(claude_files(&home).len(), before.len());
}

#[test]
fn title_and_tags_are_restored_with_their_session() {
    let home = home_with_session();
    let renamed = home.run_segue_json(["session", "rename", NATIVE_REF, "Pay twice", "--json"]);
    let id = renamed["id"].as_str().unwrap();
    let _ = home.run_segue_json(["session", "tag", id, "billing", "urgent", "--json"]);
    let deleted = home.run_segue(["session", "delete", "--yes", id]);
    assert_eq!(deleted.code, Some(0), "{deleted}");
    assert_snapshot!(home.run_segue(["session", "restore", NATIVE_REF]), @r#"
    Restored claude:0b5e4c3a-1111-4222-8333-444455556666 (Shopping) from the trash.
      [HOME]/.claude/projects/-p/0b5e4c3a-1111-4222-8333-444455556666.jsonl
      [HOME]/.claude/projects/-p/0b5e4c3a-1111-4222-8333-444455556666/tool-results/a.txt
      [HOME]/.claude/todos/0b5e4c3a-1111-4222-8333-444455556666-agent-0b5e4c3a-1111-4222-8333-444455556666.json
    It belongs to session [SESSION] (Pay twice) #billing #urgent.
    Resume it with: claude --resume 0b5e4c3a-1111-4222-8333-444455556666   or: segue chat --resume claude:0b5e4c3a-1111-4222-8333-444455556666 "…"
    --- exit 0
    "#);
    let labels = |json: &serde_json::Value| {
        let fields = (&json["title"], &json["title_from"], &json["tags"]);
        serde_json::json!(fields)
    };
    let info = home.run_segue_json(["session", "info", id, "--json"]);
    assert_eq!(
        labels(&info["session"]),
        serde_json::json!(["Pay twice", "user", ["billing", "urgent"]])
    );
    let listed = home.run_segue_json(["session", "list", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed:#}");

    // Without a title or tags from the user, only the native session is restored.
    let _ = home.run_segue_json(["session", "delete", "--yes", "--json", id]);
    let _ = home.run_segue_json(["session", "restore", "--json", id]);
    let _ = home.run_segue_json(["session", "forget", "--yes", "--json", id]);
    let _ = home.run_segue_json(["session", "adopt", NATIVE_REF, "--json"]);
    let adopted = home.run_segue_json(["session", "list", "--json"]);
    let adopted = adopted[0]["id"].as_str().unwrap();
    let _ = home.run_segue_json(["session", "delete", "--yes", "--json", adopted]);
    let restored = home.run_segue_json(["session", "restore", "--json", NATIVE_REF]);
    assert_eq!(restored["session_id"], serde_json::Value::Null);
}

/// Creates a session with an agent and returns its id.
fn run_chat(home: &TestHome, agent: &str) -> String {
    let turn = home.run_segue_json(["chat", "--json", "-p", agent, "hello"]);
    turn["session_id"].as_str().unwrap().to_owned()
}

/// Runs a command on a terminal, answers its confirmation with "no", and returns the question.
fn confirmation_question(home: &TestHome, arguments: &str) -> String {
    let mut command = home.program_command("script");
    let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_segue"));
    command
        .args(["-q", "-e", "-c", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("`script` is not installed");
    child.stdin.take().unwrap().write_all(b"n\n").unwrap();
    let screen = ProgramOutput::from_std(&child.wait_with_output().unwrap(), home).stdout;
    let question = screen.lines().find(|line| line.contains("? [y/N]"));
    let question = question.unwrap_or_else(|| panic!("{screen}"));
    question.split("? [y/N]").next().unwrap().to_owned()
}

#[test]
fn an_irreversible_deletion_is_announced_before_the_confirmation() {
    let home = new_test_home();
    let id = run_chat(&home, "rehearsal");
    let before = read_all_files(&home.segue_home().join("rehearsal"));
    assert_snapshot!(home.run_segue(["session", "delete", "--dry-run", &id]), @"
    Would delete [SESSION] (hello, 1 turn).
    Would delete rehearsal:[NATIVE] by removing its file, permanently:
      [HOME]/home/rehearsal/[NATIVE].jsonl
    No copy would go to the trash, so it could not be restored.
    --- exit 0
    ");
    assert_snapshot!(
        confirmation_question(&home, &format!("session delete {id}")),
        @"Delete [SESSION] (hello, 1 turn) with rehearsal:[NATIVE] permanently, without a copy in the trash"
    );
    assert_eq!(read_all_files(&home.segue_home().join("rehearsal")), before);
    // Claude Code's files are copied to the trash, so the question does not mention it.
    write_claude_session(&home, NATIVE_ID);
    assert_snapshot!(confirmation_question(&home, &format!("session delete {NATIVE_REF}")), @"Delete claude:0b5e4c3a-1111-4222-8333-444455556666 (Shopping)");
}

#[test]
fn the_file_of_the_rehearsal_agent_is_deleted_with_the_session() {
    for flags in [
        &["--yes"][..],
        &["--yes", "--purge"],
        &["--yes", "--native"],
    ] {
        let home = new_test_home();
        let (id, _other) = (run_chat(&home, "rehearsal"), run_chat(&home, "rehearsal"));
        let count_files = || read_all_files(&home.segue_home().join("rehearsal")).len();
        assert_eq!(count_files(), 2);
        let delete = [&["session", "delete", "--json", &id], flags].concat();
        let outcome = home.run_segue_json(&delete);
        let native = &outcome["native"][0];
        assert_eq!(native["provider"], "rehearsal", "{outcome:#}");
        let file = PathBuf::from(native["files"][0].as_str().unwrap());
        assert!(!file.exists(), "{outcome:#}");
        assert_eq!(
            count_files(),
            1,
            "the file of the other session was deleted too"
        );
    }
}

#[test]
fn a_session_only_its_agent_can_locate_is_named_by_the_provider() {
    let home = new_test_home();
    let (program, agent_dir) = (env!("CARGO_BIN_EXE_segue"), home.path().join("two"));
    let config = home.path().join(".config/segue/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    let agent =
        format!("[acp.two]\npath = {program:?}\nargs = [\"rehearsal-agent\", {agent_dir:?}]\n");
    fs::write(config, agent).unwrap();
    let id = run_chat(&home, "acp:two");
    assert_snapshot!(home.run_segue(["session", "delete", "--dry-run", &id]), @"
    Would delete [SESSION] (hello, 1 turn).
    No copy would go to the trash, so it could not be restored.
    Would not delete acp:two:[NATIVE]: segue does not know where acp:two stores it.
    --- exit 0
    ");
    let plan = home.run_segue_json(["session", "delete", "--dry-run", "--json", &id]);
    assert_eq!(plan["spared"][0]["provider"], "acp:two", "{plan:#}");
    assert_snapshot!(
        confirmation_question(&home, &format!("session forget {id}")),
        @"Forget [SESSION] (hello, 1 turn) permanently, with no way to find it again in segue"
    );
    assert_snapshot!(home.run_segue(["session", "forget", "--yes", &id]), @"
    Forgot [SESSION] (hello).
    The native session of acp:two remains, but segue cannot list it.
    --- exit 0
    ");
    assert_eq!(read_all_files(&agent_dir).len(), 1);
}
