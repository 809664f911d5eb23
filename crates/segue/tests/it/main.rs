//! Integration tests that run the real binary, each in its own temporary home.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test reports a failure with a panic"
)]

mod archive;
mod chat;
mod compaction;
mod concurrent_writers;
mod config;
mod doctor;
mod durability;
mod earlier_home;
mod failing_agents;
mod failing_disks;
mod handoff;
mod help;
mod index;
mod kills;
mod mcp;
mod mcp_tools;
mod native;
mod piped_input;
mod policy;
mod preview;
mod purpose;
mod real;
mod repl;
mod resume;
mod revert;
mod roles;
mod search;
mod sessions;
mod stats;
mod summariser;
mod tags;
mod terminal;
mod transfer;

use std::io::Write;

use segue_testkit::TestHome;

/// Creates an empty home for the binary under test.
fn new_test_home() -> TestHome {
    TestHome::new(env!("CARGO_BIN_EXE_segue"))
}

/// Returns the number of all sessions in a home.
fn count_sessions(home: &TestHome) -> usize {
    let list = home.run_segue_json(["session", "list", "--all", "--json"]);
    list.as_array().unwrap().len()
}

/// Prints a text that is visible even if the test passes.
fn print_to_stderr(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
