//! Hints and suggested actions as values, because each frontend words them itself.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{ProviderId, SessionId};

/// An action that the user can take next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SuggestedAction {
    /// Sends a prompt to the session.
    Resume(SessionId),
    /// Opens the session, to continue in it.
    Open(SessionId),
    /// Sends a prompt to the session with longer timeouts.
    ExtendTimeouts(SessionId),
    /// Sends a prompt to the session although the agent failed repeatedly.
    ForceRetry(SessionId),
    /// Sends the prompt now, although the agent is in backoff or cooldown.
    SkipCooldown,
    /// Hands the session off to another agent. `None` if no other agent is known.
    HandOff(SessionId, Option<ProviderId>),
    /// Sends the prompt to another agent. Used if no session exists yet. `None` if no other agent is known.
    UseOtherAgent(Option<ProviderId>),
    /// Starts a session.
    Start,
    /// Starts another session.
    StartAnother,
    /// Starts a session with another agent.
    StartWithOtherAgent,
    /// Lists the sessions of the project.
    List,
    /// Lists all sessions.
    ListAll,
    /// Forks the session.
    Fork(SessionId),
    /// Undoes the last revert of the session.
    Undo(SessionId),
    /// Compacts the session.
    Compact(SessionId),
    /// Shows the checkpoint of the session.
    ShowCheckpoint(SessionId),
}

/// Advice for the user after a failed turn.
///
/// In JSON, `hint` names the variant, next to the variant's fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "hint", rename_all = "snake_case")]
pub enum Hint {
    /// Check which agents can be started.
    CheckAgents,
    /// Resume the session, whose messages are saved.
    Resume {
        /// Session of the turn.
        session: SessionId,
    },
    /// Resume the session, in which the next prompt starts a new native session with a brief.
    ResumeWithBrief {
        /// Session of the turn.
        session: SessionId,
    },
    /// Resume the session without the option that requires its native session.
    ResumeWithoutStrict {
        /// Session of the turn.
        session: SessionId,
    },
    /// Retry with longer timeouts.
    ExtendTimeouts {
        /// Session of the turn.
        session: SessionId,
    },
    /// Wait and resume the session, or hand it off.
    WaitOrHandOff {
        /// Session of the turn.
        session: SessionId,
        /// Time until which to wait. `None` if it is unknown.
        until: Option<Timestamp>,
    },
    /// Wait until another process has finished, and resume the session.
    WaitForProcess {
        /// Session of the turn.
        session: SessionId,
    },
    /// Log in with the agent's own program, and resume the session.
    LogIn {
        /// Provider that has no valid credentials.
        provider: ProviderId,
        /// Session of the turn.
        session: SessionId,
    },
    /// Mark the directory as trusted in the agent's own program, and resume the session.
    TrustDirectory {
        /// Provider that does not trust the directory.
        provider: ProviderId,
        /// Session of the turn.
        session: SessionId,
    },
    /// Recreate the directory of the session, or fork the session into another one.
    RecreateDirectory,
    /// Hand the session off, or retry although the agent failed repeatedly.
    HandOffOrForce {
        /// Hint for the failure itself. `None` if there is none.
        first: Option<Box<Hint>>,
        /// Session of the turn.
        session: SessionId,
        /// Provider that could continue. `None` if no other one is available.
        fallback: Option<ProviderId>,
    },
    /// A hint that was stored as text, or in a form that this version cannot decode.
    Recorded {
        /// Text of the hint.
        text: String,
    },
}
