//! How long it takes until the picker shows its first screen.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use segue_testkit::benchmark::{Contestant, BenchmarkMode, print_table, quantile, measure_rounds, format_verdict};

use crate::home::{ALL, Home, Written};

/// In milliseconds.
const AIM: f64 = 50.0;

const SIZE: Winsize = Winsize {
    ws_row: 40,
    ws_col: 120,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

const ESCAPE: char = '\u{1b}';

pub(crate) fn measure(extent: BenchmarkMode, corpus: &Written) {
    let home = corpus.home(ALL);
    let built = home.segue(&["index", "refresh"]).status().unwrap();
    assert!(built.success());
    let sessions = corpus.of(ALL).sessions;
    let mut all = [Contestant::new("segue", || first_paint(&home))];
    measure_rounds(&mut all, extent.pick(31, 2));
    let [picker] = &all;
    print_table(
        "The picker, from the call to its first screen",
        ["", "sessions", "runs", "median", "95 of 100 within", "aim"],
        &[[
            picker.name.clone(),
            sessions.to_string(),
            picker.values.len().to_string(),
            format!("{:.1} ms", picker.median()),
            format!("{:.1} ms", quantile(&picker.values, 0.95)),
            format_verdict(&format!("at most {AIM} ms"), picker.median() <= AIM),
        ]],
    );
}

/// What is in the first and in the last line of the first screen, without blanks.
const SHOWN: [&str; 2] = ["conversations", "?help"];

/// How long is waited for it.
const LIMIT: Duration = Duration::from_secs(20);

/// Starts segue at a terminal, and returns the milliseconds until its whole screen is there.
fn first_paint(home: &Home) -> f64 {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let mut ours = File::from(ours);
    tcsetwinsize(&ours, SIZE).unwrap();
    let start = Instant::now();
    let _picker = Started(at_terminal(&home.segue(&[]), &theirs).spawn().unwrap());
    drop(theirs);
    let mut shown = Vec::new();
    let mut piece = [0; 16 << 10];
    let took = loop {
        let length = read(&mut ours, &mut piece);
        assert!(
            length > 0,
            "no picker in {}",
            String::from_utf8_lossy(&shown)
        );
        shown.extend_from_slice(&piece[..length]);
        let letters = letters(&String::from_utf8_lossy(&shown));
        if SHOWN.iter().all(|text| letters.contains(text)) {
            break start.elapsed();
        }
    };
    // Control and C, which ends it; what it still says is not looked at.
    ours.write_all(b"\x03").unwrap();
    while read(&mut ours, &mut piece) > 0 {}
    took.as_secs_f64() * 1e3
}

/// How much came; nothing after the end, or if it takes too long.
fn read(terminal: &mut File, piece: &mut [u8]) -> usize {
    let limit = LIMIT.try_into().unwrap();
    let mut there = [PollFd::new(terminal, PollFlags::IN)];
    if poll(&mut there, Some(&limit)).unwrap() == 0 {
        return 0;
    }
    terminal.read(piece).unwrap_or(0)
}

/// A process that does not outlive this value.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The same program with this terminal as its own. The call before it takes less than a millisecond.
fn at_terminal(command: &Command, terminal: &std::os::fd::OwnedFd) -> Command {
    let mut started = Command::new("setsid");
    started
        .arg("--ctty")
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear()
        .current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        started.env(name, value.unwrap());
    }
    let end = || terminal.try_clone().unwrap();
    started.stdin(end()).stdout(end()).stderr(end());
    started
}

/// What is written, without spaces and without what moves the cursor or changes a colour: blanks are jumped over.
fn letters(screen: &str) -> String {
    let mut letters = String::new();
    let mut rest = screen.chars();
    while let Some(letter) = rest.next() {
        match letter {
            ESCAPE => {
                // `ESC [ … letter`, or `ESC` and one letter.
                if rest.next() == Some('[') {
                    rest.find(char::is_ascii_alphabetic);
                }
            }
            _ if letter.is_whitespace() => {}
            _ => letters.push(letter),
        }
    }
    letters
}
