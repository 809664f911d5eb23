//! The engine over the real store, with an agent that does as it is told.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test suite: a panic is how it speaks"
)]

mod agents;
mod handoff;
mod native;
mod opening;
mod policy;
mod recall;
mod scripted;
mod spending;
mod turns;
mod upkeep;
