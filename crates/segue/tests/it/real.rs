//! segue with the real CLIs, each on a model stub. `cargo xtask test` runs them.

mod brief;
mod claude;
mod codex;
mod compaction;
mod config;
mod direct;
mod exec;
mod reminder;
mod gemini;
mod archive;
mod matrix;
mod reconcile;
mod policy;
mod repl;
mod revert;
mod roles;
mod purpose;
mod harness;
mod stats;
mod summariser;
