//! Tests of the picker in a real terminal: a separate process on a pseudo-terminal, whose screen the tests inspect.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use jiff::Timestamp;
use segue_testkit::terminal::Pty;

use super::local_source::FakeSource;

use crate::picker;
use crate::picker::screen::Screen;

/// Variable that marks the process in the terminal, and selects its behaviour.
const HOST_VARIABLE: &str = "SEGUE_PICKER_HOST";

/// Not a test of its own: the other tests start it in a terminal, as a separate process.
#[test]
fn host() {
    let Some(behaviour) = std::env::var_os(HOST_VARIABLE) else {
        return;
    };
    if behaviour == "panics" {
        let _screen = Screen::open().unwrap();
        panic!("a bug in the picker");
    }
    assert!(picker::is_terminal_supported());
    let now = Timestamp::now();
    let row_count = if behaviour == "empty" { 0 } else { 30_000 };
    let agents = ["claude", "codex", "gemini"].map(str::to_owned).into();
    let use_colour = crate::terminal::Style::stdout().has_colour();
    let refreshed = Arc::<AtomicBool>::default();
    let open = move || {
        let source = FakeSource::with_rows(now, row_count);
        Ok(FakeSource {
            refreshed: Some(Arc::clone(&refreshed)),
            ..source
        })
    };
    let outcome = picker::run(open, agents, use_colour);
    let message = match outcome {
        Ok(None) => "cancelled".to_owned(),
        Ok(Some(choice)) => format!("chose {} to {:?}", choice.row.id, choice.action),
        Err(error) => format!("failed: {}", error.message),
    };
    println!("{message}");
}

const CTRL_Z: &str = "\u{1a}";
const UP_KEY: &str = "\u{1b}[A";
const DOWN_KEY: &str = "\u{1b}[B";
const END_KEY: &str = "\u{1b}[F";
const ESCAPE_KEY: &str = "\u{1b}";
const CTRL_C: &str = "\u{3}";
const CTRL_S: &str = "\u{13}";
const CTRL_T: &str = "\u{14}";
const CTRL_X: &str = "\u{18}";

/// Starts the picker in a terminal.
fn start_picker(behaviour: &str, size: (u16, u16)) -> Pty {
    start_picker_with_no_color(behaviour, size, "")
}

fn start_picker_with_no_color(behaviour: &str, size: (u16, u16), no_colour: &str) -> Pty {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "picker::tests::terminal::host", "--nocapture"])
        .env(HOST_VARIABLE, behaviour)
        .env("TERM", "xterm")
        .env("RUST_BACKTRACE", "0")
        .env("NO_COLOR", no_colour);
    Pty::start(&command, size)
}

#[test]
fn typing_narrows_the_list_and_escape_restores_it() {
    let mut pty = start_picker("plain", (80, 24));
    pty.wait_for_text("30,000 sessions")
        .wait_for_text("What about number 1?");
    insta::assert_snapshot!(pty.contents(), @r"
    › type to search
    ── all projects · 30,000 sessions ──────────────────────────────────────────────
    ›  now claude   Fix the flaky payment test           @checkout segue           1
       now codex    Why does the build take nine minutes…  running web shop        2
        1m gemini   支払いテストを直して、ログも見て    #pay #日本 notes           3
        3m opencode tab here, bell, colour red, newline…  archived segue           4
        5m claude   إصلاح اختبار الدفع                             web shop        5
        8m codex    👩 launch 👍 ❤ done                    deleted notes           6
       12m gemini   (no title)                                     segue           7
       16m opencode refactor                                       web shop        8
       21m claude   a very long title a very long title a very lo… notes           9
       27m codex    conversation 9                                 segue          10
       33m gemini   Fix the flaky payment test                     web shop       11
       40m opencode Why does the build take nine minutes on a col… notes          12
    ────────────────────────────────────────────────────────────────────────────────
    Fix the flaky payment test
    claude · 1 turn · just now · segue · main · @checkout
    ~/code/segue · opus-5 · 12.3k tokens · id-0

    1 › What about number 1?
        I mean this one:
            let x = 1;
    It is really really really really really really really really really really
    Enter resume  ^O show  ^X handoff  Tab here  ^Y fork  ^T tag  ^S archive  ? help
    ");
    pty.type_keys("ref")
        .wait_for_text("60+ sessions")
        .wait_for_text("8 › What about");
    pty.type_keys("actor")
        .type_keys(DOWN_KEY)
        .type_keys(DOWN_KEY)
        .type_keys(UP_KEY)
        .wait_for_text("18 › What about");
    insta::assert_snapshot!(pty.contents(), @r"
    › refactor
    ── all projects · newest first · 60+ sessions ──────────────────────────────────
       16m opencode refactor  …that the refactor is seen by every… web shop        8
    ›   1h codex    refactor  …that the refactor is seen by every… notes          18
        4h opencode refactor  …that the refactor is seen by every… segue          28
        7h codex    refactor  …that the refactor is seen by every… web shop       38
       12h opencode refactor  …that the refactor is seen by every… notes          48
       18h codex    refactor  …that the refactor is seen by every… segue          58
        1d opencode refactor  …that the refactor is seen by every… web shop       68
        1d codex    refactor  …that the refactor is seen by every… notes          78
        1d opencode refactor  …that the refactor is seen by every… segue          88
        2d codex    refactor  …that the refactor is seen by every… web shop       98
        2d opencode refactor  …that the refactor is seen by every… notes         108
        3d codex    refactor  …that the refactor is seen by every… segue         118
    ────────────────────────────────────────────────────────────────────────────────
    refactor
    codex · 18 turns · 1 hour ago · notes
    ~/code/notes · opus-5 · 12.3k tokens · id-17

    …so that the refactor is seen by everybody…

    18 › What about number 18?
         I mean this one:
    Enter resume  ^O show  ^X handoff  Tab here  ^Y fork  ^T tag  F1 help
    ");
    // The cursor is at the end of the typed text.
    assert_eq!(pty.lock_content().screen().cursor_position(), (0, 10));
    pty.type_keys(ESCAPE_KEY).wait_for_text("30,000 sessions");
    pty.type_keys(END_KEY)
        .wait_for_text("conversation 29999")
        .wait_for_text("1200 › What about");
    pty.type_keys(ESCAPE_KEY);
    assert!(pty.wait_for_exit().success());
    pty.assert_restored();
    assert!(pty.contents().contains("cancelled"), "{}", pty.contents());
}

#[test]
fn the_help_opens_and_closes() {
    let mut pty = start_picker("plain", (80, 24));
    pty.wait_for_text("30,000 sessions")
        .type_keys("?")
        .wait_for_text("any key: close");
    pty.type_keys(ESCAPE_KEY)
        .wait_for_absence("any key: close")
        .wait_for_text("type to search");
    pty.type_keys("why?").wait_for_text("› why?");
    pty.type_keys("\u{1b}OP")
        .wait_for_text("any key: close")
        .type_keys(CTRL_C);
    assert!(pty.wait_for_exit().success());
    pty.assert_restored();
}

#[test]
fn the_screen_adapts_to_a_resized_terminal() {
    let mut pty = start_picker("plain", (80, 24));
    pty.wait_for_text("30,000 sessions")
        .wait_for_text("1 › What about number 1?");
    pty.resize(40, 10)
        .wait_for_text("Enter resume  ^O show  ? help")
        .wait_for_absence("What about");
    insta::assert_snapshot!(pty.contents(), @r"
    › type to search
    ── all projects · 30,000 sessions ──────
    ›  now claude Fix the flaky p… @checkout
       now codex  Why does the buil… running
        1m gemini 支払いテストを… #pay #日本
        3m openc… tab here, bell,…  archived
        5m claude إصلاح اختبار الدفع
        8m codex  👩 launch 👍 ❤ do… deleted
       12m gemini (no title)
    Enter resume  ^O show  ? help
    ");
    pty.resize(200, 50)
        .wait_for_text("│ Fix the flaky payment test")
        .wait_for_text("conversation 39");
    pty.resize(10, 3).wait_until("the smallest", |screen| {
        screen.contents().lines().count() <= 3
    });
    pty.wait_for_text("› type to…");
    pty.resize(80, 24)
        .wait_for_text("1 › What about number 1?")
        .type_keys(CTRL_C);
    assert!(pty.wait_for_exit().success());
    pty.assert_restored();
}

#[test]
fn the_choice_is_returned_to_the_caller() {
    let cases = [
        ("\r", "chose id-0 to Resume"),
        ("\u{1b}[B\u{f}", "chose id-1 to Show"),
        ("\u{18}2", "chose id-0 to Handoff(\"gemini\")"),
        // All keys arrive at once: the search runs before Enter applies.
        ("conversation 2999\r", "chose id-2999 to Resume"),
        (
            "\u{1b}[200~conversation\r2999\u{1b}[201~\r",
            "chose id-2999 to Resume",
        ),
    ];
    for (keys, expected) in cases {
        let mut pty = start_picker("plain", (80, 24));
        pty.wait_for_text("30,000 sessions").type_keys(keys);
        assert!(pty.wait_for_exit().success());
        assert!(
            pty.contents().contains(expected),
            "{keys:?}: {}",
            pty.contents()
        );
        pty.assert_restored();
    }
}

#[test]
fn row_actions_run_and_show_their_outcome() {
    let mut pty = start_picker("plain", (80, 24));
    pty.wait_for_text("30,000 sessions")
        .type_keys(CTRL_T)
        .wait_for_text("Enter: apply");
    pty.type_keys("p\u{e4}y\r")
        .wait_for_text("tagged id-0 as päy");
    pty.type_keys(CTRL_S)
        .wait_for_text("error: no room for id-0");
    pty.type_keys(CTRL_X)
        .wait_for_text("hand off to")
        .type_keys(ESCAPE_KEY)
        .wait_for_absence("hand off to");
    pty.type_keys(CTRL_C);
    assert!(pty.wait_for_exit().success());
}

#[test]
fn an_empty_source_shows_suggestions() {
    let mut pty = start_picker("empty", (80, 24));
    pty.wait_for_text("No sessions yet.")
        .wait_for_text("segue chat \"");
    pty.type_keys("\r").type_keys(ESCAPE_KEY);
    assert!(pty.wait_for_exit().success());
    pty.assert_restored();
}

#[test]
fn no_color_disables_all_colours() {
    for (no_colour, expected) in [("1", false), ("", true)] {
        let mut pty = start_picker_with_no_color("plain", (80, 24), no_colour);
        pty.wait_for_text("30,000 sessions")
            .wait_for_text("What about number 1?");
        let content = pty.lock_content();
        let coloured = (0..24).any(|row| {
            let cells = (0..80).filter_map(|column| content.screen().cell(row, column));
            let mut cells = cells.filter(|cell| !cell.contents().is_empty());
            cells.any(|cell| cell.fgcolor() != vt100::Color::Default)
        });
        assert_eq!(coloured, expected);
        drop(content);
        pty.type_keys(CTRL_C).wait_for_exit();
    }
}

#[test]
fn a_termination_signal_restores_the_terminal() {
    for signal in [
        rustix::process::Signal::TERM,
        rustix::process::Signal::INT,
        rustix::process::Signal::HUP,
    ] {
        let mut pty = start_picker("plain", (80, 24));
        pty.wait_for_text("30,000 sessions")
            .type_keys("half a wo")
            .wait_for_text("half a wo");
        let pid = rustix::process::Pid::from_raw(pty.pid().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        assert!(pty.wait_for_exit().success());
        pty.assert_restored();
        assert!(
            pty.contents().contains("failed: interrupted"),
            "{}",
            pty.contents()
        );
    }
}

#[test]
fn the_shell_has_the_terminal_while_the_picker_is_suspended() {
    let host = std::env::current_exe().unwrap();
    let mut shell = Command::new("sh");
    shell
        .arg("-i")
        .env(HOST_VARIABLE, "plain")
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .env("ENV", "/dev/null")
        .env("PS1", "ready> ");
    let mut pty = Pty::start(&shell, (80, 24));
    let line = format!(
        "{} --exact picker::tests::terminal::host --nocapture\r",
        host.display()
    );
    pty.wait_for_text("ready>")
        .type_keys(&line)
        .wait_for_text("30,000 sessions");
    for _ in 0..3 {
        pty.type_keys("pay")
            .wait_for_text("60+ sessions")
            .type_keys(CTRL_Z);
        // Keys that arrive before the shell's prompt are lost.
        pty.wait_until("prompt", |screen| {
            !screen.alternate_screen() && screen.contents().trim_end().ends_with("ready>")
        });
        pty.type_keys("fg\r")
            .wait_for_text("› pay")
            .wait_for_text("60+ sessions");
        assert!(pty.lock_content().screen().alternate_screen());
        pty.type_keys(ESCAPE_KEY).wait_for_text("30,000 sessions");
    }
    // Ctrl-C is a key again and sends no signal.
    pty.type_keys(CTRL_C)
        .wait_for_text("cancelled")
        .type_keys("exit\r");
    assert!(pty.wait_for_exit().success());
    pty.assert_restored();
}

#[test]
fn a_panic_in_the_picker_restores_the_terminal_and_is_printed() {
    let mut pty = start_picker("panics", (80, 24));
    assert!(!pty.wait_for_exit().success());
    pty.assert_restored();
    assert!(
        pty.contents().contains("a bug in the picker"),
        "{}",
        pty.contents()
    );
}

#[test]
fn a_panic_in_the_source_is_shown_in_one_line() {
    let mut pty = start_picker("plain", (80, 24));
    pty.wait_for_text("30,000 sessions")
        .type_keys("panic")
        .wait_for_text("error: a bug in segue: a bug about panic");
    assert!(
        !pty.contents().contains("panicked at"),
        "{}",
        pty.contents()
    );
    pty.type_keys(ESCAPE_KEY)
        .wait_for_text("30,000 sessions")
        .type_keys(CTRL_C);
    assert!(pty.wait_for_exit().success());
}
