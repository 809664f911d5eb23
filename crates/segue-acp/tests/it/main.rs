//! Tests of the client against a peer that sends exactly the messages of the test, well-formed or malformed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

mod client;
mod peer;
mod session;
