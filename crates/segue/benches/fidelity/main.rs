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

mod long;
mod received;
mod rules;
mod score;
mod speed;
mod told;

use segue_testkit::benchmark::BenchmarkMode;
use segue_testkit::fact_sessions::Prose;
use tempfile::TempDir;

/// The binary as built.
const SEGUE: &str = env!("CARGO_BIN_EXE_segue");

/// How often a session is compacted, on its way to its end.
const CHAINS: [usize; 3] = [1, 3, 10];

fn named(name: &str) -> bool {
    std::env::args().any(|arg| arg == name)
}

/// The sentences of the half that is in free prose.
fn prose() -> Prose {
    if named("tuned") {
        Prose::Tuned
    } else {
        Prose::HeldOut
    }
}

fn main() {
    let extent = if named("--quick") {
        println!("one short session, one CLI");
        BenchmarkMode::Smoke
    } else {
        let extent = BenchmarkMode::from_args();
        extent.print_smoke_warning();
        extent
    };
    println!("free prose: {:?}", prose());
    let all = !["told", "received", "speed"].iter().any(|name| named(name));
    if all || named("told") {
        told::measure(extent);
    }
    if all || named("received") {
        if std::env::var_os("SEGUE_CLIS").is_some() {
            received::measure(extent);
        } else {
            println!("SEGUE_CLIS is not set, so no real CLI is asked");
        }
    }
    if all || named("speed") {
        speed::measure(extent);
    }
}

/// A directory on the disk that the build is on; the usual one for temporary files may be memory.
fn home() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}
