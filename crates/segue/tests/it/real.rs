//! segue with the real CLIs, each on a model stub. `cargo xtask test` runs them.

mod brief;
mod claude;
mod codex;
mod compaction;
mod config;
mod direct;
mod exec;
mod forgot;
mod gemini;
mod keep;
mod matrix;
mod outside;
mod policy;
mod repl;
mod revert;
mod roles;
mod scopes;
mod stage;
mod stats;
mod summaries;
