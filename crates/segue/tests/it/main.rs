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
mod events;
mod failing_agents;
mod failing_disks;
mod handoff;
mod help;
mod index;
mod kills;
mod logging;
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
mod schema;
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

/// Reads a number from an environment variable, for longer or different test runs.
fn read_env_number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A small pseudo-random number generator with a fixed seed.
struct CampaignRng(u64);

impl CampaignRng {
    fn next_below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Prints a text that is visible even if the test passes.
fn print_to_stderr(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
