//! English text of decisions, resolution steps, hints, guard actions and other outcomes.
//!
//! A frontend passes its [`ActionText`], because a suggested action is worded as a shell command, as a command of the
//! REPL or as a button.

mod action;
mod decision;
mod guard_action;
mod hint;
mod open_reason;
mod resolution_step;
mod skip_reason;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use segue_core::id::SessionId;
use segue_core::scope::{Purpose, PurposeEvidence};
use segue_core::session::ProviderChoice;

pub use action::{ActionText, ShellActions};
pub use decision::{format_decision, format_dropped_setting};
pub use guard_action::format_guard_action;
pub use hint::format_hint;
pub use open_reason::format_open_reason;
pub use resolution_step::format_resolution_step;
pub use skip_reason::format_skip_reason;

/// Formats a time in UTC.
#[must_use]
pub fn format_utc(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Formats a session with its title.
fn format_session(session: &SessionId, title: &str) -> String {
    format!("{session} ({title})")
}

/// Describes the reason for which a provider was chosen.
fn describe_provider_choice(reason: ProviderChoice) -> &'static str {
    match reason {
        ProviderChoice::LastUsedInProject => "the agent last used in this project",
        ProviderChoice::BuiltIn => "the built-in offline agent: no other agent was found",
        ProviderChoice::FirstFound => "the first agent found on this machine",
    }
}

/// Describes the evidence that a native session had a purpose.
fn describe_purpose_evidence(purpose: &Purpose, evidence: PurposeEvidence) -> String {
    match (evidence, purpose.heading()) {
        (PurposeEvidence::Tag, Some(heading)) => format!("its first prompt begins with {heading}"),
        (PurposeEvidence::Tag, None) | (PurposeEvidence::Title, _) => {
            "its title matches".to_owned()
        }
    }
}
