//! The real CLIs on the stub: that each of them runs a turn, and fails when it is told to.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests outside of test functions"
)]

mod acp;
mod headless;
mod sandbox;
