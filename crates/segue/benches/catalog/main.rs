//! The catalog beside what people would use in its place: the first index, search and list, and the picker.
//!
//! `cargo bench -p segue --bench catalog`; docs/benchmarks.md explains the tables. After `--` may stand the parts that
//! are wanted (`cold`, `whole`, `picker`) and `--big`, for ten times as many sessions. With `SEGUE_PEERS` set to what
//! `cargo xtask peers` prints, the others take part.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark speaks on standard output and stops at the first surprise"
)]

mod cold;
mod home;
mod peers;
mod picker;
mod ran;
mod whole;

use segue_testkit::benchmark::BenchmarkMode;

use home::Written;
use peers::Peers;

const PARTS: [&str; 3] = ["cold", "whole", "picker"];

fn main() {
    let extent = BenchmarkMode::from_args();
    extent.print_smoke_warning();
    let named = |name: &str| std::env::args().any(|arg| arg == name);
    let all = !PARTS.iter().any(|part| named(part));
    let wanted = |part| all || named(part);
    let peers = Peers::from_environment();
    let mut sizes = vec![extent.pick(3000, 60)];
    if named("--big") {
        sizes.push(extent.pick(30_000, 120));
    }
    for sessions in sizes {
        let corpus = Written::new(sessions);
        println!("\n{corpus}");
        let mut synced = None;
        if wanted("cold") {
            synced = cold::measure(extent, &corpus, &peers);
        }
        if wanted("whole") {
            whole::measure(extent, &corpus, &peers, synced);
        }
        if wanted("picker") {
            picker::measure(extent, &corpus);
        }
    }
}
