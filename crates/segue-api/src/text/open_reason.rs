//! Text of the reasons for the way in which a native session was opened.

use std::fmt::Write as _;

use segue_core::id::ProviderId;
use segue_core::session::{NewNative, NewNativeCause, OpenReason};

/// Formats the reason for the way in which a native session was opened.
#[must_use]
pub fn format_open_reason(reason: &OpenReason) -> String {
    match reason {
        OpenReason::AgentRunning => "the agent is still running".to_owned(),
        OpenReason::NativeComplete => "the native session contains all earlier turns".to_owned(),
        OpenReason::Branched {
            provider,
            turn,
            is_fork,
        } => format_branch(provider, *turn, *is_fork),
        OpenReason::NewNative(new_native) => format_new_native(new_native),
    }
}

/// Formats a native session that was branched off.
pub(super) fn format_branch(provider: &ProviderId, turn: u32, is_fork: bool) -> String {
    if is_fork {
        format!("{provider} branched off from its native session after turn {turn}")
    } else {
        format!("{provider} rewound its native session to turn {turn}")
    }
}

/// Formats the reason for a new native session, and what its brief lacks.
pub(super) fn format_new_native(new_native: &NewNative) -> String {
    let mut text = new_native.cause.to_string();
    if let Some(message) = &new_native.agent_message {
        text = format!("{text} ({message})");
    }
    let mentions_compaction = matches!(new_native.cause, NewNativeCause::Compacted { .. });
    if new_native.has_checkpoint && !mentions_compaction {
        text.push_str("; the brief contains a checkpoint of earlier turns");
    }
    match new_native.omitted_turns {
        0 => {}
        1 => text.push_str("; turn 1 did not fit into the brief"),
        n => {
            let _ = write!(text, "; turns 1 to {n} did not fit into the brief");
        }
    }
    text
}
