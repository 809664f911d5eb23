//! Benchmarks of the catalog against other programs: the first index, search and list, and the picker.
//!
//! Run with `cargo bench -p segue-bench --bench catalog`; docs/benchmarks.md explains the tables. Arguments after `--` select
//! parts (`cold`, `whole`, `picker`) or, with `--big`, add a run with ten times as many sessions. The other programs
//! are measured if `SEGUE_PEERS` is set to the directory that `cargo xtask peers` prints.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints to standard output and panics on any unexpected result"
)]

mod cold;
mod home;
mod peers;
mod picker;
mod process_run;
mod whole_process;

use segue_bench::measurement::BenchmarkMode;

use home::WrittenCorpus;
use peers::PeerPrograms;

const SECTION_NAMES: [&str; 3] = ["cold", "whole", "picker"];

fn main() {
    let mode = BenchmarkMode::from_args();
    mode.print_smoke_warning();
    let is_requested = |name: &str| std::env::args().any(|arg| arg == name);
    let run_all = !SECTION_NAMES.iter().any(|part| is_requested(part));
    let should_run = |part| run_all || is_requested(part);
    let peers = PeerPrograms::from_environment();
    let mut sizes = vec![mode.pick(3000, 60)];
    if is_requested("--big") {
        sizes.push(mode.pick(30_000, 120));
    }
    for sessions in sizes {
        let corpus = WrittenCorpus::new(sessions);
        println!("\n{corpus}");
        let mut synced_home = None;
        if should_run("cold") {
            synced_home = cold::measure(mode, &corpus, &peers);
        }
        if should_run("whole") {
            whole_process::measure(mode, &corpus, &peers, synced_home);
        }
        if should_run("picker") {
            picker::measure(mode, &corpus);
        }
    }
}
