//! Tests of the catalog on sample sessions: the index, and sessions that no list contains.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests outside of test functions"
)]

#[expect(dead_code, reason = "the tests of the readers use more of it")]
#[path = "../../../segue-providers/tests/it/agents.rs"]
mod agents;
mod index;
mod summaries;
