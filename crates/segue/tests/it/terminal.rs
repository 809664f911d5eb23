//! segue on a terminal: a pseudo-terminal made by `script`.

use std::io::{Read, Write};
use std::process::{Child, Stdio};

use segue_testkit::World;

use crate::world;

/// Starts segue on a terminal of its own; what is typed goes to its standard input.
fn on_a_terminal(world: &World, arguments: &str) -> Child {
    let mut command = world.program("script");
    let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_segue"));
    command
        .args(["-q", "-e", "-c", &line, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("script is part of every Linux")
}

/// Types keys, each once a text is on the screen that was not before; returns the screen's bytes and the exit code.
fn type_in(mut child: Child, keys: &[(&str, &str)]) -> (String, Option<i32>) {
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut screen = Vec::new();
    let mut seen = 0;
    let mut piece = [0; 4096];
    let mut keys = keys.iter().peekable();
    while let Ok(length @ 1..) = stdout.read(&mut piece) {
        screen.extend_from_slice(&piece[..length]);
        let text = String::from_utf8_lossy(&screen).into_owned();
        while let Some((shown, typed)) = keys.peek() {
            let Some(at) = text[seen..].find(shown) else {
                break;
            };
            seen += at + shown.len();
            let _ = stdin
                .write_all(typed.as_bytes())
                .and_then(|()| stdin.flush());
            keys.next();
        }
    }
    drop(stdin);
    let code = child.wait().unwrap().code();
    (String::from_utf8_lossy(&screen).into_owned(), code)
}

#[test]
fn a_permission_is_asked_for_and_the_answer_counts() {
    let world = world();
    let (screen, code) = type_in(
        on_a_terminal(&world, "chat 'rehearse: ask'"),
        &[("or n: ", "7\n"), ("or n: ", "1\n")],
    );
    assert!(screen.contains("May the agent do this?"), "{screen}");
    assert!(
        screen.contains("1  Allow") && screen.contains("2  Reject"),
        "{screen}"
    );
    assert_eq!(
        screen.matches("Your choice, 1 to 2, or y or n:").count(),
        2,
        "a wrong answer is asked again: {screen}"
    );
    assert!(screen.contains("I edited the notes."), "{screen}");
    assert_eq!(code, Some(0));
    for refusal in ["2\n", "n\n"] {
        let (screen, _) = type_in(
            on_a_terminal(&world, "chat 'rehearse: ask'"),
            &[("or n: ", refusal)],
        );
        assert!(
            screen.contains("I was not allowed to edit the notes."),
            "{screen}"
        );
    }
    world.assert_nothing_runs();
}

#[test]
fn what_was_typed_before_a_question_is_no_answer_to_it() {
    let world = world();
    let (screen, _) = type_in(
        on_a_terminal(&world, "chat 'rehearse: say soon; wait 1s; ask'"),
        &[("soon", "1\n"), ("or n: ", "2\n")],
    );
    assert!(
        screen.contains("I was not allowed to edit the notes."),
        "{screen}"
    );
}

#[test]
fn one_interrupt_stops_the_agent_and_keeps_what_it_said() {
    let world = world();
    let (screen, code) = type_in(
        on_a_terminal(&world, "chat 'rehearse: say so far so good; hang'"),
        &[("so good", "\u{3}")],
    );
    assert!(screen.contains("so far so good"), "{screen}");
    assert!(
        screen.contains("interrupted; go on with: segue chat --resume"),
        "{screen}"
    );
    assert_eq!(code, Some(130));
    world.assert_nothing_runs();
}

#[test]
fn waiting_shows_progress_and_colours_can_be_switched_off() {
    let world = world();
    let (screen, _) = type_in(
        on_a_terminal(&world, "chat 'rehearse: wait 1s; say done'"),
        &[],
    );
    assert!(screen.contains("waiting for rehearsal"), "{screen}");
    assert!(screen.contains("\x1b[33msegue:"), "{screen:?}");
    let line = format!("NO_COLOR=1 {}", env!("CARGO_BIN_EXE_segue"));
    let mut command = world.program("script");
    command
        .args(["-q", "-e", "-c", &format!("{line} chat hi"), "/dev/null"])
        .env("TERM", "xterm");
    let screen = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(
        screen.contains("You said: hi") && !screen.contains("\x1b[3"),
        "{screen:?}"
    );
}

#[test]
fn an_agent_can_not_steer_the_terminal() {
    let world = world();
    let (screen, _) = type_in(
        on_a_terminal(&world, "chat \"$(printf 'a\\033]0;owned\\007b')\""),
        &[],
    );
    assert!(screen.contains("a]0;ownedb"), "{screen:?}");
    assert!(!screen.contains("\x1b]0;"), "{screen:?}");
}
