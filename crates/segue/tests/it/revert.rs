//! `segue session revert`, `undo` and `fork`: their output, and the data that they do not change.

use std::fs;

use insta::assert_snapshot;
use segue_testkit::TestHome;
use serde_json::{Value, json};

use crate::new_test_home;

const NATIVE_ID: &str = "5e11a000-1111-4222-8333-444455556666";

/// Creates a session with `turns` turns and returns its id.
fn create_session(home: &TestHome, turns: usize) -> String {
    let first = home.run_segue_json(["chat", "--json", "--new", "turn 1"]);
    let id = first["session_id"].as_str().unwrap().to_owned();
    for n in 2..=turns {
        let _ = home.run_segue_json(["chat", "--json", "--resume", &id, &format!("turn {n}")]);
    }
    id
}

/// Writes a Claude Code session with three turns, the last two of which changed files.
fn write_claude_session(home: &TestHome) {
    let project = home.project();
    let file = |name: &str| project.join(name).display().to_string();
    let call = |id: &str, name: &str, input: Value| {
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": input});
        (
            "assistant",
            json!({"role": "assistant", "content": [block]}),
        )
    };
    let result = |id: &str, failed: bool| {
        let block =
            json!({"type": "tool_result", "tool_use_id": id, "content": "x", "is_error": failed});
        ("user", json!({"role": "user", "content": [block]}))
    };
    let user_message = |text: &str| ("user", json!({"role": "user", "content": text}));
    let assistant_message = |text: &str| {
        let block = json!({"type": "text", "text": text});
        let message = json!({"role": "assistant", "content": [block], "stop_reason": "end_turn"});
        ("assistant", message)
    };
    let messages = [
        user_message("look around"),
        assistant_message("I did"),
        user_message("write the notes"),
        call(
            "c1",
            "Write",
            json!({"file_path": file("notes.md"), "content": "x"}),
        ),
        result("c1", false),
        call("c2", "Edit", json!({"file_path": file("broken.rs")})),
        result("c2", true),
        assistant_message("written"),
        user_message("and the rest"),
        call("c3", "Edit", json!({"file_path": file("notes.md")})),
        result("c3", false),
        call("c4", "Bash", json!({"command": "make"})),
        result("c4", false),
        call("c5", "Edit", json!({"file_path": "/etc/hosts"})),
        result("c5", false),
        assistant_message("done"),
    ];
    let mut lines = Vec::new();
    let mut parent = Value::Null;
    for (index, (kind, message)) in messages.into_iter().enumerate() {
        let uuid = format!("00000000-0000-4000-8000-{index:012}");
        let line = json!({
            "type": kind, "message": message, "uuid": uuid, "parentUuid": parent, "sessionId": NATIVE_ID,
            "cwd": project, "timestamp": format!("2026-01-02T03:04:{index:02}Z"), "isSidechain": false,
        });
        lines.push(format!("{line}\n"));
        parent = uuid.into();
    }
    let path = home.path().join(".claude/projects/-somewhere");
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join(format!("{NATIVE_ID}.jsonl")), lines.concat()).unwrap();
}

#[test]
fn a_revert_lists_the_files_that_the_removed_turns_changed() {
    let home = new_test_home();
    write_claude_session(&home);
    assert_snapshot!(home.run_segue(["session", "revert", NATIVE_ID, "--to", "1", "--dry-run"]), @"
    Would revert to turn 1 and drop 2 turns:
      turn 2    write the notes
      turn 3    and the rest
    Files changed by these turns would remain as they are:
      edited   notes.md
      edited   /etc/hosts
      and any changes made by 1 command
    Nothing was changed.
    --- exit 0
    ");
    let list = home.run_segue_json(["session", "list", "--json"]);
    assert_eq!(
        list[0]["id"],
        Value::Null,
        "the dry run adopted the native session"
    );

    assert_snapshot!(home.run_segue(["session", "revert", NATIVE_ID, "--to", "2"]), @"
    Reverted to turn 2 (dropped 1 turn).
    Files changed by these turns remain as they are:
      edited   notes.md
      edited   /etc/hosts
      and any changes made by 1 command
    Undo with: segue session undo [SESSION]
    --- stderr
    segue: adopted claude:5e11a000-1111-4222-8333-444455556666 as session [SESSION], with 3 turns
    --- exit 0
    ");
    let plan = [
        "session",
        "revert",
        NATIVE_ID,
        "--to",
        "1",
        "--dry-run",
        "--json",
    ];
    assert_snapshot!(home.run_segue(plan), @r#"
    {"dry_run":true,"turns_before":2,"turns":1,"dropped":[{"n":2,"title":"write the notes"}],"files":[{"path":"notes.md","change":"edited"}],"commands":0}
    --- exit 0
    "#);
    let outcome = home.run_segue_json(["session", "revert", NATIVE_ID, "--to", "1", "--json"]);
    assert_eq!(
        (&outcome["turns"], &outcome["turns_before"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(
        outcome["files"],
        json!([{"path": "notes.md", "change": "edited"}])
    );
    assert_eq!(outcome["commands"], 0);
    let undone = home.run_segue_json(["session", "undo", NATIVE_ID, "--json"]);
    assert_eq!(
        (&undone["turns"], &undone["turns_before"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(undone["set_aside"], Value::Null);
}

#[test]
fn an_edit_by_the_rehearsal_agent_is_listed() {
    let home = new_test_home();
    let id = create_session(&home, 1);
    let edit = ["--permissions", "allow-edits", "rehearse: ask"];
    let _ = home.run_segue_json([&["chat", "--json", "--resume", &id][..], &edit].concat());
    let plan = ["session", "revert", &id, "--to", "1", "--dry-run", "--json"];
    assert_eq!(
        home.run_segue_json(plan)["files"],
        json!([{"path": "notes.txt", "change": "edited"}])
    );
}

#[test]
fn an_undo_to_a_different_turn_of_the_same_number_is_reported() {
    let home = new_test_home();
    let id = create_session(&home, 2);
    let _ = home.run_segue(["session", "revert", &id, "--to", "1"]);
    let _ = home.run_segue_json(["chat", "--json", "--resume", &id, "turn 2b"]);
    let undone = home.run_segue(["session", "undo", &id]);
    assert!(
        undone.stdout.starts_with(
            "Undid the revert: now at turn 2, as before the revert.\nDropped 1 turn made since"
        ),
        "{undone}"
    );
}

#[test]
fn a_dry_run_of_an_invalid_revert_is_an_error() {
    let home = new_test_home();
    let id = create_session(&home, 2);
    for (to, message) in [
        ("0", "turn 0 does not exist; turns are numbered from 1 to 2"),
        ("-1", "turn -1 does not exist"),
        ("3", "turn 3 does not exist"),
        (
            "99999999999999999999",
            "does not exist; turns are numbered from 1 to 2",
        ),
        ("two", ": not a turn number"),
    ] {
        let output = home.run_segue(["session", "revert", &id, "--to", to, "--dry-run"]);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains(message), "{output}");
    }
    assert_snapshot!(home.run_segue(["session", "revert", &id, "--to", "2", "--dry-run"]), @"
    Already at turn 2, no changes made.
    --- exit 0
    ");
    let same = home.run_segue_json(["session", "revert", &id, "--to", "2", "--json"]);
    assert_eq!(
        (&same["turns"], &same["turns_before"]),
        (&json!(2), &json!(2))
    );
    let moves = &home.run_segue_json(["session", "info", &id, "--json"])["moves"];
    assert_eq!(moves, &json!([]), "a head move was recorded");
}

#[test]
fn turns_detached_by_an_undo_can_be_forked() {
    let home = new_test_home();
    let id = create_session(&home, 3);
    let native =
        home.run_segue_json(["session", "info", &id, "--json"])["session"]["native_session_id"]
            .clone();
    let _ = home.run_segue(["session", "revert", &id, "--to", "1"]);
    let _ = home.run_segue_json(["chat", "--json", "--resume", &id, "another way"]);
    let undone = home.run_segue_json(["session", "undo", &id, "--json"]);
    assert_eq!(undone["set_aside"], json!({"turns": 1, "by_move": 2}));
    assert_eq!(
        undone["native_session_id"], native,
        "the undo did not return to the first native session"
    );
    let next = home.run_segue_json(["chat", "--json", "--resume", &id, "turn 4"]);
    assert_eq!(
        (&next["native_session_id"], &next["leg"]),
        (&native, &json!(3))
    );
    assert_eq!(next["opened"], "resumed", "{next:#}");

    let fork = home.run_segue_json(["session", "fork", &id, "--moved", "2", "--json"]);
    assert_eq!(fork["forked_from"], json!({"id": id, "turn": 2}));
    let transcript =
        home.run_segue_json(["session", "show", "--json", fork["id"].as_str().unwrap()]);
    let prompt = &transcript["turns"][1]["messages"][0]["parts"][0]["text"];
    assert_eq!(prompt, "another way");
    let info = home.run_segue(["session", "info", &id]).stdout;
    let is_lineage_line = |line: &&str| {
        ["fork ", "move ", "leg "]
            .iter()
            .any(|name| line.starts_with(name))
    };
    assert_snapshot!(info.lines().filter(is_lineage_line).collect::<Vec<_>>().join("\n"), @"
    fork      [SESSION] after turn 2: turn 1 ([TIME])
    move 1    revert: turn 3 → turn 1 ([TIME], undone)
    move 2    undo: turn 2 → turn 3 ([TIME])
    leg 1     rehearsal [NATIVE] turns 1 to 3 (ended: the session moved to another turn)
    leg 2     rehearsal [NATIVE] (ended: the session moved to another turn)
    leg 3     rehearsal [NATIVE] turn 4 (active)
    ");
    let info = home.run_segue_json(["session", "info", &id, "--json"]);
    assert_eq!(info["forks"][0]["id"], fork["id"]);
    assert_eq!(info["moves"][0]["kind"], "revert");
    assert_eq!(info["moves"][0]["undone"], true);
    assert_eq!(
        (&info["moves"][1]["from"], &info["moves"][1]["to"]),
        (&json!(2), &json!(3))
    );
    assert_eq!(info["legs"][2]["turns"], json!({"first": 4, "last": 4}));

    assert_snapshot!(home.run_segue(["session", "fork", &id, "--moved", "7"]), @"
    --- stderr
    error: head move 7 not found: the session has 2 head moves
    hint: run `segue session info` to list the reverts and undos with their numbers
    --- exit 2
    ");
    assert_snapshot!(home.run_segue(["session", "fork", &id, "--moved", "2", "--at", "3"]), @"
    --- stderr
    error: turn 3 does not exist; turns are numbered from 1 to 2
    --- exit 2
    ");
}

#[test]
fn a_session_in_use_can_be_forked_but_not_reverted() {
    let home = new_test_home();
    let id = create_session(&home, 2);
    let mut chat = home.segue_command(["chat", "--resume", &id, "rehearse: hang"]);
    let mut chat = chat
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let is_running = || {
        home.run_segue_json(["session", "info", &id, "--json"])["session"]["status"] == "running"
    };
    while !is_running() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    for args in [
        &["revert", &id, "--to", "1"][..],
        &["revert", &id, "--to", "1", "--dry-run"],
        &["undo", &id],
    ] {
        let output = home.run_segue([&["session"], args].concat());
        assert_eq!(output.code, Some(1), "{output}");
        assert!(output.stderr.contains("is in use by process"), "{output}");
    }
    // A fork contains only the turns that have ended.
    let fork = home.run_segue_json(["session", "fork", &id, "--json"]);
    assert_eq!(fork["turns"], 2);
    chat.kill().unwrap();
    chat.wait().unwrap();
}
