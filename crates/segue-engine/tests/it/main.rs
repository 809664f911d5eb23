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

use segue_api::text::{
    ShellActions, format_decision, format_hint, format_open_reason, format_resolution_step,
};
use segue_core::hint::Hint;
use segue_core::session::{Decision, OpenMode, ResolutionStep};
use segue_engine::TurnReport;

fn decision_text(decision: &Decision) -> String {
    format_decision(decision, &ShellActions)
}

fn hint_text(hint: &Hint) -> String {
    format_hint(hint, &ShellActions)
}

fn step_text(step: &ResolutionStep) -> String {
    format_resolution_step(step)
}

/// Returns the mode in which the native session of a turn was opened, and the text of the reason.
fn open_mode_and_reason(report: &TurnReport) -> (OpenMode, String) {
    let (mode, reason) = report.opened.as_ref().unwrap();
    (*mode, format_open_reason(reason))
}
