//! Benchmark of the memory that segue uses for a long answer.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use segue_bench::measurement::{BenchmarkMode, format_verdict, print_table};
use serde_json::Value;
use tempfile::TempDir;

use segue_bench::{create_temp_dir, segue_program};

/// Interval between two reads of a process's memory use. Changes after the last read are missed.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Measurements of a process that ran to its end.
struct MemoryRun {
    peak_kib: u64,
    elapsed: Duration,
}

pub(crate) fn measure(mode: BenchmarkMode) {
    let long_megabytes = mode.pick(100, 3);
    let rows = [
        measure_row("--events", 1, true),
        measure_row("--events", long_megabytes, true),
        measure_row("--json", 1, false),
        measure_row("--json", long_megabytes, false),
    ];
    print_table(
        "The most memory that segue takes while an agent streams its answer",
        ["", "MB of answer", "peak", "time", "aim"],
        &rows,
    );
}

fn measure_row(output_flag: &str, megabytes: u64, has_target: bool) -> [String; 5] {
    let home = create_temp_dir();
    let prompt = format!("rehearse: stream {megabytes}mb");
    let MemoryRun { peak_kib, elapsed } =
        measure_run(&mut segue_command(&home, &["chat", output_flag, &prompt]));
    assert_answer_is_complete(&home, megabytes);
    let tenths = peak_kib * 1024 / 100_000;
    let verdict_cell = format_verdict("at most 64 MB", peak_kib * 1024 <= 64_000_000);
    [
        format!("segue chat {output_flag}"),
        megabytes.to_string(),
        format!("{}.{} MB", tenths / 10, tenths % 10),
        format!("{:.2} s", elapsed.as_secs_f64()),
        if has_target {
            verdict_cell
        } else {
            String::new()
        },
    ]
}

/// Runs a process to its end and measures its time and its peak memory use.
fn measure_run(command: &mut Command) -> MemoryRun {
    let start = Instant::now();
    let mut child = command.spawn().unwrap();
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    // The kernel reports no memory for a process that has ended.
    while let Some(current_kib) = parse_peak_kib(&fs::read_to_string(&status_file).unwrap()) {
        peak_kib = current_kib;
        std::thread::sleep(POLL_INTERVAL);
    }
    let status = child.wait().unwrap();
    let elapsed = start.elapsed();
    assert!(status.success(), "{command:?}: {status}");
    MemoryRun { peak_kib, elapsed }
}

fn parse_peak_kib(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Checks that low memory use lost no data: the stored answer is complete.
fn assert_answer_is_complete(home: &TempDir, megabytes: u64) {
    let output = segue_command(home, &["session", "show", "--json", "latest"])
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    let transcript: Value = serde_json::from_slice(&output.stdout).unwrap();
    let answer = &transcript["turns"][0]["messages"][1];
    assert_eq!(answer["complete"], true);
    let text = answer["parts"][0]["text"].as_str().unwrap();
    let kilobytes = megabytes * 1000;
    assert_eq!(text.len() as u64, kilobytes * 1000);
    let mut numbers = text.split_ascii_whitespace();
    for number in 1..=kilobytes {
        let number = number.to_string();
        assert!(
            numbers.by_ref().take(100).all(|word| word == number),
            "kilobyte {number} is missing"
        );
    }
}

/// Returns a command for the built binary with its own home and a cleared environment.
fn segue_command(home: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(segue_program());
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
