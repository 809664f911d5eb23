//! Reasons why a deletion skips a native session.

use serde::{Deserialize, Serialize};

use crate::id::SessionId;

/// Reason why a native session is not deleted with its session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SkipReason {
    /// segue does not know where the agent stores its native sessions.
    StorageUnknown,
    /// The native session is also used by another session.
    UsedBySession {
        /// Session that uses it.
        session: SessionId,
    },
    /// The native session of a fork needs this one, because the agent does not copy the history of a branch.
    NeededByFork {
        /// The fork.
        session: SessionId,
    },
}
