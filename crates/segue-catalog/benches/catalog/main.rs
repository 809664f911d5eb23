//! Benchmark of reading native sessions: many heads, complete transcripts, and the end of a very long one.
//!
//! `cargo bench -p segue-catalog --bench catalog`; docs/benchmarks.md explains the tables. Arguments after `--` are
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

use tempfile::TempDir;

use format::{FORMATS, Format};
use segue_testkit::benchmark::BenchmarkMode;

const PARTS: [&str; 3] = ["heads", "transcripts", "large"];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some((large::CHILD, rest)) = args
        .split_first()
        .map(|(first, rest)| (first.as_str(), rest))
    {
        large::child(rest);
        return;
    }
    let extent = BenchmarkMode::from_args();
    extent.print_smoke_warning();
    let formats: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    let formats = chosen(&formats, &args);
    let formats: Vec<&Format> = FORMATS
        .iter()
        .filter(|format| formats.contains(&format.name))
        .collect();
    let megabytes = args.iter().skip_while(|arg| *arg != "--megabytes").nth(1);
    for part in chosen(&PARTS, &args) {
        match part {
            "heads" => heads::compare(extent, &formats),
            "transcripts" => {
                let megabytes = megabytes.map(|number| number.parse().unwrap());
                transcripts::compare(extent, &formats, megabytes);
            }
            _ => large::compare(extent, &formats),
        }
    }
}

/// Returns the names that occur in the arguments, or all if none does.
fn chosen<'a>(known: &[&'a str], args: &[String]) -> Vec<&'a str> {
    let named = |name: &&&str| args.iter().any(|arg| arg == **name);
    let chosen: Vec<&str> = known.iter().filter(named).copied().collect();
    if chosen.is_empty() {
        return known.to_vec();
    }
    chosen
}

/// Creates a directory on the disk of the build, because the default directory for temporary files may be in memory.
fn directory() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}
