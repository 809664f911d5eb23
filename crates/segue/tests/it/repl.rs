//! `segue repl`, with piped input and on a terminal.

mod revert;
mod sessions;
mod terminal;

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use insta::assert_snapshot;
use segue_testkit::{ProgramOutput, TestHome};

use crate::{count_sessions, new_test_home};

/// Runs `segue repl` with these lines on standard input.
fn run_repl(home: &TestHome, lines: &[&str]) -> ProgramOutput {
    run_repl_with_args(home, &["repl"], lines)
}

fn run_repl_with_args(home: &TestHome, args: &[&str], lines: &[&str]) -> ProgramOutput {
    let mut input = lines.join("\n");
    input.push('\n');
    home.run_segue_with_input(args, input.as_bytes())
}

/// Creates a session and returns its id.
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
    segue: using rehearsal, the built-in offline agent: no other agent was found
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
        "piped input was added to the history"
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
    segue: using rehearsal, the built-in offline agent: no other agent was found
    error: the agent answered the prompt with an error: out of tea
    hint: all messages so far are saved; send the prompt again
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
    error: unknown command `/sesions`; nothing was sent
    hint: did you mean `/sessions`?
    error: unknown command `/etc/hosts`; nothing was sent
    hint: run `/help` to list the commands, or type `//` to send a prompt that begins with `/`
    error: usage: /resume ID|NUMBER
    error: /new takes no argument
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
    no sessions in this project (`/sessions all` lists all projects); send a prompt to start a session
    error: no session yet
    hint: send a prompt to start a session
    error: no session yet
    hint: send a prompt to start a session
    error: no session yet
    hint: send a prompt to start a session
    error: list number 1 not found in the last list of this project
    hint: run `/sessions` to list sessions
    --- exit 2
    ");
    assert_snapshot!(run_repl(&home, &["/resume nosuch"]), @r#"
    --- stderr
    error: no session matches "nosuch"
    hint: run `/sessions all` to list all sessions
    --- exit 1
    "#);
    assert_eq!(run_repl(&home, &["/exit", "not sent"]).code, Some(0));
    assert_eq!(count_sessions(&home), 0);
}

#[test]
fn help_lists_every_command() {
    let home = new_test_home();
    assert_snapshot!(run_repl(&home, &["/help", "/quit", "not sent"]), @r"
    /help                 list the commands
    /sessions [all]       list the sessions of this project, or of all projects
    /session              show the current session
    /resume ID|NUMBER     switch to another session or native session
    /new                  start a new session with the next prompt
    /history [N]          show the last N turns [default: 5]
    /backtoturn [N]       revert to turn N (/history shows the numbers)
    /undo                 undo the last /backtoturn
    /fork [N]             fork the session (after turn N) and switch to the fork
    /compact              compact the session into a checkpoint
    /checkpoint [all]     show the checkpoint and how much of the budget it uses
    /rename TITLE         change the title of the session
    /agent NAME           hand the session off to another agent with the next prompt
    /handoff NAME         hand the session off to another agent now
    /permissions POLICY   set how permission requests of the agent are answered
    /usage                show the tokens that the last turn and the session used
    /exit                 end the conversation, like Ctrl-D
    /quit                 same as /exit

    Any other text is sent to the agent. Type // to send a prompt that begins with a slash.
    A \ at the end of a line or an open ``` fence continues the prompt on the next line.
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
    segue: using rehearsal, the built-in offline agent: no other agent was found
    segue: refused "Edit notes.txt" by policy deny
    set the permission policy to allow-edits
    segue: allowed "Edit notes.txt" by policy allow-edits
    error: unknown policy "yes"
    hint: available policies: ask, allow-reads, allow-edits, allow-all, deny
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
    hint: run `segue session list --all` to list all sessions
    --- exit 1
    "#);
    assert_snapshot!(run_repl_with_args(&home, &["repl", "--now", "--timeout", "1"], &["rehearse: hang", "on"]), @"
    You said: on
    This is turn 2 of our conversation; before this you said: rehearse: hang
    --- stderr
    segue: using rehearsal, the agent last used in this project
    error: the turn took longer than 1 s
    hint: retry with longer timeouts: `/quit`, then `segue repl --resume [SESSION] --open-timeout 120 --timeout 3600`
    --- exit 3
    ");
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
    [SESSION] · rehearsal · 2 messages, 1 turn

    ── turn 1 ──────────────────────────────────────────────────────────────────────
    you
      green or black?
    rehearsal
      You said: green or black?
      This is where our conversation begins.
    session   16 tokens in 1 turn
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
        // After SIGKILL, the streamed text may be missing, because it may not have been on disk yet.
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

/// Returns the permission bits of a file.
fn file_mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
