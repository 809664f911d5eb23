//! Text of the reasons for the way in which a native session was opened.

use std::fmt::Write as _;

use segue_core::id::ProviderId;
use segue_core::number_format::{format_count, format_plural};
use segue_core::session::{CompactionSummary, NewNative, NewNativeCause, OpenReason};

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

/// Formats the turns that a checkpoint replaces, with their number of tokens.
#[must_use]
pub fn format_replaced_turns(turns: u32, tokens: u64, replaces_checkpoint: bool) -> String {
    let (turns, tokens) = (format_plural(turns, "turn"), format_count(tokens));
    if replaces_checkpoint {
        format!("{turns} and the previous checkpoint ({tokens} tokens)")
    } else {
        format!("{turns} ({tokens} tokens)")
    }
}

/// Formats a compaction.
pub(super) fn format_compaction(compaction: &CompactionSummary) -> String {
    let replaced_turns = format_replaced_turns(
        compaction.turns,
        compaction.replaced_tokens,
        compaction.replaces_checkpoint,
    );
    format!(
        "compacted {replaced_turns} into checkpoint {} ({} tokens)",
        compaction.checkpoint,
        format_count(compaction.tokens)
    )
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
    let mut text = format_new_native_cause(&new_native.cause);
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

fn format_new_native_cause(cause: &NewNativeCause) -> String {
    let text = match cause {
        NewNativeCause::NewSession => "a new session",
        NewNativeCause::NoNativeYet => "the session has no native session yet",
        NewNativeCause::ProviderChanged { from, to } => {
            return format!("{to} took over from {from}");
        }
        NewNativeCause::HandedBack { provider } => {
            return format!("the session was handed back to {provider}");
        }
        NewNativeCause::Full => "the last native session was full",
        NewNativeCause::Compacted {
            compaction: Some(compaction),
        } => return format_compaction(compaction),
        NewNativeCause::Compacted { compaction: None } => "earlier turns were compacted",
        NewNativeCause::FailedTooOften => "the last native session failed too often in a row",
        NewNativeCause::Lost => "the last native session is lost",
        NewNativeCause::Unavailable => "the last native session could not be resumed at that time",
        NewNativeCause::HeadMismatch => {
            "the last native session no longer matches the head of the session"
        }
        NewNativeCause::HeadMoved => "the session was moved to another turn by a revert or an undo",
        NewNativeCause::NeverUsed => "the last native session was never used",
        NewNativeCause::NotResumed {
            is_temporary: false,
        } => "the agent could not resume its native session",
        NewNativeCause::NotResumed { is_temporary: true } => {
            "the agent could not resume its native session at this time"
        }
        NewNativeCause::NotFound { message } => {
            return format!("the agent did not find its native session: {message}");
        }
    };
    text.to_owned()
}
