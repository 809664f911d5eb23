//! segue as its users see it: the real binary, in a home of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test suite: a panic is how it speaks"
)]

mod chat;
mod compaction;
mod config;
mod doctor;
mod durability;
mod earlier_home;
mod failing_agents;
mod failing_disks;
mod handoff;
mod revert;
mod help;
mod index;
mod archive;
mod kills;
mod mcp;
mod native;
mod piped_input;
mod policy;
mod preview;
mod real;
mod mcp_tools;
mod repl;
mod resume;
mod roles;
mod purpose;
mod search;
mod sessions;
mod stats;
mod summariser;
mod tags;
mod terminal;
mod transfer;
mod concurrent_writers;

use std::io::Write;

use segue_testkit::TestHome;

/// A fresh world for the binary under test.
fn new_test_home() -> TestHome {
    TestHome::new(env!("CARGO_BIN_EXE_segue"))
}

/// How many sessions a world has in all.
fn count_sessions(home: &TestHome) -> usize {
    let list = home.run_segue_json(["session", "list", "--all", "--json"]);
    list.as_array().unwrap().len()
}

/// Says something that is to be seen also when the test passes.
fn print_to_stderr(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
