//! Cost of an append, compared with the disk's limit and with a session in one JSON file, and of a query for the
//! session of a feature.
//!
//! `cargo bench -p segue-bench --bench store`; docs/benchmarks.md explains the tables. Arguments after `--` select
//! parts: `appends`, `lengths`, `purposes`. `--rounds N` sets the rounds of `appends`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark speaks on standard output and stops at the first surprise"
)]

mod conversation;
mod lengths;
mod purposes;
mod rates;
mod raw;
mod rewrite;

use tokio::runtime::{Builder, Runtime};

use segue_bench::measurement::BenchmarkMode;

/// Length of a message, about that of a short answer.
const MESSAGE_BYTES: usize = 1024;

fn main() {
    let extent = BenchmarkMode::from_args();
    extent.print_smoke_warning();
    let sqlite = rusqlite::version();
    println!("each message has {MESSAGE_BYTES} bytes of text; SQLite {sqlite}");
    let is_requested = |name: &str| std::env::args().any(|arg| arg == name);
    let run_all = !["appends", "lengths", "purposes"]
        .iter()
        .any(|name| is_requested(name));
    if run_all || is_requested("appends") {
        rates::compare_rates(extent);
    }
    if run_all || is_requested("lengths") {
        lengths::compare_lengths(extent);
    }
    if run_all || is_requested("purposes") {
        purposes::compare_purpose_queries(extent);
    }
}

fn message_text() -> String {
    "segue ".chars().cycle().take(MESSAGE_BYTES).collect()
}

/// Creates a runtime of the kind that the binary uses.
fn build_runtime() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}
