//! Going from session to session, and from agent to agent, within one conversation.

use insta::assert_snapshot;

use super::{create_session, run_repl, run_with_lines};
use crate::{count_sessions, new_test_home};

#[test]
fn a_session_is_resumed_by_number_or_id_and_a_failed_resume_changes_nothing() {
    let home = new_test_home();
    let older = create_session(&home, "the older one");
    create_session(&home, "the newer one");
    let lines = [
        "/sessions",
        "/resume 2",
        "/resume 2",
        "where are we?",
        "/resume nosuch",
        "still there?",
        "/session",
    ];
    assert_snapshot!(run_repl(&home, &lines), @r#"
    #  ID                    AGENT      TURNS  UPDATED   TITLE
    1  [SESSION]  rehearsal  1      just now  the newer one
    2  [SESSION]  rehearsal  1      just now  the older one
    You said: where are we?
    This is turn 2 of our conversation; before this you said: the older one
    You said: still there?
    This is turn 3 of our conversation; before this you said: where are we?
    id        [SESSION]
    title     the older one
    agent     rehearsal
    native id [NATIVE]
    turns     3
    tokens    106
    opened    live: the agent is still running
    --- stderr
    going on with [SESSION] (the older one), 1 turn(s), with rehearsal
    you are in this session already
    error: no session matches "nosuch"
    hint: `/sessions all` shows every session there is
    --- exit 1
    "#);
    let info = home.run_segue_json(["session", "info", &older, "--json"]);
    assert_eq!(info["session"]["turns"], 3, "{info:#}");
    let output = run_repl(&home, &[&format!("/resume {older}"), "/history 1", "hi"]);
    assert!(output.stdout.contains("── turn 3 "), "{output}");
    assert!(output.stdout.contains("This is turn 4"), "{output}");
    let removed_dir = home.path().join("project/gone");
    std::fs::create_dir(&removed_dir).unwrap();
    let mut command = home.segue_command(["chat", "over there"]);
    command.current_dir(&removed_dir).output().unwrap();
    std::fs::remove_dir(&removed_dir).unwrap();
    let output = run_repl(&home, &["/sessions all", "/resume 1", "/session"]);
    assert!(output.stderr.contains("is not there"), "{output}");
    assert!(output.stderr.contains("no session yet"), "{output}");
}

#[test]
fn a_session_whose_agent_is_not_installed_is_not_resumed() {
    let home = new_test_home();
    let sample = include_str!("../../../../segue-catalog/tests/it/samples/claude.jsonl");
    let directory = home.path().join(".claude/projects/-somewhere");
    std::fs::create_dir_all(&directory).unwrap();
    let quoted_project = format!("{:?}", home.project().display().to_string());
    let file = directory.join("0b5e4c3a-1111-4222-8333-444455556666.jsonl");
    std::fs::write(file, sample.replace("\"/w\"", &quoted_project)).unwrap();
    let lines = ["hello", "/resume 0b5e4c3a", "still there?"];
    assert_snapshot!(run_repl(&home, &lines), @"
    You said: hello
    This is where our conversation begins.
    You said: still there?
    This is turn 2 of our conversation; before this you said: hello
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other was found on this machine
    error: claude was not found on this machine
    hint: put `claude` on PATH, or set `path` in [claude] of the configuration
    --- exit 2
    ");
}

#[test]
fn the_current_session_is_renamed_and_a_new_one_started() {
    let home = new_test_home();
    let lines = [
        "first",
        "/rename   a better title",
        "/new",
        "/rename x",
        "second",
        "/usage",
    ];
    assert_snapshot!(run_repl(&home, &lines), @r#"
    You said: first
    This is where our conversation begins.
    You said: second
    This is where our conversation begins.
    last turn 1 in, 9 out, 10 in all
    context   10 of 200,000 (0 %)
    session   10 in 1 turn(s)
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other was found on this machine
    [SESSION] is now called "a better title"
    the next prompt starts a new session
    error: there is no session yet
    hint: the first prompt starts one
    --- exit 1
    "#);
    assert_eq!(count_sessions(&home), 2);
    home.assert_no_processes();
}

#[test]
fn a_change_of_agent_briefs_the_new_agent() {
    let home = new_test_home();
    // The same agent under another name, over ACP.
    let config = home.path().join("config.toml");
    let program = env!("CARGO_BIN_EXE_segue");
    let directory = home.path().join("second");
    let text =
        format!("[acp.second]\npath = {program:?}\nargs = [\"rehearsal-agent\", {directory:?}]\n");
    std::fs::write(&config, text).unwrap();
    let lines = [
        "the password is swordfish",
        "/agent nobody",
        "/agent rehearsal",
        "/agent acp:second",
        "and you?",
        "/session",
    ];
    let mut command = home.segue_command(["repl", "-p", "rehearsal"]);
    command.env("SEGUE_CONFIG", &config);
    let output = run_with_lines(&home, command, &lines);
    assert_snapshot!(output, @"
    You said: the password is swordfish
    This is where our conversation begins.
    You said: and you?
    I was told what was said before.
    id        [SESSION]
    title     the password is swordfish
    agent     acp:second
    native id [NATIVE]
    turns     2
    tokens    72
    opened    briefed: acp:second takes over from rehearsal
    --- stderr
    error: provider nobody can't be driven by this segue
    hint: it drives: acp:second, rehearsal; any other that speaks ACP needs [acp.NAME] in the configuration
    rehearsal answers already
    the next prompt goes to acp:second, which is told what was said
    segue: started a new native session and told it the story so far: acp:second takes over from rehearsal
    --- exit 2
    ");
    home.assert_no_processes();
}
