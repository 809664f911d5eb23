//! Tests with the real CLIs, each with a stub instead of its model. `cargo xtask test` runs them.

mod archive;
mod brief;
mod claude;
mod codex;
mod compaction;
mod config;
mod direct;
mod exec;
mod gemini;
mod harness;
mod matrix;
mod policy;
mod purpose;
mod reconcile;
mod reminder;
mod repl;
mod revert;
mod roles;
mod stats;
mod summariser;
