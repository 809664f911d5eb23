//! Switching between sessions and agents within one REPL.

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
    resuming [SESSION] (the older one), 1 turn, with rehearsal
    already in this session
    error: no session matches "nosuch"
    hint: run `/sessions all` to list all sessions
    --- exit 1
    "#);
    let info = home.run_segue_json(["session", "info", &older, "--json"]);
    assert_eq!(info["session"]["turns"], 3, "{info:#}");
    let output = run_repl(&home, &[&format!("/resume {older}"), "/history 1", "hi"]);
    assert!(output.stdout.contains("── turn 3 "), "{output}");
    assert!(output.stdout.contains("This is turn 4"), "{output}");
    let removed_dir = home.path().join("project/removed");
    std::fs::create_dir(&removed_dir).unwrap();
    let mut command = home.segue_command(["chat", "over there"]);
    command.current_dir(&removed_dir).output().unwrap();
    std::fs::remove_dir(&removed_dir).unwrap();
    let output = run_repl(&home, &["/sessions all", "/resume 1", "/session"]);
    assert!(output.stderr.contains("no longer exists"), "{output}");
    assert!(output.stderr.contains("no session yet"), "{output}");
}

#[test]
fn a_session_whose_agent_is_not_installed_is_not_resumed() {
    let home = new_test_home();
    let sample = include_str!("../../../../segue-providers/tests/it/samples/claude.jsonl");
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
    segue: using rehearsal, the built-in offline agent: no other agent was found
    error: agent `claude` not found on this machine
    hint: put `claude` on PATH, or set `claude.path` in the configuration
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
    last turn 1 input, 9 output, 10 total tokens
    context   10 of 200,000 tokens (0 %)
    session   10 tokens in 1 turn
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other agent was found
    renamed [SESSION] to "a better title"
    the next prompt starts a new session
    error: no session yet
    hint: send a prompt to start a session
    --- exit 1
    "#);
    assert_eq!(count_sessions(&home), 2);
    home.assert_no_processes();
}

#[test]
fn a_change_of_agent_briefs_the_new_agent() {
    let home = new_test_home();
    // The rehearsal agent under another name, over ACP.
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
    I received a brief of our conversation.
    id        [SESSION]
    title     the password is swordfish
    agent     acp:second
    native id [NATIVE]
    turns     2
    tokens    70
    opened    briefed: acp:second took over from rehearsal
    --- stderr
    error: unknown agent `nobody`
    hint: available agents: acp:second, rehearsal; configure another ACP agent as [acp.NAME]
    already using rehearsal
    the next prompt goes to acp:second, with a brief of this session
    segue: started a new native session with a brief of this session: acp:second took over from rehearsal
    --- exit 2
    ");
    home.assert_no_processes();
}
