//! `segue session`: list, info, show, rename, revert, undo, fork, delete.

use insta::assert_snapshot;
use segue_testkit::TestHome;

use crate::new_test_home;

/// Creates a session with `turns` turns and returns its id.
fn create_session(home: &TestHome, turns: usize) -> String {
    let first = home.run_segue_json(["chat", "--json", "turn 1"]);
    for n in 2..=turns {
        let _ = home.run_segue_json(["chat", "--json", "--continue", &format!("turn {n}")]);
    }
    first["session_id"].as_str().unwrap().to_owned()
}

/// Returns the prompts of a session.
fn session_prompts(home: &TestHome, id: &str) -> Vec<String> {
    let transcript = home.run_segue_json(["session", "show", "--json", id]);
    let turns = transcript["turns"].as_array().unwrap().clone();
    let text = |turn: &serde_json::Value| {
        turn["messages"][0]["parts"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    turns.iter().map(text).collect()
}

#[test]
fn a_list_numbers_each_session_once() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["session", "list"]), @r#"
    --- stderr
    no sessions in this project (`segue session list --all` lists all projects); start a session with `segue chat "…"`
    --- exit 0
    "#);
    create_session(&home, 2);
    let _ = home.run_segue(["chat", "a second one"]);
    assert_snapshot!(home.run_segue(["session", "list"]), @"
    #  ID                    AGENT      TURNS  UPDATED   TITLE
    1  [SESSION]  rehearsal  1      just now  a second one
    2  [SESSION]  rehearsal  2      just now  turn 1
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["session", "list", "--json", "--limit", "1"]), @r#"
    [{"id":"[SESSION]","provider":"rehearsal","native_session_id":"[NATIVE]","project":"[HOME]/project","cwd":"[HOME]/project","title":"a second one","title_from":"prompt","feature":null,"task":null,"task_state":null,"role":null,"tags":[],"turns":1,"total_tokens":14,"created_at":"[TIME]","updated_at":"[TIME]","status":"idle","forked_from":null}]
    --- exit 0
    "#);
    let transcript = home.run_segue_json(["session", "show", "--json", "2"]);
    assert_eq!(transcript["session"]["title"], "turn 1");
    assert_snapshot!(home.run_segue(["session", "list", "--limit", "1"]).stderr, @"there are more sessions; use --limit 0 to show all");
}

#[test]
fn a_list_is_limited_to_its_project_unless_all_are_requested() {
    let home = new_test_home();
    create_session(&home, 1);
    let other_dir = home.path().join("other-dir");
    std::fs::create_dir(&other_dir).unwrap();
    let count = |args: &[&str]| {
        let output = home
            .segue_command(args)
            .current_dir(&other_dir)
            .output()
            .unwrap();
        let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        list.as_array().unwrap().len()
    };
    assert_eq!(count(&["session", "list", "--json"]), 0);
    assert_eq!(count(&["session", "list", "--json", "--all"]), 1);
    assert_eq!(
        count(&["session", "list", "--json", "--all", "--since", "1h"]),
        1
    );
    assert_eq!(
        count(&[
            "session",
            "list",
            "--json",
            "--all",
            "--since",
            "2999-01-01"
        ]),
        0
    );
    assert_eq!(
        count(&["session", "list", "--json", "--all", "-p", "codex"]),
        0
    );
    assert_snapshot!(home.run_segue(["session", "list", "--since", "soon"]), @r#"
    --- stderr
    error: "soon" is not a valid time
    hint: use a time such as 2025-12-07T14:30:22Z, a date such as 2025-12-07, `today`, `yesterday`, or an age such as 30m, 12h, 7d, 2w, 6mo or 1y
    --- exit 2
    "#);
}

#[test]
fn all_worktrees_of_a_repository_are_one_project() {
    let home = new_test_home();
    let git = |args: &[&str]| {
        let mut command = home.program_command("git");
        command
            .args(["-c", "user.name=t", "-c", "user.email=t@localhost"])
            .args(args);
        assert!(command.output().unwrap().status.success());
    };
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "start"]);
    git(&["worktree", "add", "-q", "../tree"]);
    create_session(&home, 1);
    let output = home
        .segue_command(["session", "list", "--json"])
        .current_dir(home.path().join("tree"))
        .output()
        .unwrap();
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        list.as_array().unwrap().len(),
        1,
        "the worktrees are not one project"
    );
    let output = home
        .segue_command(["chat", "--json", "--continue", "hi"])
        .current_dir(home.path().join("tree"))
        .output()
        .unwrap();
    let turn: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        turn["turn"], 1,
        "the session of another worktree was continued"
    );
}

#[test]
fn info_and_show_print_the_metadata_and_the_transcript() {
    let home = new_test_home();
    create_session(&home, 1);
    let _ = home.run_segue([
        "chat",
        "--continue",
        "rehearse: think hm; tool; ask; say done",
    ]);
    assert_snapshot!(home.run_segue(["session", "info", "latest"]), @r#"
    turn 1
    id        [SESSION]
    agent     rehearsal
    native id [NATIVE]
    directory [HOME]/project
    turns     2, 40 tokens
    status    idle
    created   [TIME] UTC (just now)
    updated   [TIME] UTC (just now)
    leg 1     rehearsal [NATIVE] turns 1 to 2 (active)
    decision  [TIME]: using rehearsal, the built-in offline agent: no other agent was found
    decision  [TIME]: refused "Edit notes.txt" because the user did not or could not answer, and no policy allows it
    --- exit 0
    "#);
    let second = home.run_segue(["session", "show", "latest", "--turn", "2"]);
    assert!(second.stdout.contains("9 messages, 2 turns"), "{second}");
    assert!(!second.stdout.contains("── turn 1"), "{second}");
    assert_snapshot!(home.run_segue(["session", "show", "latest"]), @r#"
    turn 1
    [SESSION] · rehearsal · 9 messages, 2 turns

    ── turn 1 ──────────────────────────────────────────────────────────────────────
    you
      turn 1
    rehearsal
      You said: turn 1
      This is where our conversation begins.

    ── turn 2 ──────────────────────────────────────────────────────────────────────
    you
      rehearse: think hm; tool; ask; say done
    rehearsal
      (thinks) hm
      ▸ Read notes.txt {"path":"notes.txt"}
    tool
      ✓ three lines of notes
    rehearsal
      ▸ Edit notes.txt {"path":"notes.txt"}
    tool
      ✗ not allowed
    rehearsal
      I was not allowed to edit the notes. done
    --- exit 0
    "#);
    assert_snapshot!(home.run_segue(["session", "show", "latest", "--last", "1", "--json"]), @r#"
    {"session":{"id":"[SESSION]","provider":"rehearsal","native_session_id":"[NATIVE]","project":"[HOME]/project","cwd":"[HOME]/project","title":"turn 1","title_from":"prompt","feature":null,"task":null,"task_state":null,"role":null,"tags":[],"turns":2,"total_tokens":40,"created_at":"[TIME]","updated_at":"[TIME]","status":"idle","forked_from":null},"legs":[{"n":1,"provider":"rehearsal","native_session_id":"[NATIVE]","consecutive_failures":0,"total_tokens":40,"context_tokens":28,"opened_at":"[TIME]","ended_at":null,"ended_why":null}],"turns":[{"n":2,"state":"finished","provider":"rehearsal","outside":false,"messages":[{"role":"user","parts":[{"type":"text","text":"rehearse: think hm; tool; ask; say done"}],"at":"[TIME]","complete":true},{"role":"assistant","parts":[{"type":"thought","text":"hm"}],"at":"[TIME]","complete":true},{"role":"assistant","parts":[{"type":"function_call","id":"call-1","name":"Read notes.txt","args":{"path":"notes.txt"}}],"at":"[TIME]","complete":true},{"role":"tool","parts":[{"type":"function_response","call_id":"call-1","name":"Read notes.txt","response":{"output":"three lines of notes"},"is_error":false}],"at":"[TIME]","complete":true},{"role":"assistant","parts":[{"type":"function_call","id":"call-2","name":"Edit notes.txt","args":{"path":"notes.txt"}}],"at":"[TIME]","complete":true},{"role":"tool","parts":[{"type":"function_response","call_id":"call-2","name":"Edit notes.txt","response":{"output":"not allowed"},"is_error":true}],"at":"[TIME]","complete":true},{"role":"assistant","parts":[{"type":"text","text":"I was not allowed to edit the notes. done"}],"at":"[TIME]","complete":true}],"usage":{"input_tokens":19,"output_tokens":9,"cached_tokens":null,"total_tokens":28,"context_tokens":28,"context_window":200000},"error":null,"started_at":"[TIME]","ended_at":"[TIME]"}]}
    --- exit 0
    "#);
    assert_snapshot!(home.run_segue(["session", "info", "latest", "--json"]), @r#"
    {"session":{"id":"[SESSION]","provider":"rehearsal","native_session_id":"[NATIVE]","project":"[HOME]/project","cwd":"[HOME]/project","title":"turn 1","title_from":"prompt","feature":null,"task":null,"task_state":null,"role":null,"tags":[],"turns":2,"total_tokens":40,"created_at":"[TIME]","updated_at":"[TIME]","status":"idle","forked_from":null},"legs":[{"n":1,"provider":"rehearsal","native_session_id":"[NATIVE]","consecutive_failures":0,"total_tokens":40,"context_tokens":28,"opened_at":"[TIME]","ended_at":null,"ended_why":null,"turns":{"first":1,"last":2}}],"forks":[],"moves":[],"standings":[],"origin":null,"decisions":[{"at":"[TIME]","kind":"provider","text":"using rehearsal, the built-in offline agent: no other agent was found","decision":"provider_chosen","provider":"rehearsal","reason":"built_in"},{"at":"[TIME]","kind":"continued","text":"continuing session [SESSION] (turn 1)","decision":"session_continued","session":"[SESSION]","title":"turn 1","purpose":null},{"at":"[TIME]","kind":"permission","text":"refused \"Edit notes.txt\" because the user did not or could not answer, and no policy allows it","decision":"permission_answered","tool":"Edit notes.txt","allowed":false,"by":{"type":"unanswered"}}],"held_by":null}
    --- exit 0
    "#);
}

#[test]
fn invalid_ids_are_refused_by_every_command() {
    let home = new_test_home();
    create_session(&home, 1);
    for command in ["info", "show", "undo", "delete"] {
        for id in ["../x", "", "a b", "a/b", "ü", ".hidden", "x\u{7}"] {
            let output = home.run_segue(["session", command, "--", id]);
            assert_eq!(output.code, Some(2), "{command} {id:?}: {output}");
        }
        assert_eq!(
            home.run_segue(["session", command, "--", "-x"]).code,
            Some(2)
        );
        assert_eq!(
            home.run_segue(["session", command, &"x".repeat(300)]).code,
            Some(2)
        );
    }
    assert_snapshot!(home.run_segue(["session", "info", "../x"]), @"
    --- stderr
    error: invalid value '../x' for '<ID>': a session id may not contain '/'

    For more information, try '--help'.
    --- exit 2
    ");
    assert_snapshot!(home.run_segue(["session", "info", ""]), @"
    --- stderr
    error: invalid value '' for '<ID>': a session id may not be empty

    For more information, try '--help'.
    --- exit 2
    ");
    assert_snapshot!(home.run_segue(["session", "info", "--", "-x"]), @"
    --- stderr
    error: invalid value '-x' for '<ID>': a session id may not start with '-'

    For more information, try '--help'.
    --- exit 2
    ");
    assert_snapshot!(home.run_segue(["chat", "--resume", &"x".repeat(300), "hi"]), @"
    --- stderr
    error: invalid value 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' for '--resume <ID>': a session id may have at most 200 bytes, not 300

    For more information, try '--help'.
    --- exit 2
    ");
}

#[test]
fn a_session_is_found_by_its_id_a_part_of_it_and_the_native_id() {
    let home = new_test_home();
    let id = create_session(&home, 1);
    let native =
        home.run_segue_json(["session", "info", "--json", &id])["session"]["native_session_id"]
            .clone();
    let native = native.as_str().unwrap().to_owned();
    let names = [
        id.as_str(),
        &id[..17],
        &id[16..],
        &id[9..],
        &native,
        &native[..6],
        "latest",
    ];
    for name in names {
        let info = home.run_segue_json(["session", "info", "--json", name]);
        assert_eq!(info["session"]["id"], id.as_str(), "{name}");
    }
    create_session(&home, 1);
    let output = home.run_segue(["session", "info", &id[..8]]);
    assert_eq!(output.code, Some(2));
    assert!(
        output
            .stderr
            .contains("matches 2 sessions\nhint: use one of these IDs:\n  [SESSION]  rehearsal   just now        turn 1\n  [SESSION]  rehearsal   just now        turn 1\n"),
        "{output}"
    );
    assert_snapshot!(home.run_segue(["session", "info", "nothing"]), @r#"
    --- stderr
    error: no session matches "nothing"
    hint: run `segue session list --all` to list all sessions
    --- exit 1
    "#);
    assert_snapshot!(home.run_segue(["session", "info", "77"]), @"
    --- stderr
    error: list number 77 not found in the last list of this project
    hint: run `segue session list` to list sessions
    --- exit 2
    ");
}

#[test]
fn rename_needs_a_title() {
    let home = new_test_home();
    create_session(&home, 1);
    assert_snapshot!(home.run_segue(["session", "rename", "latest", "  a\nbetter name "]), @r#"
    Renamed session [SESSION] to "a better name".
    --- exit 0
    "#);
    assert_snapshot!(home.run_segue(["session", "rename", "latest", "  "]), @r#"
    --- stderr
    error: a title may not be empty
    hint: give a title: `segue session rename latest "the login form"`
    --- exit 2
    "#);
    assert_eq!(
        home.run_segue(["session", "rename", "latest", &"x".repeat(201)])
            .code,
        Some(2)
    );
}

#[test]
fn a_revert_drops_complete_turns_and_undo_restores_them() {
    let home = new_test_home();
    let id = create_session(&home, 4);
    assert_snapshot!(home.run_segue(["session", "revert", &id, "--to", "2"]), @"
    Reverted to turn 2 (dropped 2 turns).
    Undo with: segue session undo [SESSION]
    --- exit 0
    ");
    assert_eq!(session_prompts(&home, &id), ["turn 1", "turn 2"]);

    // The agent receives only the first two turns.
    let turn = home.run_segue_json(["chat", "--json", "--resume", &id, "turn 3b"]);
    assert_eq!(
        (&turn["opened"], turn["leg"].as_u64()),
        (&"briefed".into(), Some(2))
    );
    let native = turn["native_session_id"].as_str().unwrap();
    let native_text =
        std::fs::read_to_string(home.segue_home().join(format!("rehearsal/{native}.jsonl")))
            .unwrap();
    assert!(
        native_text.contains("> turn 2") && native_text.contains("turn 3b"),
        "{native_text}"
    );
    assert!(
        !native_text.contains("turn 3\\n") && !native_text.contains("turn 4"),
        "{native_text}"
    );

    assert_snapshot!(home.run_segue(["session", "undo", &id]), @"
    Undid the revert: now at turn 4 (was at turn 3).
    Dropped 1 turn made since the revert. Continue from there with: segue session fork [SESSION] --moved 2
    --- stderr
    segue: reopened native session rehearsal:[NATIVE], which contains all turns of [SESSION]
    --- exit 0
    ");
    assert_eq!(
        session_prompts(&home, &id),
        ["turn 1", "turn 2", "turn 3", "turn 4"]
    );
    assert_snapshot!(home.run_segue(["session", "undo", &id]), @"
    --- stderr
    error: session [SESSION] has no revert to undo
    --- exit 2
    ");
    let turn = home.run_segue_json(["chat", "--json", "--resume", &id, "turn 5"]);
    assert_eq!(turn["turn"], 5);
    assert_eq!(session_prompts(&home, &id).last().unwrap(), "turn 5");
}

#[test]
fn a_revert_to_a_missing_turn_has_no_effect() {
    let home = new_test_home();
    let id = create_session(&home, 2);
    assert_snapshot!(home.run_segue(["session", "revert", &id, "--to", "0"]), @"
    --- stderr
    error: turn 0 does not exist; turns are numbered from 1 to 2
    --- exit 2
    ");
    assert_snapshot!(home.run_segue(["session", "revert", &id, "--to", "-1"]), @"
    --- stderr
    error: turn -1 does not exist; turns are numbered from 1 to 2
    --- exit 2
    ");
    assert_snapshot!(home.run_segue(["session", "revert", &id, "--to", "9"]), @"
    --- stderr
    error: turn 9 does not exist; turns are numbered from 1 to 2
    --- exit 2
    ");
    assert_snapshot!(home.run_segue(["session", "revert", &id, "--to", "two"]), @"
    --- stderr
    error: invalid value 'two' for '--to <TURN>': not a turn number

    For more information, try '--help'.
    --- exit 2
    ");
    assert_snapshot!(home.run_segue(["session", "revert", &id, "--to", "2"]), @"
    Already at turn 2, no changes made.
    --- exit 0
    ");
    assert_eq!(session_prompts(&home, &id), ["turn 1", "turn 2"]);
}

#[test]
fn a_fork_shares_the_earlier_turns() {
    let home = new_test_home();
    let id = create_session(&home, 3);
    assert_snapshot!(home.run_segue(["session", "fork", &id, "--at", "2"]), @r#"
    Forked [SESSION] after turn 2 as [SESSION]. Continue with: segue chat --resume [SESSION] "…"
    --- exit 0
    "#);
    let fork = home.run_segue_json(["session", "list", "--json"])[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(session_prompts(&home, &fork), ["turn 1", "turn 2"]);
    let turn = home.run_segue_json(["chat", "--json", "--resume", &fork, "its own"]);
    assert_eq!(turn["opened"], "briefed");
    assert_eq!(
        session_prompts(&home, &fork),
        ["turn 1", "turn 2", "its own"]
    );
    assert_eq!(session_prompts(&home, &id), ["turn 1", "turn 2", "turn 3"]);
    let info = home.run_segue_json(["session", "info", "--json", &fork]);
    assert_eq!(info["session"]["forked_from"]["id"], id.as_str());
    assert_snapshot!(home.run_segue(["session", "fork", &id, "--at", "7"]), @"
    --- stderr
    error: turn 7 does not exist; turns are numbered from 1 to 3
    --- exit 2
    ");

    assert_eq!(
        home.run_segue(["session", "delete", &id, "--yes"]).code,
        Some(0)
    );
    assert_eq!(
        session_prompts(&home, &fork),
        ["turn 1", "turn 2", "its own"],
        "a shared turn was deleted"
    );
}

#[test]
fn a_delete_needs_a_confirmation_and_an_id() {
    let home = new_test_home();
    let id = create_session(&home, 1);
    let _ = home.run_segue(["session", "list"]);
    assert_snapshot!(home.run_segue(["session", "delete", "1", "--yes"]), @"
    --- stderr
    error: list number 1 is not accepted here: it may refer to another session by now
    hint: use the session ID or a unique prefix of it
    --- exit 2
    ");
    assert_snapshot!(home.run_segue(["session", "delete", &id]), @"
    --- stderr
    error: deleting needs confirmation, but standard input is not a terminal
    hint: use `--yes` to skip the confirmation
    --- exit 2
    ");
    assert_eq!(session_prompts(&home, &id), ["turn 1"]);
    assert_snapshot!(home.run_segue(["session", "delete", &id, "--yes"]), @"
    Deleted [SESSION] (turn 1).
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["session", "info", &id]), @r#"
    --- stderr
    error: no session matches "[SESSION]"
    hint: run `segue session list --all` to list all sessions
    --- exit 1
    "#);
}
