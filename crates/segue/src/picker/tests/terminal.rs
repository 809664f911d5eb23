//! Tests of the picker in a real terminal: a separate process on a pseudo-terminal, whose screen the tests inspect.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use jiff::Timestamp;

use super::local_source::FakeShelf;
use super::pty::Pty;
use crate::picker::screen::Screen;
use crate::picker::{self, Options, Order, Place};

/// Variable that marks the process in the terminal, and selects its behaviour.
const HOST: &str = "SEGUE_PICKER_HOST";

/// Not a test of its own: the other tests start it in a terminal, as a separate process.
#[test]
fn host() {
    let Some(what) = std::env::var_os(HOST) else {
        return;
    };
    if what == "panics" {
        let _screen = Screen::take().unwrap();
        panic!("a bug in the picker");
    }
    assert!(picker::is_possible());
    let now = Timestamp::now();
    let all = if what == "empty" { 0 } else { 30_000 };
    let options = Options {
        place: Place::Everywhere,
        order: Order::Newest,
        typed: String::new(),
        agents: ["claude", "codex", "gemini"].map(str::to_owned).into(),
        colour: crate::terminal::Style::stdout().has_colour(),
    };
    let refreshed = Arc::<AtomicBool>::default();
    let open = move || {
        let shelf = FakeShelf::of(now, all);
        Ok(FakeShelf {
            refreshed: Some(Arc::clone(&refreshed)),
            ..shelf
        })
    };
    let outcome = picker::run(open, options);
    let told = match outcome {
        Ok(None) => "left".to_owned(),
        Ok(Some(chosen)) => format!("chose {} to {:?}", chosen.row.id, chosen.next),
        Err(error) => format!("failed: {}", error.message),
    };
    println!("{told}");
}

const CTRL_Z: &str = "\u{1a}";
const UP: &str = "\u{1b}[A";
const DOWN: &str = "\u{1b}[B";
const END: &str = "\u{1b}[F";
const ESCAPE: &str = "\u{1b}";
const CTRL_C: &str = "\u{3}";
const CTRL_S: &str = "\u{13}";
const CTRL_T: &str = "\u{14}";
const CTRL_X: &str = "\u{18}";

/// Starts the picker in a terminal.
fn sits_down(what: &str, size: (u16, u16)) -> Pty {
    sits_down_with(what, size, "")
}

fn sits_down_with(what: &str, size: (u16, u16), no_colour: &str) -> Pty {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "picker::tests::terminal::host", "--nocapture"])
        .env(HOST, what)
        .env("TERM", "xterm")
        .env("RUST_BACKTRACE", "0")
        .env("NO_COLOR", no_colour);
    Pty::start(&command, size)
}

#[test]
fn typing_narrows_the_list_and_escape_widens_it_again() {
    let mut person = sits_down("plain", (80, 24));
    person
        .sees("30,000 conversations")
        .sees("What about number 1?");
    insta::assert_snapshot!(person.contents(), @r"
    › type to search
    ── everywhere · 30,000 conversations ───────────────────────────────────────────
    ›  now claude   Fix the flaky payment test           @checkout segue           1
       now codex    Why does the build take nine minutes…  running web shop        2
        1m gemini   支払いテストを直して、ログも見て    #pay #日本 notes           3
        3m opencode tab here, bell, colour red, newline…  archived segue           4
        5m claude   إصلاح اختبار الدفع                             web shop        5
        8m codex    👩 launch 👍 ❤ done                       gone notes           6
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
    person
        .types("ref")
        .sees("60+ conversations")
        .sees("8 › What about");
    person
        .types("actor")
        .types(DOWN)
        .types(DOWN)
        .types(UP)
        .sees("18 › What about");
    insta::assert_snapshot!(person.contents(), @r"
    › refactor
    ── everywhere · newest first · 60+ conversations ───────────────────────────────
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
    assert_eq!(person.screen().screen().cursor_position(), (0, 10));
    person.types(ESCAPE).sees("30,000 conversations");
    person
        .types(END)
        .sees("conversation 29999")
        .sees("1200 › What about");
    person.types(ESCAPE);
    assert!(person.ends().success());
    person.assert_restored();
    assert!(person.contents().contains("left"), "{}", person.contents());
}

#[test]
fn the_help_comes_and_goes() {
    let mut person = sits_down("plain", (80, 24));
    person
        .sees("30,000 conversations")
        .types("?")
        .sees("any key closes");
    person
        .types(ESCAPE)
        .misses("any key closes")
        .sees("type to search");
    person.types("why?").sees("› why?");
    person
        .types("\u{1b}OP")
        .sees("any key closes")
        .types(CTRL_C);
    assert!(person.ends().success());
    person.assert_restored();
}

#[test]
fn a_resize_is_followed() {
    let mut person = sits_down("plain", (80, 24));
    person
        .sees("30,000 conversations")
        .sees("1 › What about number 1?");
    person
        .resizes(40, 10)
        .sees("Enter resume  ^O show  ? help")
        .misses("What about");
    insta::assert_snapshot!(person.contents(), @r"
    › type to search
    ── everywhere · 30,000 conversations ───
    ›  now claude Fix the flaky p… @checkout
       now codex  Why does the buil… running
        1m gemini 支払いテストを… #pay #日本
        3m openc… tab here, bell,…  archived
        5m claude إصلاح اختبار الدفع
        8m codex  👩 launch 👍 ❤ done   gone
       12m gemini (no title)
    Enter resume  ^O show  ? help
    ");
    person
        .resizes(200, 50)
        .sees("│ Fix the flaky payment test")
        .sees("conversation 39");
    person.resizes(10, 3).waits("the smallest", |screen| {
        screen.contents().lines().count() <= 3
    });
    person.sees("› type to…");
    person
        .resizes(80, 24)
        .sees("1 › What about number 1?")
        .types(CTRL_C);
    assert!(person.ends().success());
    person.assert_restored();
}

#[test]
fn what_is_chosen_is_told_to_the_caller() {
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
        let mut person = sits_down("plain", (80, 24));
        person.sees("30,000 conversations").types(keys);
        assert!(person.ends().success());
        assert!(
            person.contents().contains(expected),
            "{keys:?}: {}",
            person.contents()
        );
        person.assert_restored();
    }
}

#[test]
fn deeds_are_done_and_told() {
    let mut person = sits_down("plain", (80, 24));
    person
        .sees("30,000 conversations")
        .types(CTRL_T)
        .sees("Enter tags");
    person.types("p\u{e4}y\r").sees("tagged id-0 as päy");
    person.types(CTRL_S).sees("error: no room for id-0");
    person
        .types(CTRL_X)
        .sees("hand over to")
        .types(ESCAPE)
        .misses("hand over to");
    person.types(CTRL_C);
    assert!(person.ends().success());
}

#[test]
fn an_empty_shelf_says_what_to_do() {
    let mut person = sits_down("empty", (80, 24));
    person
        .sees("There are no conversations yet.")
        .sees("segue chat \"");
    person.types("\r").types(ESCAPE);
    assert!(person.ends().success());
    person.assert_restored();
}

#[test]
fn without_colour_there_is_none() {
    for (no_colour, expected) in [("1", false), ("", true)] {
        let mut person = sits_down_with("plain", (80, 24), no_colour);
        person
            .sees("30,000 conversations")
            .sees("What about number 1?");
        let parser = person.screen();
        let coloured = (0..24).any(|row| {
            let cells = (0..80).filter_map(|column| parser.screen().cell(row, column));
            let mut cells = cells.filter(|cell| !cell.contents().is_empty());
            cells.any(|cell| cell.fgcolor() != vt100::Color::Default)
        });
        assert_eq!(coloured, expected);
        drop(parser);
        person.types(CTRL_C).ends();
    }
}

#[test]
fn a_request_to_end_gives_the_terminal_back() {
    for signal in [
        rustix::process::Signal::TERM,
        rustix::process::Signal::INT,
        rustix::process::Signal::HUP,
    ] {
        let mut person = sits_down("plain", (80, 24));
        person
            .sees("30,000 conversations")
            .types("half a wo")
            .sees("half a wo");
        let pid = rustix::process::Pid::from_raw(person.pid().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        assert!(person.ends().success());
        person.assert_restored();
        assert!(
            person.contents().contains("failed: interrupted"),
            "{}",
            person.contents()
        );
    }
}

#[test]
fn the_shell_has_the_terminal_while_the_picker_is_suspended() {
    let host = std::env::current_exe().unwrap();
    let mut shell = Command::new("sh");
    shell
        .arg("-i")
        .env(HOST, "plain")
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .env("ENV", "/dev/null")
        .env("PS1", "ready> ");
    let mut person = Pty::start(&shell, (80, 24));
    let line = format!(
        "{} --exact picker::tests::terminal::host --nocapture\r",
        host.display()
    );
    person
        .sees("ready>")
        .types(&line)
        .sees("30,000 conversations");
    for _ in 0..3 {
        person.types("pay").sees("60+ conversations").types(CTRL_Z);
        // Keys that arrive before the shell's prompt are lost.
        person.waits("prompt", |screen| {
            !screen.alternate_screen() && screen.contents().trim_end().ends_with("ready>")
        });
        person.types("fg\r").sees("› pay").sees("60+ conversations");
        assert!(person.screen().screen().alternate_screen());
        person.types(ESCAPE).sees("30,000 conversations");
    }
    // Ctrl-C is a key again and sends no signal.
    person.types(CTRL_C).sees("left").types("exit\r");
    assert!(person.ends().success());
    person.assert_restored();
}

#[test]
fn a_bug_in_the_picker_gives_the_terminal_back_and_is_told() {
    let mut person = sits_down("panics", (80, 24));
    assert!(!person.ends().success());
    person.assert_restored();
    assert!(
        person.contents().contains("a bug in the picker"),
        "{}",
        person.contents()
    );
}

#[test]
fn a_bug_in_the_shelf_is_told_in_one_line() {
    let mut person = sits_down("plain", (80, 24));
    person
        .sees("30,000 conversations")
        .types("panic")
        .sees("error: a bug in segue: a bug about panic");
    assert!(
        !person.contents().contains("panicked at"),
        "{}",
        person.contents()
    );
    person
        .types(ESCAPE)
        .sees("30,000 conversations")
        .types(CTRL_C);
    assert!(person.ends().success());
}
