//! Tests of the engine with the SQLite store and a scripted agent.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test suite: a panic is how it speaks"
)]

mod added_messages;
mod agents;
mod brief;
mod checkpoints;
mod compaction;
mod examples;
mod first_turn;
mod reminder;
mod handoff;
mod revert;
mod native;
mod opening;
mod reconcile;
mod policy;
mod portable;
mod purpose;
mod search;
mod roles;
mod purpose_sessions;
mod scripted;
mod spending;
mod summariser;
mod turns;
mod deletion;
mod agent_pool;
