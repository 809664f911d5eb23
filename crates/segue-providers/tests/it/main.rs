//! Tests of the readers on files: the corpus, handwritten older formats, and damaged files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests outside of test functions"
)]

mod agents;
mod bad_files;
mod conversation_text;
mod corpus;
mod long_prompts;
mod marks;
mod real;
