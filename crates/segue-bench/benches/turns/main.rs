//! Benchmarks of the overhead of segue in a turn: time, memory, and events per second.
//!
//! Run with `cargo bench -p segue-bench --bench turns`; docs/benchmarks.md explains the tables. Arguments after `--` select
//! parts: `added`, `memory`, `events`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints to standard output and panics on any unexpected result"
)]

mod bare_client;
mod engine_run;
mod events;
mod memory;
mod overhead;

use segue_bench::measurement::BenchmarkMode;

fn main() {
    let mode = BenchmarkMode::from_args();
    mode.print_smoke_warning();
    let is_requested = |name: &str| std::env::args().any(|arg| arg == name);
    let run_all = !["added", "memory", "events"]
        .iter()
        .any(|name| is_requested(name));
    if run_all || is_requested("added") {
        overhead::measure(mode);
    }
    if run_all || is_requested("memory") {
        memory::measure(mode);
    }
    if run_all || is_requested("events") {
        events::measure(mode);
    }
}
