//! What is still known after compaction: the share of planted facts in the request that the next model receives.
//!
//! `cargo bench -p segue --bench fidelity`; docs/benchmarks.md explains the tables. With `SEGUE_CLIS` set the requests are
//! those that the real CLIs send to a stub in the place of their model. After `--` may stand the parts that are wanted
//! (`told`, `received`, `speed`), and `--quick` for one short session and one CLI. Half of the facts are put in sentences that
//! nobody read who made the extraction; with `tuned`, in those that it was made with. So only counts are printed, and no
//! sentence that was missed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark speaks on standard output and stops at the first surprise"
)]

mod planted_store;
mod received;
mod rules;
mod score;
mod speed;
mod brief_facts;

use segue_testkit::benchmark::BenchmarkMode;
use segue_testkit::fact_sessions::Prose;
use tempfile::TempDir;

/// The binary as built.
const SEGUE_BINARY: &str = env!("CARGO_BIN_EXE_segue");

/// How often a session is compacted, on its way to its end.
const COMPACTION_COUNTS: [usize; 3] = [1, 3, 10];

fn is_requested(name: &str) -> bool {
    std::env::args().any(|arg| arg == name)
}

/// The sentences of the half that is in free prose.
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
            println!("SEGUE_CLIS is not set, so no real CLI is asked");
        }
    }
    if run_all || is_requested("speed") {
        speed::measure(mode);
    }
}

/// A directory on the disk that the build is on; the usual one for temporary files may be memory.
fn create_home() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}
