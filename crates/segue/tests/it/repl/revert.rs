//! `/backtoturn`, `/undo` and `/fork`

use insta::assert_snapshot;

use super::{run_repl, run_repl_with_args};
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
    I was told what was said before.
    You said: and now?
    This is turn 4 of our conversation; before this you said: three
    --- stderr
    error: there is no session yet
    hint: the first prompt starts one
    segue: using rehearsal, the built-in offline agent: no other was found on this machine
    Current session has 3 turn(s).
    Usage: /backtoturn N
    /history shows the numbers. All turns after turn N will be removed; /undo brings them back.
    error: "x" is not the number of a turn
    hint: /history shows the numbers
    error: turn 0 does not exist; turns are numbered from 1 to 3
    Already at turn 3, no changes made.
    Reverted to turn 1 (removed 2 turn(s)).
    /undo takes it back.
    segue: started a new native session and told it the story so far: the session was moved to another turn
    segue: asking rehearsal to go on with its own session [NATIVE], which knows all turns of [SESSION]
    Back at turn 3 (it was at turn 2).
    The 1 turn(s) made since the revert are kept; go on with them: segue session fork [SESSION] --moved 2
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
    I was told what was said before.
    one
    [SESSION] · rehearsal · 4 message(s), 2 turn(s)

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
      I was told what was said before.
    --- stderr
    error: there is no session yet
    hint: the first prompt starts one
    segue: using rehearsal, the built-in offline agent: no other was found on this machine
    going on with [SESSION], which branches off from [SESSION] after turn 1; /resume [SESSION] goes back
    segue: started a new native session and told it the story so far: the session has no native session yet
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
    Current session has 3 turn(s).
    Usage: /backtoturn N
    /history shows the numbers. All turns after turn N will be removed; /undo brings them back.
    error: turn 99 does not exist; turns are numbered from 1 to 3
    error: turn 9223372036854775807 does not exist; turns are numbered from 1 to 3
    error: turn 99 does not exist; turns are numbered from 1 to 3
    error: there is no revert to undo
    --- exit 2
    ");
    let listed = home.run_segue_json(["session", "list", "--json"]);
    assert_eq!(listed[0]["id"], serde_json::Value::Null, "{listed:#}");
}
