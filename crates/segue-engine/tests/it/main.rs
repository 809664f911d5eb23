//! Tests of the engine with the SQLite store and a scripted agent.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

mod added_messages;
mod agent_pool;
mod agents;
mod brief;
mod checkpoints;
mod compaction;
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

use segue_api::text::{ShellActions, format_decision, format_hint, format_resolution_step};
use segue_core::hint::Hint;
use segue_core::session::{Decision, ResolutionStep};

fn decision_text(decision: &Decision) -> String {
    format_decision(decision, &ShellActions)
}

fn hint_text(hint: &Hint) -> String {
    format_hint(hint, &ShellActions)
}

fn step_text(step: &ResolutionStep) -> String {
    format_resolution_step(step)
}
