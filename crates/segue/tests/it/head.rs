//! `segue session revert`, `undo` and `fork`: what they say, what they list, and what they leave alone.

use std::fs;

use insta::assert_snapshot;
use segue_testkit::World;
use serde_json::{Value, json};

use crate::world;

const ID: &str = "5e11a000-1111-4222-8333-444455556666";

/// A session with this many turns; returns its id.
fn session(world: &World, turns: usize) -> String {
    let first = world.json(["chat", "--json", "--new", "turn 1"]);
    let id = first["session_id"].as_str().unwrap().to_owned();
    for n in 2..=turns {
        let _ = world.json(["chat", "--json", "--resume", &id, &format!("turn {n}")]);
    }
    id
}

/// A session of Claude Code's own with three turns, of which the last two changed files.
fn put(world: &World) {
    let project = world.project();
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
    let asks = |text: &str| ("user", json!({"role": "user", "content": text}));
    let says = |text: &str| {
        let block = json!({"type": "text", "text": text});
        let message = json!({"role": "assistant", "content": [block], "stop_reason": "end_turn"});
        ("assistant", message)
    };
    let said = [
        asks("look around"),
        says("I did"),
        asks("write the notes"),
        call(
            "c1",
            "Write",
            json!({"file_path": file("notes.md"), "content": "x"}),
        ),
        result("c1", false),
        call("c2", "Edit", json!({"file_path": file("broken.rs")})),
        result("c2", true),
        says("written"),
        asks("and the rest"),
        call("c3", "Edit", json!({"file_path": file("notes.md")})),
        result("c3", false),
        call("c4", "Bash", json!({"command": "make"})),
        result("c4", false),
        call("c5", "Edit", json!({"file_path": "/etc/hosts"})),
        result("c5", false),
        says("done"),
    ];
    let mut lines = Vec::new();
    let mut parent = Value::Null;
    for (index, (kind, message)) in said.into_iter().enumerate() {
        let uuid = format!("00000000-0000-4000-8000-{index:012}");
        let line = json!({
            "type": kind, "message": message, "uuid": uuid, "parentUuid": parent, "sessionId": ID,
            "cwd": project, "timestamp": format!("2026-01-02T03:04:{index:02}Z"), "isSidechain": false,
        });
        lines.push(format!("{line}\n"));
        parent = uuid.into();
    }
    let path = world.path().join(".claude/projects/-somewhere");
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join(format!("{ID}.jsonl")), lines.concat()).unwrap();
}

#[test]
fn a_revert_lists_the_files_that_stay_as_they_are() {
    let world = world();
    put(&world);
    assert_snapshot!(world.segue(["session", "revert", ID, "--to", "1", "--dry-run"]), @"
    Would revert to turn 1 and remove 2 turn(s):
      turn 2    write the notes
      turn 3    and the rest
    The files that those turns changed would stay as they are:
      edited   notes.md
      edited   /etc/hosts
      and whatever 1 command(s) changed
    Nothing was changed.
    --- exit 0
    ");
    let list = world.json(["session", "list", "--json"]);
    assert_eq!(list[0]["id"], Value::Null, "it was not even taken over");

    assert_snapshot!(world.segue(["session", "revert", ID, "--to", "2"]), @"
    Reverted to turn 2 (removed 1 turn(s)).
    The files that those turns changed stay as they are:
      edited   notes.md
      edited   /etc/hosts
      and whatever 1 command(s) changed
    Take it back with: segue session undo [SESSION]
    --- stderr
    segue: took claude:5e11a000-1111-4222-8333-444455556666 over as session [SESSION], with its 3 turns
    --- exit 0
    ");
    let plan = ["session", "revert", ID, "--to", "1", "--dry-run", "--json"];
    assert_snapshot!(world.segue(plan), @r#"
    {"dry_run":true,"turns_before":2,"turns":1,"dropped":[{"n":2,"title":"write the notes"}],"files":[{"path":"notes.md","change":"edited"}],"commands":0}
    --- exit 0
    "#);
    let done = world.json(["session", "revert", ID, "--to", "1", "--json"]);
    assert_eq!(
        (&done["turns"], &done["turns_before"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(
        done["files"],
        json!([{"path": "notes.md", "change": "edited"}])
    );
    assert_eq!(done["commands"], 0);
    let undone = world.json(["session", "undo", ID, "--json"]);
    assert_eq!(
        (&undone["turns"], &undone["turns_before"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(undone["set_aside"], Value::Null);
}

#[test]
fn what_the_rehearsal_agent_edits_is_listed() {
    let world = world();
    let id = session(&world, 1);
    let edit = ["--permissions", "allow-edits", "rehearse: ask"];
    let _ = world.json([&["chat", "--json", "--resume", &id][..], &edit].concat());
    let plan = ["session", "revert", &id, "--to", "1", "--dry-run", "--json"];
    assert_eq!(
        world.json(plan)["files"],
        json!([{"path": "notes.txt", "change": "edited"}])
    );
}

#[test]
fn an_undo_to_another_turn_of_the_same_number_says_so() {
    let world = world();
    let id = session(&world, 2);
    let _ = world.segue(["session", "revert", &id, "--to", "1"]);
    let _ = world.json(["chat", "--json", "--resume", &id, "turn 2b"]);
    let undone = world.segue(["session", "undo", &id]);
    assert!(
        undone
            .stdout
            .starts_with("Back at turn 2 as it was before the revert.\nThe 1 turn(s) made since"),
        "{undone}"
    );
}

#[test]
fn nothing_is_shown_to_be_changed_by_a_plan_that_cannot_be() {
    let world = world();
    let id = session(&world, 2);
    for (to, message) in [
        ("0", "turn 0 does not exist; turns are numbered from 1 to 2"),
        ("-1", "turn -1 does not exist"),
        ("3", "turn 3 does not exist"),
        (
            "99999999999999999999",
            "does not exist; turns are numbered from 1 to 2",
        ),
        ("two", "it is not the number of a turn"),
    ] {
        let ran = world.segue(["session", "revert", &id, "--to", to, "--dry-run"]);
        assert_eq!(ran.code, Some(2), "{ran}");
        assert!(ran.stderr.contains(message), "{ran}");
    }
    assert_snapshot!(world.segue(["session", "revert", &id, "--to", "2", "--dry-run"]), @"
    Already at turn 2, no changes made.
    --- exit 0
    ");
    let same = world.json(["session", "revert", &id, "--to", "2", "--json"]);
    assert_eq!(
        (&same["turns"], &same["turns_before"]),
        (&json!(2), &json!(2))
    );
    let moves = &world.json(["session", "info", &id, "--json"])["moves"];
    assert_eq!(moves, &json!([]), "nothing was moved");
}

#[test]
fn what_an_undo_leaves_behind_can_be_gone_on_with() {
    let world = world();
    let id = session(&world, 3);
    let native =
        world.json(["session", "info", &id, "--json"])["session"]["native_session_id"].clone();
    let _ = world.segue(["session", "revert", &id, "--to", "1"]);
    let _ = world.json(["chat", "--json", "--resume", &id, "another way"]);
    let undone = world.json(["session", "undo", &id, "--json"]);
    assert_eq!(undone["set_aside"], json!({"turns": 1, "by_move": 2}));
    assert_eq!(
        undone["native_session_id"], native,
        "the first native session goes on"
    );
    let next = world.json(["chat", "--json", "--resume", &id, "turn 4"]);
    assert_eq!(
        (&next["native_session_id"], &next["leg"]),
        (&native, &json!(3))
    );
    assert_eq!(next["opened"], "resumed", "{next:#}");

    let fork = world.json(["session", "fork", &id, "--moved", "2", "--json"]);
    assert_eq!(fork["forked_from"], json!({"id": id, "turn": 2}));
    let shown = world.json(["session", "show", "--json", fork["id"].as_str().unwrap()]);
    let prompt = &shown["turns"][1]["messages"][0]["parts"][0]["text"];
    assert_eq!(prompt, "another way");
    let info = world.segue(["session", "info", &id]).stdout;
    let about = |line: &&str| {
        ["fork ", "move ", "leg "]
            .iter()
            .any(|name| line.starts_with(name))
    };
    assert_snapshot!(info.lines().filter(about).collect::<Vec<_>>().join("\n"), @"
    fork      [SESSION] after turn 2: turn 1 ([TIME])
    move 1    revert: turn 3 → turn 1 ([TIME], undone since)
    move 2    undo: turn 2 → turn 3 ([TIME])
    leg 1     rehearsal [NATIVE] turns 1 to 3 (ended: left, the session went to another turn)
    leg 2     rehearsal [NATIVE] (ended: left, the session went to another turn)
    leg 3     rehearsal [NATIVE] turn 4 (active)
    ");
    let info = world.json(["session", "info", &id, "--json"]);
    assert_eq!(info["forks"][0]["id"], fork["id"]);
    assert_eq!(info["moves"][0]["kind"], "revert");
    assert_eq!(info["moves"][0]["undone"], true);
    assert_eq!(
        (&info["moves"][1]["from"], &info["moves"][1]["to"]),
        (&json!(2), &json!(3))
    );
    assert_eq!(info["legs"][2]["turns"], json!({"first": 4, "last": 4}));

    assert_snapshot!(world.segue(["session", "fork", &id, "--moved", "7"]), @"
    --- stderr
    error: there is no move 7; the session was reverted or undone 2 time(s)
    hint: `segue session info` lists the moves with their numbers
    --- exit 2
    ");
    assert_snapshot!(world.segue(["session", "fork", &id, "--moved", "2", "--at", "3"]), @"
    --- stderr
    error: turn 3 does not exist; turns are numbered from 1 to 2
    --- exit 2
    ");
}

#[test]
fn a_session_that_is_in_use_stays_where_it_is() {
    let world = world();
    let id = session(&world, 2);
    let mut chat = world.command(["chat", "--resume", &id, "rehearse: hang"]);
    let mut chat = chat
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let running =
        || world.json(["session", "info", &id, "--json"])["session"]["status"] == "running";
    while !running() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    for args in [
        &["revert", &id, "--to", "1"][..],
        &["revert", &id, "--to", "1", "--dry-run"],
        &["undo", &id],
    ] {
        let ran = world.segue([&["session"], args].concat());
        assert_eq!(ran.code, Some(1), "{ran}");
        assert!(ran.stderr.contains("is in use by process"), "{ran}");
    }
    // A fork takes what has ended.
    let fork = world.json(["session", "fork", &id, "--json"]);
    assert_eq!(fork["turns"], 2);
    chat.kill().unwrap();
    chat.wait().unwrap();
}
