//! Tests of the client against a peer that sends exactly the messages of the test, well-formed or malformed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test suite: a panic is how it speaks"
)]

mod client;
mod peer;
mod session;
