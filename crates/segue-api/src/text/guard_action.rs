//! Text of actions that protect native sessions.

use segue_core::session::{GuardAction, RestoreCause};

/// Formats an action that protected a native session, in one line.
#[must_use]
pub fn format_guard_action(action: &GuardAction) -> String {
    match action {
        GuardAction::McpServerOmitted { server, variable } => format!(
            "omitted the MCP server {server}: `codex exec` cannot pass the variable {variable:?} to it"
        ),
        GuardAction::CopySaved { short_id } => format!(
            "saved a copy of Gemini session {short_id}; if Gemini CLI deletes the session, the next segue command restores it"
        ),
        GuardAction::CopyFailed {
            short_id,
            error,
            is_at_risk,
        } => {
            let risk = if *is_at_risk {
                ", which Gemini CLI may delete"
            } else {
                ""
            };
            format!("could not copy Gemini session {short_id}{risk}: {error}")
        }
        GuardAction::SessionRestored { short_id, cause } => {
            let cause = match cause {
                RestoreCause::Deleted => "it had been deleted",
                RestoreCause::DeletedByAgent => "Gemini CLI had deleted it",
                RestoreCause::DeletedInUse => "Gemini CLI had deleted it while it was in use",
                RestoreCause::Emptied => "Gemini CLI had emptied it",
                RestoreCause::Restarted => "Gemini CLI had restarted it",
            };
            format!("restored Gemini session {short_id}: {cause}")
        }
        GuardAction::RestoreFailed { short_id, error } => {
            format!("could not restore Gemini session {short_id}: {error}")
        }
        GuardAction::DuplicateRemoved { short_id } => format!(
            "removed an empty duplicate of Gemini session {short_id}: Gemini CLI would have deleted both"
        ),
        GuardAction::DuplicateNotRemoved { short_id, error } => {
            format!("could not remove an empty duplicate of Gemini session {short_id}: {error}")
        }
        GuardAction::GuardFailed => {
            "could not protect the Gemini sessions of this directory".to_owned()
        }
    }
}
