//! The client, against a peer that says exactly what it is told to, well or badly formed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test suite: a panic is how it speaks"
)]

mod client;
mod peer;
mod session;
