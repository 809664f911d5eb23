//! Benchmark of a session that is too large for memory.
//!
//! Only a process itself can read its peak memory. Each reading is therefore done by a process of its own: this
//! program, called with a [`CHILD_ARG`] argument.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use segue_bench::measurement::{BenchmarkMode, format_verdict, print_table, quantile};
use segue_catalog::{Reader, SessionLocation};

use crate::format::{BENCH_FORMATS, BenchFormat};
use crate::transcripts::{count_records, count_turns};

pub(crate) const CHILD_ARG: &str = "--child";

/// Number of turns that are read from the end.
const RECENT_TURN_COUNT: usize = 20;
const TARGET_PEAK_MEGABYTES: f64 = 50.0;
const TARGET_RECENT_MILLIS: f64 = 50.0;

type SessionReadFn = fn(&dyn Reader, &SessionLocation) -> u64;

const READ_METHODS: [(&str, SessionReadFn); 4] = [
    ("nothing", |_, _| 1),
    ("all records", count_records),
    ("an outline", count_turns),
    ("the last 20 turns", read_recent_turns),
];

fn read_recent_turns(reader: &dyn Reader, location: &SessionLocation) -> u64 {
    let (turns, is_complete) = reader
        .read_recent_turns(location, RECENT_TURN_COUNT)
        .unwrap();
    assert!(turns.len() == RECENT_TURN_COUNT || is_complete);
    turns.len() as u64
}

pub(crate) fn compare_readings(extent: BenchmarkMode, formats: &[&BenchFormat]) {
    let megabytes = extent.pick(1000, 4);
    let mut rows = Vec::new();
    for format in formats {
        let home = format.create_large_home(megabytes * 1_000_000);
        for (name, _) in READ_METHODS {
            rows.push(measure_row(extent, format, home.path(), name));
        }
    }
    print_table(
        &format!("A session of {megabytes} MB, each reading in a process of its own"),
        ["", "reading", "peak", "median", "aim"],
        &rows,
    );
}

fn measure_row(
    extent: BenchmarkMode,
    format: &BenchFormat,
    home: &Path,
    reading: &str,
) -> [String; 5] {
    let rounds = match reading {
        "the last 20 turns" => extent.pick("21", "2"),
        _ => "1",
    };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([CHILD_ARG, format.name, reading, rounds])
        .arg(home);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let (peak, median) = stdout.trim().split_once(' ').unwrap();
    let (peak, median): (f64, f64) = (peak.parse().unwrap(), median.parse().unwrap());
    let mut verdicts = Vec::new();
    if reading != "nothing" {
        let target = format!("at most {TARGET_PEAK_MEGABYTES} MB");
        verdicts.push(format_verdict(&target, peak <= TARGET_PEAK_MEGABYTES));
    }
    if reading == "the last 20 turns" {
        let target = format!("at most {TARGET_RECENT_MILLIS} ms");
        verdicts.push(format_verdict(&target, median <= TARGET_RECENT_MILLIS));
    }
    [
        format.name.to_owned(),
        reading.to_owned(),
        format!("{peak:.1} MB"),
        format!("{median:.1} ms"),
        verdicts.join(", "),
    ]
}

/// Performs a reading, and prints its peak memory in megabytes and its time in milliseconds.
pub(crate) fn run_child(args: &[String]) {
    let [format, reading, rounds, home] = args else {
        panic!("{args:?}");
    };
    let format = BENCH_FORMATS
        .iter()
        .find(|candidate| candidate.name == format)
        .unwrap();
    let (_, read) = READ_METHODS
        .iter()
        .find(|(name, _)| name == reading)
        .unwrap();
    let (reader, location) = format.find_only_session(Path::new(home));
    let time_round = |_| {
        let start = Instant::now();
        assert!(read(reader.as_ref(), &location) > 0);
        start.elapsed().as_secs_f64() * 1e3
    };
    let times: Vec<f64> = (0..rounds.parse::<u32>().unwrap())
        .map(time_round)
        .collect();
    println!("{} {}", peak_memory_megabytes(), quantile(&times, 0.5));
}

/// Returns the peak memory of this process in megabytes.
fn peak_memory_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kilobytes = line.split_ascii_whitespace().nth(1).unwrap();
    kilobytes.parse::<f64>().unwrap() * 1024.0 / 1e6
}
