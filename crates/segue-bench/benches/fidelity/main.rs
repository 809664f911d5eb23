//! Benchmark of what remains after compaction: the percentage of planted facts in the next request to a model.
//!
//! Run with `cargo bench -p segue-bench --bench fidelity`; docs/benchmarks.md explains the tables. If `SEGUE_CLIS` is set,
//! the real CLIs run with a stub instead of their model, and their requests are measured. Arguments after `--` select
//! parts (`told`, `received`, `speed`); `--quick` limits the run to one short session and one CLI.
//!
//! Half of the facts are in sentences that the authors of the extraction have not read (with `tuned`: in the sentences
//! that the extraction was developed with). For this reason only counts are printed, never the sentences that were
//! missed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark prints to standard output and panics on any unexpected result"
)]

mod brief_facts;
mod planted_store;
mod received;
mod rules;
mod score;
mod speed;

use segue_bench::fact_sessions::Prose;
use segue_bench::measurement::BenchmarkMode;

/// Numbers of compactions of a session, evenly distributed over its turns.
const COMPACTION_COUNTS: [usize; 3] = [1, 3, 10];

fn is_requested(name: &str) -> bool {
    std::env::args().any(|arg| arg == name)
}

/// Returns the set of sentences for the facts in free prose.
fn selected_prose() -> Prose {
    if is_requested("tuned") {
        Prose::Tuned
    } else {
        Prose::HeldOut
    }
}

fn main() {
    let mode = if is_requested("--quick") {
        println!("one short session, one CLI");
        BenchmarkMode::Smoke
    } else {
        let parsed_mode = BenchmarkMode::from_args();
        parsed_mode.print_smoke_warning();
        parsed_mode
    };
    println!("free prose: {:?}", selected_prose());
    let run_all = !["told", "received", "speed"]
        .iter()
        .any(|name| is_requested(name));
    if run_all || is_requested("told") {
        brief_facts::measure(mode);
    }
    if run_all || is_requested("received") {
        if std::env::var_os("SEGUE_CLIS").is_some() {
            received::measure(mode);
        } else {
            println!("SEGUE_CLIS is not set: the part `received` is skipped");
        }
    }
    if run_all || is_requested("speed") {
        speed::measure(mode);
    }
}
