//! The real CLIs write their real files, and the readers give back what was said.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests outside of test functions"
)]

mod claude;
mod codex;
mod corpus;
mod gemini;
mod opencode;
mod session;
#[path = "../it/story.rs"]
mod story;
