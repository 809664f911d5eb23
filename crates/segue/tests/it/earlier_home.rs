//! A data directory that an earlier build wrote: store, index, archive and trash still open and work.
//!
//! The build of November 2026 (commit 9e0b6ef) wrote `fixtures/home-2026-11` with the built-in agent and three sessions
//! of Claude Code: chats, a feature, a task with a role, tags, a fork, a revert with an undo, a compaction, an
//! adoption, one archived and one deleted session.

use std::fs;
use std::path::Path;

use segue_testkit::TestHome;
use serde_json::Value;

use super::new_test_home;

const ARCHIVED_ID: &str = "130cc4e1-860e-4a2d-ba3e-9e5470655482";
const DELETED_ID: &str = "891a9808-e4a2-4568-8723-4fa69e979f46";

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn open_earlier_home() -> TestHome {
    let home = new_test_home();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/home-2026-11");
    copy_directory(&fixture, &home.segue_home());
    home
}

fn column<'a>(sessions: &'a Value, key: &str) -> Vec<&'a str> {
    let sessions = sessions.as_array().unwrap().iter();
    let mut values: Vec<&str> = sessions
        .filter_map(|session| session[key].as_str())
        .collect();
    values.sort_unstable();
    values
}

#[test]
fn an_earlier_store_is_listed_shown_and_changed() {
    let home = open_earlier_home();
    let sessions = home.run_segue_json(["session", "list", "--all", "--json"]);
    assert_eq!(
        column(&sessions, "title"),
        [
            "Named by model",
            "Stub title",
            "always use tabs. do it",
            "look around",
            "my title",
            "the password is swordfish",
        ]
    );
    let sessions = sessions.as_array().unwrap();
    let session = sessions
        .iter()
        .find(|session| session["title"] == "Named by model")
        .unwrap();
    assert_eq!(session["feature"], "auth");
    let id = session["id"].as_str().unwrap();
    let transcript = home.run_segue(["session", "show", id]);
    assert!(
        transcript.stdout.contains("add the login form"),
        "{transcript}"
    );
    let checkpoint = home.run_segue_json(["session", "checkpoint", id, "--json"]);
    assert_eq!(checkpoint["version"], 1, "{checkpoint}");
    for (arguments, turns) in [
        (&["session", "revert", id, "--to", "2"][..], 2),
        (&["session", "undo", id], 3),
    ] {
        let output = home.run_segue(arguments);
        assert_eq!(output.code, Some(0), "{output}");
        let info = home.run_segue_json(["session", "info", id, "--json"]);
        assert_eq!(info["session"]["turns"], turns, "{info}");
    }
    let output = home.run_segue([
        "chat",
        "-p",
        "rehearsal",
        "--feature",
        "auth",
        "--new",
        "go on",
    ]);
    assert_eq!(output.code, Some(0), "{output}");
    home.assert_no_processes();
}

#[test]
fn an_earlier_index_is_searched() {
    let home = open_earlier_home();
    let hits = home.run_segue_json(["session", "search", "swordfish", "--no-refresh", "--json"]);
    assert_eq!(
        column(&hits, "title"),
        ["the password is swordfish"],
        "{hits}"
    );
}

#[test]
fn sessions_are_restored_from_an_earlier_archive_and_trash() {
    let home = open_earlier_home();
    for id in [ARCHIVED_ID, DELETED_ID] {
        let output = home.run_segue(["session", "restore", &format!("claude:{id}")]);
        assert_eq!(output.code, Some(0), "{output}");
        let file = home.path().join(format!(".claude/projects/-x/{id}.jsonl"));
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            text.lines()
                .all(|line| serde_json::from_str::<Value>(line).is_ok())
        );
        let shown = home.run_segue(["session", "show", &format!("claude:{id}")]);
        assert!(shown.stdout.contains("look around"), "{shown}");
    }
}
