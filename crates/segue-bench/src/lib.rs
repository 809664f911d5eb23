//! Support for benchmarks: side-by-side measurements, and the sessions that they measure.
//!
//! The benchmarks are in `benches`; docs/benchmarks.md explains their tables.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::print_stdout,
    reason = "a benchmark prints to standard output and panics on any unexpected result"
)]

pub mod corpus;
pub mod fact_sessions;
pub mod measurement;
mod program;

pub use program::{create_temp_dir, segue_program};
