//! What it costs to append a message, against what the disk allows and against a session in one JSON file, and to find
//! the session of a feature.
//!
//! `cargo bench -p segue-sqlite --bench store`; docs/benchmarks.md explains the tables.

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

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use segue_testkit::figures::Extent;

/// The length of a message, about that of a short answer.
const MESSAGE_BYTES: usize = 1024;

fn main() {
    let extent = Extent::from_args();
    extent.announce();
    let sqlite = rusqlite::version();
    println!("each message has {MESSAGE_BYTES} bytes of text; SQLite {sqlite}");
    rates::compare(extent);
    lengths::compare(extent);
    purposes::compare(extent);
}

/// A directory on the disk that the build is on; the usual one for temporary files may be memory.
fn directory() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn text() -> String {
    "segue ".chars().cycle().take(MESSAGE_BYTES).collect()
}

/// The same kind of runtime as the binary has.
fn runtime() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}
