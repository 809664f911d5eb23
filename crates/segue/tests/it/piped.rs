//! What is piped beside a prompt goes with it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use insta::assert_snapshot;
use segue_testkit::{Output, World};

use crate::{count_sessions, world};

/// What was said in the last turn.
fn said(world: &World) -> String {
    let shown = world.json(["session", "show", "latest", "--json", "--last", "1"]);
    let text = &shown["turns"][0]["messages"][0]["parts"][0]["text"];
    text.as_str().unwrap().to_owned()
}

/// A line of shell in which `$SEGUE` is the binary under test.
fn shell(world: &World, line: &str) -> Command {
    let mut shell = world.program("sh");
    shell
        .args(["-c", line])
        .env("SEGUE", env!("CARGO_BIN_EXE_segue"));
    shell
}

#[test]
fn what_is_piped_goes_with_the_prompt_wherever_one_is_taken() {
    let world = world();
    let log = b"error: it is broken\n```\n";
    assert_snapshot!(world.segue_with_input(["chat", "why does this fail?"], log), @"
    You said: why does this fail?
    This is where our conversation begins.
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other was found on this machine
    --- exit 0
    ");
    let first = "why does this fail?\n\n````stdin\nerror: it is broken\n```\n````\n";
    assert_eq!(said(&world), first);
    let list = world.json(["session", "list", "--json"]);
    assert_eq!(list[0]["title"], "why does this fail?");
    let id = list[0]["id"].as_str().unwrap();

    let output = world.segue_with_input(["session", "resume", id, "and this?"], b"warning");
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(said(&world), "and this?\n\n```stdin\nwarning\n```\n");

    let handoff = [
        "session",
        "handoff",
        id,
        "-p",
        "rehearsal",
        "--prompt",
        "now",
    ];
    let output = world.segue_with_input(handoff, b"you");
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(said(&world), "now\n\n```stdin\nyou\n```\n");

    let preview = ["session", "preview", id, "--json", "--prompt", "next"];
    let preview = world.segue_with_input(preview, b"diff");
    let preview: serde_json::Value = serde_json::from_str(&preview.raw_stdout).unwrap();
    assert_eq!(preview["user_prompt"], "next\n\n```stdin\ndiff\n```\n");
}

#[test]
fn nothing_piped_is_nothing_added() {
    let world = world();
    for input in ["", " \n\n"] {
        let output = world.segue_with_input(["chat", "just this"], input.as_bytes());
        assert_eq!((output.code, said(&world).as_str()), (Some(0), "just this"));
    }
    // Closed, not even empty.
    let mut closed = shell(&world, "\"$SEGUE\" chat 'just this' <&-");
    let output = Output::from(&closed.output().unwrap(), &world);
    assert_eq!((output.code, said(&world).as_str()), (Some(0), "just this"));
}

#[test]
fn what_can_not_be_sent_is_refused_and_changes_nothing() {
    let world = world();
    assert_snapshot!(world.segue_with_input(["chat", "why?"], b"caf\xe9\n"), @"
    --- stderr
    error: standard input is not valid UTF-8 (at byte 3); nothing was sent
    hint: `iconv -f LATIN1 -t UTF-8` makes it so; or name the file in the prompt
    --- exit 2
    ");
    assert_snapshot!(world.segue_with_input(["chat", "why?"], b"a\0b"), @"
    --- stderr
    error: the prompt contains a NUL character, which no agent can take
    --- exit 2
    ");
    let large = vec![b'x'; 33_000_000];
    assert_snapshot!(world.segue_with_input(["chat", "why?"], &large), @"
    --- stderr
    error: standard input holds more than 32 MB, which no agent can take; nothing was sent
    hint: write it to a file, and name that in the prompt
    --- exit 2
    ");
    assert_snapshot!(world.segue_with_input(["chat", "-"], &large), @"
    --- stderr
    error: standard input holds more than 32 MB, which no agent can take; nothing was sent
    hint: write it to a file, and name that in the prompt
    --- exit 2
    ");
    assert_snapshot!(world.segue_with_input(["chat", " "], b"lost?"), @"
    --- stderr
    error: the prompt is empty
    hint: write in it what you want to say
    --- exit 2
    ");
    assert_eq!(count_sessions(&world), 0);
}

#[test]
fn a_long_log_is_sent_whole() {
    let world = world();
    let log = "a line of the build, and nothing went wrong in it\n".repeat(100_000);
    let output = world.segue_with_input(["chat", "--json", "why?"], log.as_bytes());
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(said(&world), format!("why?\n\n```stdin\n{log}```\n"));
}

#[test]
fn a_command_in_the_pipe_is_waited_for_however_long_it_takes() {
    let world = world();
    // Longer than a pipe is waited for that nobody is known to write to.
    let line = "{ sleep 4; echo late; } | \"$SEGUE\" chat 'what is this?'";
    let output = Output::from(&shell(&world, line).output().unwrap(), &world);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(said(&world), "what is this?\n\n```stdin\nlate\n```\n");
}

#[test]
fn a_pipe_that_nobody_writes_to_holds_nothing_up() {
    let world = world();
    let mut command = world.command(["chat", "hello"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut open = child.stdin.take().unwrap();
    let ended = child.wait_with_output().unwrap();
    let _ = open.write_all(b"too late");
    assert_snapshot!(Output::from(&ended, &world), @"
    You said: hello
    This is where our conversation begins.
    --- stderr
    segue: nothing came from standard input, so only the prompt is sent; </dev/null says that nothing will
    segue: using rehearsal, the built-in offline agent: no other was found on this machine
    --- exit 0
    ");
    assert_eq!(said(&world), "hello");
}
