//! How much memory a long answer takes.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use segue_testkit::benchmark::{BenchmarkMode, print_table, format_verdict};
use serde_json::Value;
use tempfile::TempDir;

use crate::{SEGUE, home};

/// How often a process is looked at: what it takes in its last moments is missed.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A process that ran to its end.
struct Ran {
    peak_kib: u64,
    took: Duration,
}

pub(crate) fn measure(extent: BenchmarkMode) {
    let long = extent.pick(100, 3);
    let rows = [
        row("--events", 1, true),
        row("--events", long, true),
        row("--json", 1, false),
        row("--json", long, false),
    ];
    print_table(
        "The most memory that segue takes while an agent streams its answer",
        ["", "MB of answer", "peak", "time", "aim"],
        &rows,
    );
}

fn row(form: &str, megabytes: u64, has_aim: bool) -> [String; 5] {
    let home = home();
    let prompt = format!("rehearse: stream {megabytes}mb");
    let Ran { peak_kib, took } = run(&mut segue(&home, &["chat", form, &prompt]));
    check(&home, megabytes);
    let tenths = peak_kib * 1024 / 100_000;
    let aim = format_verdict("at most 64 MB", peak_kib * 1024 <= 64_000_000);
    [
        format!("segue chat {form}"),
        megabytes.to_string(),
        format!("{}.{} MB", tenths / 10, tenths % 10),
        format!("{:.2} s", took.as_secs_f64()),
        if has_aim { aim } else { String::new() },
    ]
}

/// Runs a process to its end, and returns the most memory it had until just before.
fn run(command: &mut Command) -> Ran {
    let start = Instant::now();
    let mut child = command.spawn().unwrap();
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    // A process that has ended has no memory that could be told.
    while let Some(peak) = peak_of(&fs::read_to_string(&status_file).unwrap()) {
        peak_kib = peak;
        std::thread::sleep(LOOK_EVERY);
    }
    let status = child.wait().unwrap();
    let took = start.elapsed();
    assert!(status.success(), "{command:?}: {status}");
    Ran { peak_kib, took }
}

fn peak_of(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// What was saved in memory must not have been lost: all that was said is on record.
fn check(home: &TempDir, megabytes: u64) {
    let shown = segue(home, &["session", "show", "--json", "latest"])
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let answer = &shown["turns"][0]["messages"][1];
    assert_eq!(answer["complete"], true);
    let said = answer["parts"][0]["text"].as_str().unwrap();
    let kilobytes = megabytes * 1000;
    assert_eq!(said.len() as u64, kilobytes * 1000);
    let mut numbers = said.split_ascii_whitespace();
    for number in 1..=kilobytes {
        let number = number.to_string();
        assert!(
            numbers.by_ref().take(100).all(|said| said == number),
            "kilobyte {number} was lost"
        );
    }
}

/// The binary with a home of its own and nothing else from this environment.
fn segue(home: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(SEGUE);
    command
        .args(args)
        .env_clear()
        .env("HOME", home.path())
        .env("SEGUE_HOME", home.path())
        .current_dir(home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}
