//! Tests of the engine with the SQLite store and a scripted agent.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test suite: a panic is how it speaks"
)]

mod added;
mod agents;
mod brief;
mod checkpoints;
mod compaction;
mod examples;
mod first_turn;
mod forgot;
mod handoff;
mod head;
mod native;
mod opening;
mod outside;
mod policy;
mod portable;
mod purpose;
mod recall;
mod roles;
mod scopes;
mod scripted;
mod spending;
mod summariser;
mod turns;
mod upkeep;
mod warm;
