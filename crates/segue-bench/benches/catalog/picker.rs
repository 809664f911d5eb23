//! Benchmark of the time until the picker shows its first screen.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use segue_bench::measurement::{
    BenchmarkMode, Contestant, format_verdict, measure_rounds, print_table, quantile,
};

use crate::home::{ALL_AGENT_HOMES, BenchHome, WrittenCorpus};

const TARGET_FIRST_SCREEN_MILLIS: f64 = 50.0;

const TERMINAL_SIZE: Winsize = Winsize {
    ws_row: 40,
    ws_col: 120,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

const ESCAPE_CHAR: char = '\u{1b}';

pub(crate) fn measure(mode: BenchmarkMode, corpus: &WrittenCorpus) {
    let home = corpus.create_home(ALL_AGENT_HOMES);
    let refresh_status = home.segue_command(&["index", "refresh"]).status().unwrap();
    assert!(refresh_status.success());
    let sessions = corpus.total_counts(ALL_AGENT_HOMES).sessions;
    let mut contestants = [Contestant::new("segue", || measure_first_screen(&home))];
    measure_rounds(&mut contestants, mode.pick(31, 2));
    let [picker] = &contestants;
    print_table(
        "The picker, from the call to its first screen",
        ["", "sessions", "runs", "median", "95 of 100 within", "aim"],
        &[[
            picker.name.clone(),
            sessions.to_string(),
            picker.values.len().to_string(),
            format!("{:.1} ms", picker.median()),
            format!("{:.1} ms", quantile(&picker.values, 0.95)),
            format_verdict(
                &format!("at most {TARGET_FIRST_SCREEN_MILLIS} ms"),
                picker.median() <= TARGET_FIRST_SCREEN_MILLIS,
            ),
        ]],
    );
}

/// Texts in the first and the last line of the first screen, without spaces.
const FIRST_SCREEN_TEXTS: [&str; 2] = ["sessions", "?help"];

const FIRST_SCREEN_TIMEOUT: Duration = Duration::from_secs(20);

/// Starts segue on a terminal and returns the milliseconds until its first screen is complete.
fn measure_first_screen(home: &BenchHome) -> f64 {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let terminal = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let mut controller_file = File::from(controller);
    tcsetwinsize(&controller_file, TERMINAL_SIZE).unwrap();
    let start = Instant::now();
    let _picker = PickerProcess(
        command_on_terminal(&home.segue_command(&[]), &terminal)
            .spawn()
            .unwrap(),
    );
    drop(terminal);
    let mut output = Vec::new();
    let mut buffer = [0; 16 << 10];
    let elapsed = loop {
        let length = read_terminal(&mut controller_file, &mut buffer);
        assert!(
            length > 0,
            "the picker did not appear: {}",
            String::from_utf8_lossy(&output)
        );
        output.extend_from_slice(&buffer[..length]);
        let visible = visible_text(&String::from_utf8_lossy(&output));
        if FIRST_SCREEN_TEXTS.iter().all(|text| visible.contains(text)) {
            break start.elapsed();
        }
    };
    // Ctrl-C ends the picker; the remaining output is discarded.
    controller_file.write_all(b"\x03").unwrap();
    while read_terminal(&mut controller_file, &mut buffer) > 0 {}
    elapsed.as_secs_f64() * 1e3
}

/// Reads from the terminal and returns the number of bytes: 0 at the end of the output or after the timeout.
fn read_terminal(terminal: &mut File, buffer: &mut [u8]) -> usize {
    let timeout = FIRST_SCREEN_TIMEOUT.try_into().unwrap();
    let mut poll_fds = [PollFd::new(terminal, PollFlags::IN)];
    if poll(&mut poll_fds, Some(&timeout)).unwrap() == 0 {
        return 0;
    }
    terminal.read(buffer).unwrap_or(0)
}

/// A picker process that is killed when this value is dropped.
struct PickerProcess(Child);

impl Drop for PickerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Wraps a command in `setsid`, so that `terminal` is its controlling terminal. `setsid` takes less than a millisecond.
fn command_on_terminal(command: &Command, terminal: &std::os::fd::OwnedFd) -> Command {
    let mut wrapped = Command::new("setsid");
    wrapped
        .arg("--ctty")
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear()
        .current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        wrapped.env(name, value.unwrap());
    }
    let clone_terminal = || terminal.try_clone().unwrap();
    wrapped
        .stdin(clone_terminal())
        .stdout(clone_terminal())
        .stderr(clone_terminal());
    wrapped
}

/// Returns the visible text without whitespace and escape sequences. Whitespace cannot be compared, because segue moves
/// the cursor instead of printing spaces.
fn visible_text(screen: &str) -> String {
    let mut visible = String::new();
    let mut chars = screen.chars();
    while let Some(character) = chars.next() {
        match character {
            ESCAPE_CHAR => {
                // `ESC [ … letter`, or `ESC` and one letter.
                if chars.next() == Some('[') {
                    chars.find(char::is_ascii_alphabetic);
                }
            }
            _ if character.is_whitespace() => {}
            _ => visible.push(character),
        }
    }
    visible
}
