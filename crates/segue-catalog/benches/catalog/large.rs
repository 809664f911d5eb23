//! Benchmark of a session that is too large for memory.
//!
//! Only a process itself can read its peak memory. Each reading is therefore done by a process of its own: this
//! program, called with a [`CHILD`] argument.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use segue_catalog::{SessionLocation, Reader};
use segue_testkit::benchmark::{BenchmarkMode, print_table, quantile, format_verdict};

use crate::format::{FORMATS, Format};
use crate::transcripts::{records, turns};

pub(crate) const CHILD: &str = "--child";

/// Number of turns that are read from the end.
const RECENT: usize = 20;
const AIM_MEMORY: f64 = 50.0;
const AIM_RECENT: f64 = 50.0;

type Read = fn(&dyn Reader, &SessionLocation) -> u64;

const READINGS: [(&str, Read); 4] = [
    ("nothing", |_, _| 1),
    ("all records", records),
    ("an outline", turns),
    ("the last 20 turns", recent),
];

fn recent(reader: &dyn Reader, found: &SessionLocation) -> u64 {
    let (turns, all) = reader.read_recent_turns(found, RECENT).unwrap();
    assert!(turns.len() == RECENT || all);
    turns.len() as u64
}

pub(crate) fn compare(extent: BenchmarkMode, formats: &[&Format]) {
    let megabytes = extent.pick(1000, 4);
    let mut rows = Vec::new();
    for format in formats {
        let home = format.large(megabytes * 1_000_000);
        for (name, _) in READINGS {
            rows.push(row(extent, format, home.path(), name));
        }
    }
    print_table(
        &format!("A session of {megabytes} MB, each reading in a process of its own"),
        ["", "reading", "peak", "median", "aim"],
        &rows,
    );
}

fn row(extent: BenchmarkMode, format: &Format, home: &Path, reading: &str) -> [String; 5] {
    let rounds = match reading {
        "the last 20 turns" => extent.pick("21", "2"),
        _ => "1",
    };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([CHILD, format.name, reading, rounds])
        .arg(home);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stdout).unwrap();
    let (peak, median) = told.trim().split_once(' ').unwrap();
    let (peak, median): (f64, f64) = (peak.parse().unwrap(), median.parse().unwrap());
    let mut aims = Vec::new();
    if reading != "nothing" {
        let aim = format!("at most {AIM_MEMORY} MB");
        aims.push(format_verdict(&aim, peak <= AIM_MEMORY));
    }
    if reading == "the last 20 turns" {
        let aim = format!("at most {AIM_RECENT} ms");
        aims.push(format_verdict(&aim, median <= AIM_RECENT));
    }
    [
        format.name.to_owned(),
        reading.to_owned(),
        format!("{peak:.1} MB"),
        format!("{median:.1} ms"),
        aims.join(", "),
    ]
}

/// Performs a reading, and prints its peak memory in megabytes and its time in milliseconds.
pub(crate) fn child(args: &[String]) {
    let [format, reading, rounds, home] = args else {
        panic!("{args:?}");
    };
    let format = FORMATS.iter().find(|known| known.name == format).unwrap();
    let (_, read) = READINGS.iter().find(|(name, _)| name == reading).unwrap();
    let (reader, found) = format.only(Path::new(home));
    let round = |_| {
        let start = Instant::now();
        assert!(read(reader.as_ref(), &found) > 0);
        start.elapsed().as_secs_f64() * 1e3
    };
    let took: Vec<f64> = (0..rounds.parse::<u32>().unwrap()).map(round).collect();
    println!("{} {}", peak(), quantile(&took, 0.5));
}

/// Returns the peak memory of this process in megabytes.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kilobytes = line.split_ascii_whitespace().nth(1).unwrap();
    kilobytes.parse::<f64>().unwrap() * 1024.0 / 1e6
}
