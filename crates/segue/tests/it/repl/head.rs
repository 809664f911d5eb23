//! `/backtoturn`, `/undo` and `/fork`

use insta::assert_snapshot;

use super::{repl, repl_with};
use crate::native::{self, ID};
use crate::resume::put_program;
use crate::{count_sessions, world};

#[test]
fn a_conversation_goes_back_and_forth() {
    let world = world();
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
    assert_snapshot!(repl(&world, &lines), @r#"
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
    world.assert_nothing_runs();
}

#[test]
fn a_fork_is_gone_on_with_and_left_again() {
    let world = world();
    assert_snapshot!(repl(&world, &["/fork", "one", "two", "/fork 1", "other two", "/history", "/fork 7"]), @"
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
    assert_eq!(count_sessions(&world), 2);
    world.assert_nothing_runs();
}

#[test]
fn what_cannot_be_done_leaves_a_native_session_with_its_agent() {
    let world = world();
    native::put(&world, ID, "project");
    put_program(&world, "claude");
    let huge = "/backtoturn 99999999999999999999";
    let lines = ["/backtoturn", "/backtoturn 99", huge, "/fork 99", "/undo"];
    assert_snapshot!(repl_with(&world, &["repl", "--resume", ID], &lines), @"
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
    let listed = world.json(["session", "list", "--json"]);
    assert_eq!(listed[0]["id"], serde_json::Value::Null, "{listed:#}");
}
