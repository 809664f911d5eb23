//! Tests of the engine with the SQLite store and a scripted agent.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

mod added_messages;
mod agent_pool;
mod agents;
mod brief;
mod checkpoints;
mod compaction;
mod counting_store;
mod deletion;
mod examples;
mod first_turn;
mod handoff;
mod native;
mod opening;
mod policy;
mod portable;
mod purpose;
mod purpose_sessions;
mod reconcile;
mod reminder;
mod revert;
mod roles;
mod scripted;
mod search;
mod spending;
mod summariser;
mod turns;
mod walks;
