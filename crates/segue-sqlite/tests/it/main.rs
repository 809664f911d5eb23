//! The embedded store: the contract of all stores, and what is special to a file.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test suite: a panic is how it speaks"
)]

mod contract;
mod files;
mod syncs;
