//! The readers on files: the corpus, hand-made older dialects, and everything that can be wrong with a file.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests outside of test functions"
)]

mod agents;
mod bad_files;
mod corpus;
mod index;
mod long_prompts;
mod marks;
mod story;
mod summaries;
