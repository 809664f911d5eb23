//! Text of the reasons why a deletion skips a native session.

use segue_core::id::ProviderId;
use segue_core::session::SkipReason;

/// Formats the reason why a native session of `provider` is not deleted.
#[must_use]
pub fn format_skip_reason(provider: &ProviderId, reason: &SkipReason) -> String {
    match reason {
        SkipReason::StorageUnknown => format!("segue does not know where {provider} stores it"),
        SkipReason::UsedBySession { session } => format!("session {session} also uses it"),
        SkipReason::NeededByFork { session } => format!("session {session} is a branch of it"),
    }
}
