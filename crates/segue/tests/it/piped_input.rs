//! Piped input in addition to a prompt.

use std::io::Write as _;
use std::process::{Command, Stdio};

use insta::assert_snapshot;
use segue_testkit::{ProgramOutput, TestHome};

use crate::{count_sessions, new_test_home};

/// Returns the prompt of the last turn.
fn last_prompt(home: &TestHome) -> String {
    let transcript = home.run_segue_json(["session", "show", "latest", "--json", "--last", "1"]);
    let text = &transcript["turns"][0]["messages"][0]["parts"][0]["text"];
    text.as_str().unwrap().to_owned()
}

/// Returns a shell command in which `$SEGUE` is the binary under test.
fn shell_command(home: &TestHome, line: &str) -> Command {
    let mut shell = home.program_command("sh");
    shell
        .args(["-c", line])
        .env("SEGUE", env!("CARGO_BIN_EXE_segue"));
    shell
}

#[test]
fn piped_input_is_added_to_the_prompt_of_every_command() {
    let home = new_test_home();
    let log = b"error: it is broken\n```\n";
    assert_snapshot!(home.run_segue_with_input(["chat", "why does this fail?"], log), @"
    You said: why does this fail?
    This is where our conversation begins.
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other agent was found
    --- exit 0
    ");
    let first = "why does this fail?\n\n````stdin\nerror: it is broken\n```\n````\n";
    assert_eq!(last_prompt(&home), first);
    let list = home.run_segue_json(["session", "list", "--json"]);
    assert_eq!(list[0]["title"], "why does this fail?");
    let id = list[0]["id"].as_str().unwrap();

    let output = home.run_segue_with_input(["session", "resume", id, "and this?"], b"warning");
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(last_prompt(&home), "and this?\n\n```stdin\nwarning\n```\n");

    let handoff = [
        "session",
        "handoff",
        id,
        "-p",
        "rehearsal",
        "--prompt",
        "now",
    ];
    let output = home.run_segue_with_input(handoff, b"you");
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(last_prompt(&home), "now\n\n```stdin\nyou\n```\n");

    let preview = ["session", "preview", id, "--json", "--prompt", "next"];
    let preview = home.run_segue_with_input(preview, b"diff");
    let preview: serde_json::Value = serde_json::from_str(&preview.raw_stdout).unwrap();
    assert_eq!(preview["user_prompt"], "next\n\n```stdin\ndiff\n```\n");
}

#[test]
fn empty_piped_input_adds_no_text() {
    let home = new_test_home();
    for input in ["", " \n\n"] {
        let output = home.run_segue_with_input(["chat", "just this"], input.as_bytes());
        assert_eq!(
            (output.code, last_prompt(&home).as_str()),
            (Some(0), "just this")
        );
    }
    // Standard input is closed.
    let mut closed = shell_command(&home, "\"$SEGUE\" chat 'just this' <&-");
    let output = ProgramOutput::from_std(&closed.output().unwrap(), &home);
    assert_eq!(
        (output.code, last_prompt(&home).as_str()),
        (Some(0), "just this")
    );
}

#[test]
fn invalid_piped_input_is_refused_and_creates_no_session() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue_with_input(["chat", "why?"], b"caf\xe9\n"), @"
    --- stderr
    error: standard input is not valid UTF-8 (at byte 3); nothing was sent
    hint: convert it with `iconv -f LATIN1 -t UTF-8`, or name the file in the prompt
    --- exit 2
    ");
    assert_snapshot!(home.run_segue_with_input(["chat", "why?"], b"a\0b"), @"
    --- stderr
    error: the prompt contains a NUL character, which agents do not accept
    --- exit 2
    ");
    let large = vec![b'x'; 33_000_000];
    assert_snapshot!(home.run_segue_with_input(["chat", "why?"], &large), @"
    --- stderr
    error: standard input is larger than 32 MB; nothing was sent
    hint: write it to a file and name the file in the prompt
    --- exit 2
    ");
    assert_snapshot!(home.run_segue_with_input(["chat", "-"], &large), @"
    --- stderr
    error: standard input is larger than 32 MB; nothing was sent
    hint: write it to a file and name the file in the prompt
    --- exit 2
    ");
    assert_snapshot!(home.run_segue_with_input(["chat", " "], b"lost?"), @r#"
    --- stderr
    error: the prompt is empty
    hint: run `segue chat "your prompt"`
    --- exit 2
    "#);
    assert_eq!(count_sessions(&home), 0);
}

#[test]
fn a_long_log_is_sent_completely() {
    let home = new_test_home();
    let log = "a line of the build, and nothing went wrong in it\n".repeat(100_000);
    let output = home.run_segue_with_input(["chat", "--json", "why?"], log.as_bytes());
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(last_prompt(&home), format!("why?\n\n```stdin\n{log}```\n"));
}

#[test]
fn a_slow_command_in_the_pipe_is_waited_for() {
    let home = new_test_home();
    // The delay is longer than the timeout for a pipe without a known writer.
    let line = "{ sleep 4; echo late; } | \"$SEGUE\" chat 'what is this?'";
    let output = ProgramOutput::from_std(&shell_command(&home, line).output().unwrap(), &home);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(last_prompt(&home), "what is this?\n\n```stdin\nlate\n```\n");
}

#[test]
fn an_idle_pipe_does_not_delay_the_prompt() {
    let home = new_test_home();
    let mut command = home.segue_command(["chat", "hello"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut idle_pipe = child.stdin.take().unwrap();
    let output = child.wait_with_output().unwrap();
    let _ = idle_pipe.write_all(b"too late");
    assert_snapshot!(ProgramOutput::from_std(&output, &home), @"
    You said: hello
    This is where our conversation begins.
    --- stderr
    segue: no data on standard input, sending only the prompt; use `</dev/null` to skip the wait
    segue: using rehearsal, the built-in offline agent: no other agent was found
    --- exit 0
    ");
    assert_eq!(last_prompt(&home), "hello");
}
