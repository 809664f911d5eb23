//! segue on a pseudo-terminal of `script`.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Stdio};

use segue_testkit::TestHome;

use crate::native::write_claude_session;
use crate::new_test_home;

/// Starts segue on its own terminal. Keys are written to the standard input of the returned process.
fn start_on_terminal(home: &TestHome, arguments: &str) -> Child {
    let mut command = home.program_command("script");
    let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_segue"));
    command
        .args(["-q", "-e", "-c", &line, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("`script` is not installed")
}

/// Types each key after its text newly appeared on the screen. Returns the screen output and the exit code.
fn type_keys(mut child: Child, keys: &[(&str, &str)]) -> (String, Option<i32>) {
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut screen = Vec::new();
    let mut matched = 0;
    let mut buffer = [0; 4096];
    let mut keys = keys.iter().peekable();
    while let Ok(length @ 1..) = stdout.read(&mut buffer) {
        screen.extend_from_slice(&buffer[..length]);
        let text = String::from_utf8_lossy(&screen).into_owned();
        while let Some((expected, typed)) = keys.peek() {
            let Some(at) = text[matched..].find(expected) else {
                break;
            };
            matched += at + expected.len();
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
fn a_permission_request_is_answered_on_the_terminal() {
    let home = new_test_home();
    let (screen, code) = type_keys(
        start_on_terminal(&home, "chat 'rehearse: ask'"),
        &[("or n): ", "7\n"), ("or n): ", "1\n")],
    );
    assert!(screen.contains("Allow this tool call?"), "{screen}");
    assert!(
        screen.contains("1  Allow") && screen.contains("2  Reject"),
        "{screen}"
    );
    assert_eq!(
        screen.matches("Your choice (1-2, y or n):").count(),
        2,
        "the question was not repeated after an invalid answer: {screen}"
    );
    assert!(screen.contains("I edited the notes."), "{screen}");
    assert_eq!(code, Some(0));
    for refusal in ["2\n", "n\n"] {
        let (screen, _) = type_keys(
            start_on_terminal(&home, "chat 'rehearse: ask'"),
            &[("or n): ", refusal)],
        );
        assert!(
            screen.contains("I was not allowed to edit the notes."),
            "{screen}"
        );
    }
    home.assert_no_processes();
}

#[test]
fn keys_typed_before_a_question_do_not_answer_it() {
    let home = new_test_home();
    let (screen, _) = type_keys(
        start_on_terminal(&home, "chat 'rehearse: say soon; wait 1s; ask'"),
        &[("soon", "1\n"), ("or n): ", "2\n")],
    );
    assert!(
        screen.contains("I was not allowed to edit the notes."),
        "{screen}"
    );
}

#[test]
fn an_interrupt_stops_the_agent_and_leaves_the_partial_answer_on_screen() {
    let home = new_test_home();
    let (screen, code) = type_keys(
        start_on_terminal(&home, "chat 'rehearse: say so far so good; hang'"),
        &[("so good", "\u{3}")],
    );
    assert!(screen.contains("so far so good"), "{screen}");
    assert!(
        screen.contains("interrupted; continue with: segue chat --resume"),
        "{screen}"
    );
    assert_eq!(code, Some(130));
    home.assert_no_processes();
}

#[test]
fn a_terminal_shows_progress_and_colours_unless_disabled() {
    let home = new_test_home();
    let (screen, _) = type_keys(
        start_on_terminal(&home, "chat 'rehearse: wait 1s; say done'"),
        &[],
    );
    assert!(screen.contains("waiting for rehearsal"), "{screen}");
    assert!(screen.contains("\x1b[33msegue:"), "{screen:?}");
    let line = format!("NO_COLOR=1 {}", env!("CARGO_BIN_EXE_segue"));
    let mut command = home.program_command("script");
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
fn an_agent_cannot_control_the_terminal() {
    let home = new_test_home();
    let (screen, _) = type_keys(
        start_on_terminal(&home, "chat \"$(printf 'a\\033]0;owned\\007b')\""),
        &[],
    );
    assert!(screen.contains("a]0;ownedb"), "{screen:?}");
    assert!(!screen.contains("\x1b]0;"), "{screen:?}");
}

/// A predicate for the screen, and the keys to type when it is true.
type ScreenStep<'a> = (&'a dyn Fn(&str) -> bool, &'a str);

/// Starts the picker and types the keys of each step when its screen is shown. Fails if a screen does not appear in
/// time.
fn drive_picker(home: &TestHome, keys: &[ScreenStep<'_>]) {
    let program_path = |name: &str| {
        home.program_command(name)
            .get_program()
            .display()
            .to_string()
    };
    let segue = env!("CARGO_BIN_EXE_segue");
    let line = format!("{} rows 24 cols 100; exec {segue}", program_path("stty"));
    let mut command = home.program_command("timeout");
    command
        .args([
            "40",
            &program_path("script"),
            "-q",
            "-e",
            "-c",
            &line,
            "/dev/null",
        ])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("`script` is not installed");
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut terminal = vt100::Parser::new(24, 100, 0);
    let mut keys = keys.iter().peekable();
    let mut last_screen = String::new();
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = stdout.read(&mut buffer) {
        terminal.process(&buffer[..length]);
        if !terminal.screen().alternate_screen() {
            continue;
        }
        last_screen = terminal.screen().contents();
        if let Some((_, typed)) = keys.next_if(|(is_ready, _)| is_ready(&last_screen)) {
            let _ = stdin.write_all(typed.as_bytes());
        }
    }
    drop(stdin);
    let _ = child.wait();
    assert_eq!(
        keys.count(),
        0,
        "the expected screen did not appear; the last screen was:\n{last_screen}"
    );
}

/// Returns the selected row.
fn selected_row(screen: &str) -> &str {
    let rows = screen.lines().skip(2);
    let mut marked_rows = rows.filter(|row| row.starts_with('›'));
    marked_rows.next().unwrap_or_default()
}

const ARROW_DOWN: &str = "\u{1b}[B";
const CTRL_C: &str = "\u{3}";
const CTRL_L: &str = "\u{c}";
const CTRL_T: &str = "\u{14}";
const CTRL_Y: &str = "\u{19}";

/// Creates a home with three Claude Code sessions that contain the word "milk".
fn home_with_shopping_lists() -> TestHome {
    let home = new_test_home();
    for n in 1..=3 {
        let path = write_claude_session(&home, &list_id(n), "project");
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace("Shopping", &format!("list {n}"));
        fs::write(&path, text).unwrap();
    }
    let _ = home.run_segue(["index", "refresh"]);
    home
}

fn list_id(n: u8) -> String {
    format!("0b5e4c3a-1111-4222-8333-00000000000{n}")
}

#[test]
fn a_hit_that_is_tagged_or_forked_stays_selected() {
    for (keys, message) in [
        (format!("{CTRL_T}x\r"), "tagged x"),
        (CTRL_Y.to_owned(), "forked as"),
    ] {
        let home = home_with_shopping_lists();
        let found = |screen: &str| screen.contains("milk") && screen.contains(" 3 sessions");
        let second = |screen: &str| found(screen) && selected_row(screen).contains("list 2");
        // Sessions of segue are shown without a Git branch.
        let done = |screen: &str| {
            second(screen) && screen.contains(message) && !selected_row(screen).contains("main")
        };
        let first = |screen: &str| screen.contains(" 3 sessions");
        drive_picker(
            &home,
            &[
                (&first, "milk"),
                (&found, ARROW_DOWN),
                (&second, &keys),
                (&done, CTRL_C),
            ],
        );
    }
}

#[test]
fn a_hit_adopted_by_another_process_is_shown_as_adopted() {
    let home = home_with_shopping_lists();
    let first = |screen: &str| screen.contains(" 3 sessions");
    // Adopt only after the first refresh, so that the next refresh detects it.
    let found = |screen: &str| {
        let is_ready = screen.contains("bought") && first(screen) && !screen.contains("refreshing");
        is_ready && home.run_segue(["session", "adopt", &list_id(1)]).code == Some(0)
    };
    let is_adopted = |screen: &str| {
        let mut rows = screen.lines().skip(2);
        rows.any(|row| row.contains("list 1  ") && !row.contains("main"))
    };
    drive_picker(
        &home,
        &[(&first, "milk"), (&found, CTRL_L), (&is_adopted, CTRL_C)],
    );
}
