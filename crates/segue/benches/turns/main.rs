//! What segue adds to a turn: time, memory, and work for each event.
//!
//! `cargo bench -p segue --bench turns`; docs/benchmarks.md explains the tables. After `--` may stand the parts that
//! are wanted: `added`, `memory`, `events`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark speaks on standard output and stops at the first surprise"
)]

mod overhead;
mod bare_client;
mod engine_run;
mod events;
mod memory;

use segue_testkit::benchmark::BenchmarkMode;
use tempfile::TempDir;

/// The binary as built; it is the rehearsal agent and the leash, too.
const SEGUE_BINARY: &str = env!("CARGO_BIN_EXE_segue");

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

/// A directory on the disk that the build is on; the usual one for temporary files may be memory.
fn create_home() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}
