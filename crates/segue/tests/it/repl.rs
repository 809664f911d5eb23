//! `segue repl`: in a pipe, and at a terminal.

mod revert;
mod sessions;
mod terminal;

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use insta::assert_snapshot;
use segue_testkit::{ProgramOutput, TestHome};

use crate::{count_sessions, new_test_home};

/// What `segue repl` says to these lines.
fn run_repl(home: &TestHome, lines: &[&str]) -> ProgramOutput {
    run_repl_with_args(home, &["repl"], lines)
}

fn run_repl_with_args(home: &TestHome, args: &[&str], lines: &[&str]) -> ProgramOutput {
    let mut input = lines.join("\n");
    input.push('\n');
    home.run_segue_with_input(args, input.as_bytes())
}

/// A session to begin with; its id.
fn create_session(home: &TestHome, prompt: &str) -> String {
    let turn = home.run_segue_json(["chat", "--json", "--new", prompt]);
    turn["session_id"].as_str().unwrap().to_owned()
}

#[test]
fn every_line_is_a_turn_of_the_same_session_and_agent() {
    let home = new_test_home();
    assert_snapshot!(run_repl(&home, &["hello", "", "  ", "and now?", "/session"]), @"
    You said: hello
    This is where our conversation begins.
    You said: and now?
    This is turn 2 of our conversation; before this you said: hello
    id        [SESSION]
    title     hello
    agent     rehearsal
    native id [NATIVE]
    turns     2
    tokens    38
    opened    live: the agent is still running
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other was found on this machine
    --- exit 0
    ");
    home.assert_no_processes();
    let transcript = home.run_segue_json(["session", "show", "latest", "--json"]);
    assert_eq!(
        transcript["legs"].as_array().unwrap().len(),
        1,
        "{transcript:#}"
    );
    assert!(
        !home.segue_home().join("history").exists(),
        "a pipe leaves no history"
    );
}

#[test]
fn continued_and_fenced_lines_are_one_prompt() {
    let home = new_test_home();
    let lines = [
        "one \\",
        "two",
        "```",
        "/exit",
        "",
        "a \\",
        "```",
        "//help",
        "```",
        "open to the end",
    ];
    let output = run_repl(&home, &lines);
    assert_eq!(output.code, Some(0), "{output}");
    let transcript = home.run_segue_json(["session", "show", "latest", "--json"]);
    let prompts: Vec<&str> = transcript["turns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| turn["messages"][0]["parts"][0]["text"].as_str().unwrap())
        .collect();
    let expected = [
        "one \ntwo",
        "```\n/exit\n\na \\\n```",
        "/help",
        "```\nopen to the end",
    ];
    assert_eq!(prompts, expected);
}

#[test]
fn a_failed_turn_is_reported_and_the_next_turn_runs() {
    let home = new_test_home();
    let run_now = |lines: &[&str]| run_repl_with_args(&home, &["repl", "--now"], lines);
    assert_snapshot!(run_now(&["first", "rehearse: fail out of tea", "third"]), @r#"
    You said: first
    This is where our conversation begins.
    You said: third
    This is turn 3 of our conversation; before this you said: rehearse: fail out of tea
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other was found on this machine
    error: the agent answered the prompt with an error: out of tea
    hint: what was said is kept; ask again
    --- exit 3
    "#);
    let output = run_now(&["first", "rehearse: die", "third", "/session"]);
    assert!(
        output
            .stdout
            .contains("before this you said: rehearse: die"),
        "{output}"
    );
    assert!(output.stdout.contains("opened    resumed"), "{output}");
    assert_eq!(output.code, Some(3), "{output}");
    home.assert_no_processes();
}

#[test]
fn an_unknown_command_is_never_sent() {
    let home = new_test_home();
    assert_snapshot!(run_repl(&home, &["/sesions", "/etc/hosts is what?", "/resume", "/new x"]), @"
    --- stderr
    error: there is no command /sesions; nothing was sent
    hint: did you mean /sessions? /help lists all
    error: there is no command /etc/hosts; nothing was sent
    hint: /help lists the commands; begin with // to send a text that begins with /
    error: say it so: /resume ID|NUMBER
    error: /new takes nothing
    --- exit 2
    ");
    assert_eq!(count_sessions(&home), 0);
    let output = home.run_segue_with_input(["repl"], b"a\0b\n\xff\xfe\nfine\n");
    assert!(output.stderr.contains("NUL character"), "{output}");
    assert!(output.stderr.contains("not valid UTF-8"), "{output}");
    assert!(output.stdout.starts_with("You said: fine\n"), "{output}");
    assert_eq!(output.code, Some(2));
}

#[test]
fn commands_that_need_a_session_report_its_absence() {
    let home = new_test_home();
    let lines = [
        "/session",
        "/sessions",
        "/history",
        "/rename x",
        "/usage",
        "/resume 1",
    ];
    assert_snapshot!(run_repl(&home, &lines), @"
    --- stderr
    no session yet: the next prompt starts one
    no sessions in this project (`/sessions all` looks everywhere); the first prompt starts one
    error: there is no session yet
    hint: the first prompt starts one
    error: there is no session yet
    hint: the first prompt starts one
    error: there is no session yet
    hint: the first prompt starts one
    error: there is no number 1 in the last list of this project
    hint: `/sessions` shows one
    --- exit 2
    ");
    assert_snapshot!(run_repl(&home, &["/resume nosuch"]), @r#"
    --- stderr
    error: no session matches "nosuch"
    hint: `/sessions all` shows every session there is
    --- exit 1
    "#);
    assert_eq!(run_repl(&home, &["/exit", "not sent"]).code, Some(0));
    assert_eq!(count_sessions(&home), 0);
}

#[test]
fn help_lists_every_command() {
    let home = new_test_home();
    assert_snapshot!(run_repl(&home, &["/help", "/quit", "not sent"]), @r"
    /help                 this list
    /sessions [all]       the sessions of this project, or of all, numbered
    /session              the session you are in
    /resume ID|NUMBER     go on with another session, also one that an agent keeps itself
    /new                  start a new session with the next prompt
    /history [N]          the last N turns of the session, 5 if not said
    /backtoturn [N]       make turn N the last one (/history shows the numbers)
    /undo                 take the last /backtoturn back
    /fork [N]             branch off, after turn N if said, and go on there
    /compact              sum up what was said, so that the next prompt needs less
    /checkpoint [all]     what it was summed up to, and how full the budget is
    /rename TITLE         give the session another title
    /agent NAME           hand the session to another agent with the next prompt
    /handoff NAME         hand the session to another agent at once
    /permissions POLICY   how to answer when the agent asks for permission
    /usage                what the last turn and the session used
    /exit                 end the conversation, as Ctrl-D does
    /quit                 the same

    Anything else is said to the agent; begin with // to say what begins with a slash.
    A \ at the end of a line, or an open ``` fence, goes on on the next line.
    --- exit 0
    ");
}

#[test]
fn permissions_can_be_changed_between_turns() {
    let home = new_test_home();
    let lines = [
        "rehearse: ask",
        "/permissions allow-edits",
        "rehearse: ask",
        "/permissions yes",
    ];
    assert_snapshot!(run_repl_with_args(&home, &["repl", "--permissions", "deny"], &lines), @r#"
    I was not allowed to edit the notes. 
    I edited the notes. 
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other was found on this machine
    segue: refused "Edit notes.txt" by policy deny
    permissions from now on: allow-edits
    segue: allowed "Edit notes.txt" by policy allow-edits
    error: "yes" is not a policy
    hint: there are: ask, allow-reads, allow-edits, allow-all, deny
    --- exit 2
    "#);
}

#[test]
fn the_options_of_chat_apply_to_the_repl() {
    let home = new_test_home();
    let first = create_session(&home, "one");
    let output = run_repl_with_args(&home, &["repl", "--continue"], &["two"]);
    assert!(output.stdout.contains("This is turn 2"), "{output}");
    let output = run_repl_with_args(&home, &["repl", "--resume", &first], &["three"]);
    assert!(output.stdout.contains("This is turn 3"), "{output}");
    let output = run_repl_with_args(&home, &["repl", "--feature", "tea"], &["a", "/new", "b"]);
    assert_eq!(output.code, Some(0), "{output}");
    let list = home.run_segue_json(["session", "list", "--feature", "tea", "--json"]);
    assert_eq!(list.as_array().unwrap().len(), 2);
    assert_snapshot!(run_repl_with_args(&home, &["repl", "--resume", "nosuch"], &["x"]), @r#"
    --- stderr
    error: no session matches "nosuch"
    hint: `segue session list --all` shows every session there is
    --- exit 1
    "#);
    assert_snapshot!(run_repl_with_args(&home, &["repl", "--now", "--timeout", "1"], &["rehearse: hang", "on"]), @r#"
    You said: on
    This is turn 2 of our conversation; before this you said: rehearse: hang
    --- stderr
    segue: using rehearsal, the agent last used in this project
    error: the turn took longer than 1 s
    hint: give it longer: /quit, then segue repl --resume [SESSION] --open-timeout 120 --timeout 3600
    --- exit 3
    "#);
    let output = run_repl_with_args(&home, &["repl", "--new", "--continue"], &["x"]);
    assert_eq!(output.code, Some(2), "{output}");
}

#[test]
fn the_session_is_resolved_before_the_first_prompt() {
    let home = new_test_home();
    let tea = ["repl", "--feature", "tea"];
    let output = run_repl_with_args(&home, &tea, &["/session"]);
    assert!(output.stderr.contains("no session yet"), "{output}");
    let _ = run_repl_with_args(&home, &tea, &["green or black?"]);
    assert_snapshot!(run_repl_with_args(&home, &tea, &["/history", "/usage", "black"]), @"
    green or black?
    [SESSION] · rehearsal · 2 message(s), 1 turn(s)

    ── turn 1 ──────────────────────────────────────────────────────────────────────
    you
      green or black?
    rehearsal
      You said: green or black?
      This is where our conversation begins.
    session   16 in 1 turn(s)
    You said: black
    This is turn 2 of our conversation; before this you said: green or black?
    --- stderr
    segue: continuing session [SESSION] (green or black?) for feature tea
    --- exit 0
    ");
    let output = run_repl_with_args(&home, &["repl", "--continue", "--explain"], &["/session"]);
    assert!(output.stdout.contains("turns     2\n"), "{output}");
    assert!(
        output.stderr.contains("explain: directory: the newest"),
        "{output}"
    );
    home.assert_no_processes();
}

#[test]
fn a_signal_ends_a_piped_conversation_and_saves_its_messages() {
    let home = new_test_home();
    for signal in ["-INT", "-TERM", "-HUP", "-KILL"] {
        let mut command = home.segue_command(["repl"]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, b"rehearse: say so far; hang\nnever sent\n").unwrap();
        let mut buffer = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut buffer).unwrap();
        let pid = child.id().to_string();
        let mut kill = home.program_command("kill");
        assert!(kill.args([signal, &pid]).status().unwrap().success());
        let output = ProgramOutput::from_std(&child.wait_with_output().unwrap(), &home);
        if signal == "-KILL" {
            assert_eq!(output.code, None, "{output}");
        } else {
            assert_eq!(output.code, Some(130), "{signal}: {output}");
            assert!(output.stderr.contains("interrupted"), "{signal}: {output}");
        }
        drop(stdin);
        let transcript = home.run_segue_json(["session", "show", "latest", "--json"]);
        let turns = transcript["turns"].as_array().unwrap();
        assert_eq!(turns.len(), 1, "{signal}: {transcript:#}");
        // What was streamed may not have been on the disk yet when nobody could put it there any more.
        let is_saved = turns[0]["messages"][1].to_string().contains("so far");
        assert!(is_saved || signal == "-KILL", "{signal}: {transcript:#}");
    }
    let output = run_repl_with_args(&home, &["repl", "--continue"], &["where were we?"]);
    assert!(output.stdout.contains("This is turn 2"), "{output}");
    home.assert_no_processes();
}

/// Runs a command with these lines on its standard input.
fn run_with_lines(
    home: &TestHome,
    mut command: std::process::Command,
    lines: &[&str],
) -> ProgramOutput {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for line in lines {
        std::io::Write::write_all(&mut stdin, format!("{line}\n").as_bytes()).unwrap();
    }
    drop(stdin);
    ProgramOutput::from_std(&child.wait_with_output().unwrap(), home)
}

/// Who may read a file.
fn file_mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
