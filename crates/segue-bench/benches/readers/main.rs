//! Benchmark of reading native sessions: many heads, complete transcripts, and the end of a very long one.
//!
//! `cargo bench -p segue-bench --bench readers`; docs/benchmarks.md explains the tables. Arguments after `--` are
//! names of formats and of sections (`heads`, `transcripts`, `large`), to measure only those, and `--megabytes N` for
//! the length of the transcripts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark speaks on standard output and stops at the first surprise"
)]

mod format;
mod heads;
mod large;
mod opencode;
mod transcripts;

use format::{BENCH_FORMATS, BenchFormat};
use segue_bench::measurement::BenchmarkMode;

const SECTION_NAMES: [&str; 3] = ["heads", "transcripts", "large"];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some((large::CHILD_ARG, child_args)) = args
        .split_first()
        .map(|(first, remaining)| (first.as_str(), remaining))
    {
        large::run_child(child_args);
        return;
    }
    let extent = BenchmarkMode::from_args();
    extent.print_smoke_warning();
    let formats: Vec<&str> = BENCH_FORMATS.iter().map(|format| format.name).collect();
    let formats = select_names(&formats, &args);
    let formats: Vec<&BenchFormat> = BENCH_FORMATS
        .iter()
        .filter(|format| formats.contains(&format.name))
        .collect();
    let megabytes = args.iter().skip_while(|arg| *arg != "--megabytes").nth(1);
    for section in select_names(&SECTION_NAMES, &args) {
        match section {
            "heads" => heads::compare_heads(extent, &formats),
            "transcripts" => {
                let megabytes = megabytes.map(|number| number.parse().unwrap());
                transcripts::compare_transcripts(extent, &formats, megabytes);
            }
            _ => large::compare_readings(extent, &formats),
        }
    }
}

/// Returns the names that occur in the arguments, or all if none does.
fn select_names<'a>(available: &[&'a str], args: &[String]) -> Vec<&'a str> {
    let is_requested = |name: &&&str| args.iter().any(|arg| arg == **name);
    let selected: Vec<&str> = available.iter().filter(is_requested).copied().collect();
    if selected.is_empty() {
        return available.to_vec();
    }
    selected
}
