//! Tests of the embedded store: the contract of all stores, and the properties of a store in a file.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

mod contract;
mod feed;
mod files;
mod syncs;
