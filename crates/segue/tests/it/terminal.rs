//! segue on a terminal: a pseudo-terminal made by `script`.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Stdio};

use segue_testkit::World;

use crate::native::put;
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

/// What the screen should be like, and what is typed then.
type Step<'a> = (&'a dyn Fn(&str) -> bool, &'a str);

/// Sits before the picker, and types keys, each once the screen is as it should be. A screen that never comes fails the
/// test, after a while.
fn pick(world: &World, keys: &[Step<'_>]) {
    let path = |name: &str| world.program(name).get_program().display().to_string();
    let segue = env!("CARGO_BIN_EXE_segue");
    let line = format!("{} rows 24 cols 100; exec {segue}", path("stty"));
    let mut command = world.program("timeout");
    command
        .args(["40", &path("script"), "-q", "-e", "-c", &line, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("script is part of every Linux");
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut terminal = vt100::Parser::new(24, 100, 0);
    let mut keys = keys.iter().peekable();
    let mut last = String::new();
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = stdout.read(&mut piece) {
        terminal.process(&piece[..length]);
        if !terminal.screen().alternate_screen() {
            continue;
        }
        last = terminal.screen().contents();
        if let Some((_, typed)) = keys.next_if(|(is_there, _)| is_there(&last)) {
            let _ = stdin.write_all(typed.as_bytes());
        }
    }
    drop(stdin);
    let _ = child.wait();
    assert_eq!(keys.count(), 0, "this is not what was waited for:\n{last}");
}

/// The row that is selected.
fn selected(screen: &str) -> &str {
    let rows = screen.lines().skip(2);
    let mut marked = rows.filter(|row| row.starts_with('›'));
    marked.next().unwrap_or_default()
}

const DOWN: &str = "\u{1b}[B";
const CTRL_C: &str = "\u{3}";
const CTRL_L: &str = "\u{c}";
const CTRL_T: &str = "\u{14}";
const CTRL_Y: &str = "\u{19}";

/// Three sessions of Claude Code's in which there is milk.
fn with_lists() -> World {
    let world = world();
    for n in 1..=3 {
        let path = put(&world, &list(n), "project");
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace("Shopping", &format!("list {n}"));
        fs::write(&path, text).unwrap();
    }
    let _ = world.segue(["index", "refresh"]);
    world
}

fn list(n: u8) -> String {
    format!("0b5e4c3a-1111-4222-8333-00000000000{n}")
}

#[test]
fn a_hit_that_is_tagged_or_forked_stays_selected() {
    for (deed, said) in [
        (format!("{CTRL_T}x\r"), "tagged x"),
        (CTRL_Y.to_owned(), "forked as"),
    ] {
        let world = with_lists();
        let found = |screen: &str| screen.contains("milk") && screen.contains(" 3 conversations");
        let second = |screen: &str| found(screen) && selected(screen).contains("list 2");
        // Of segue's own no branch is shown.
        let done = |screen: &str| {
            second(screen) && screen.contains(said) && !selected(screen).contains("main")
        };
        let first = |screen: &str| screen.contains(" 3 conversations");
        pick(
            &world,
            &[
                (&first, "milk"),
                (&found, DOWN),
                (&second, &deed),
                (&done, CTRL_C),
            ],
        );
    }
}

#[test]
fn a_hit_that_is_taken_over_elsewhere_is_shown_as_such() {
    let world = with_lists();
    let first = |screen: &str| screen.contains(" 3 conversations");
    // Only once the first refresh is over, so that it is the next one that finds it.
    let found = |screen: &str| {
        let is_there = screen.contains("bought") && first(screen) && !screen.contains("refreshing");
        is_there && world.segue(["session", "adopt", &list(1)]).code == Some(0)
    };
    let taken = |screen: &str| {
        let mut rows = screen.lines().skip(2);
        rows.any(|row| row.contains("list 1  ") && !row.contains("main"))
    };
    pick(
        &world,
        &[(&first, "milk"), (&found, CTRL_L), (&taken, CTRL_C)],
    );
}
