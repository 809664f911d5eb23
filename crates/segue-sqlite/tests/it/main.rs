//! Tests of the embedded store: the contract of all stores, and the properties of a store in a file.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test suite: a panic is how it speaks"
)]

mod contract;
mod files;
mod syncs;
