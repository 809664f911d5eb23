//! The REPL commands `/backtoturn`, `/undo` and `/fork`.

use std::fs;

use insta::assert_snapshot;

use super::{run_repl, run_repl_with_args};
use crate::index::{NativeSessionFile, SessionFileAgent};
use crate::native::{self, NATIVE_ID};
use crate::resume::install_fake_program;
use crate::{count_sessions, new_test_home};

#[test]
fn a_conversation_is_reverted_and_undone() {
    let home = new_test_home();
    let lines = [
        "/backtoturn 1",
        "one",
        "two",
        "three",
        "/backtoturn",
        "/backtoturn x",
        "/backtoturn 0",
        "/backtoturn 3",
        "/backtoturn 1",
        "where are we?",
        "/undo",
        "and now?",
        "/undo",
    ];
    assert_snapshot!(run_repl(&home, &lines), @r#"
    You said: one
    This is where our conversation begins.
    You said: two
    This is turn 2 of our conversation; before this you said: one
    You said: three
    This is turn 3 of our conversation; before this you said: two
    You said: where are we?
    I received a brief of our conversation.
    You said: and now?
    This is turn 4 of our conversation; before this you said: three
    --- stderr
    error: no session yet
    hint: send a prompt to start a session
    segue: using rehearsal, the built-in offline agent: no other agent was found
    Current session has 3 turns.
    Usage: /backtoturn N
    /history shows the numbers. Later turns leave the session; /undo restores them.
    error: "x" is not a turn number
    hint: run `/history` to show the turn numbers
    error: turn 0 does not exist; turns are numbered from 1 to 3
    Already at turn 3, no changes made.
    Reverted to turn 1 (dropped 2 turns).
    Undo with: /undo
    segue: started a new native session with a brief of this session: the session was moved to another turn by a revert or an undo
    segue: reopened native session rehearsal:[NATIVE], which contains all turns of [SESSION]
    Undid the revert: now at turn 3 (was at turn 2).
    Dropped 1 turn made since the revert. Continue from there with: segue session fork [SESSION] --moved 2
    error: session [SESSION] has no revert to undo
    --- exit 2
    "#);
    home.assert_no_processes();
}

#[test]
fn a_fork_becomes_the_current_session() {
    let home = new_test_home();
    assert_snapshot!(run_repl(&home, &["/fork", "one", "two", "/fork 1", "other two", "/history", "/fork 7"]), @"
    You said: one
    This is where our conversation begins.
    You said: two
    This is turn 2 of our conversation; before this you said: one
    You said: other two
    I received a brief of our conversation.
    one
    [SESSION] · rehearsal · 4 messages, 2 turns

    ── turn 1 ──────────────────────────────────────────────────────────────────────
    you
      one
    rehearsal
      You said: one
      This is where our conversation begins.

    ── turn 2 ──────────────────────────────────────────────────────────────────────
    you
      other two
    rehearsal
      You said: other two
      I received a brief of our conversation.
    --- stderr
    error: no session yet
    hint: send a prompt to start a session
    segue: using rehearsal, the built-in offline agent: no other agent was found
    switched to [SESSION], a fork of [SESSION] after turn 1; return with /resume [SESSION]
    segue: started a new native session with a brief of this session: the session has no native session yet
    error: turn 7 does not exist; turns are numbered from 1 to 2
    --- exit 2
    ");
    assert_eq!(count_sessions(&home), 2);
    home.assert_no_processes();
}

#[test]
fn an_impossible_command_does_not_adopt_a_native_session() {
    let home = new_test_home();
    native::write_claude_session(&home, NATIVE_ID, "project");
    install_fake_program(&home, "claude");
    let huge = "/backtoturn 99999999999999999999";
    let lines = ["/backtoturn", "/backtoturn 99", huge, "/fork 99", "/undo"];
    assert_snapshot!(run_repl_with_args(&home, &["repl", "--resume", NATIVE_ID], &lines), @"
    --- stderr
    Current session has 3 turns.
    Usage: /backtoturn N
    /history shows the numbers. Later turns leave the session; /undo restores them.
    error: turn 99 does not exist; turns are numbered from 1 to 3
    error: turn 9223372036854775807 does not exist; turns are numbered from 1 to 3
    error: turn 99 does not exist; turns are numbered from 1 to 3
    error: no revert to undo
    --- exit 2
    ");
    let listed = home.run_segue_json(["session", "list", "--json"]);
    assert_eq!(listed[0]["id"], serde_json::Value::Null, "{listed:#}");
}

#[test]
fn a_decision_suggests_commands_of_its_frontend() {
    let rewind = "codex rewound to turn 1: moved the head with it, added 1 turn made there and dropped 2 turns; ";
    for (args, lines, undo) in [
        (
            &["repl", "-p", "rehearsal", "--resume"][..],
            &["hello"][..],
            "`/undo` restores them",
        ),
        (
            &["repl", "--resume"],
            &["/handoff rehearsal"],
            "`/undo` restores them",
        ),
        (
            &["chat", "-p", "rehearsal", "hello", "--resume"],
            &[],
            "`segue session undo [SESSION]` restores them",
        ),
    ] {
        let home = new_test_home();
        let mut session_file =
            NativeSessionFile::new(&home, SessionFileAgent::Codex, 7, &home.project());
        (0..3).for_each(|_| session_file.append_turn());
        let adopted = home.run_segue_json(["session", "adopt", "--json", &session_file.id]);
        let id = adopted["id"].as_str().unwrap();
        // The user rewound the native session to its first turn and sent another prompt.
        let mut text = session_file.full_text();
        text.push_str(
            r#"{"type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":2}}"#,
        );
        text.push('\n');
        text.push_str(&session_file.next_turn_lines());
        fs::write(&session_file.path, text).unwrap();
        let output = run_repl_with_args(&home, &[args, &[id]].concat(), lines);
        let line = format!("segue: {rewind}{undo}\n");
        assert!(output.stderr.contains(&line), "{output}");
    }
}
