//! Hints and suggested actions as values, because each frontend words them itself.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{ProviderId, SessionId};

/// An action that the user can take next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
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
    /// Text and actions of a caller that has no typed hint yet.
    // FIXME: remove with the builder below when the engine and the agents create typed hints.
    Composed {
        /// Parts of the hint, in order.
        parts: Vec<HintPart>,
    },
    /// A hint that was stored as text, or in a form that this version cannot decode.
    Recorded {
        /// Text of the hint.
        text: String,
    },
}

/// A part of [`Hint::Composed`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HintPart {
    /// Text.
    Text(String),
    /// A suggested action.
    Action(SuggestedAction),
}

impl Hint {
    /// Appends text.
    #[must_use]
    pub fn with_text(self, text: impl Into<String>) -> Self {
        self.with_parts([HintPart::Text(text.into())])
    }

    /// Appends a suggested action.
    #[must_use]
    pub fn with_action(self, action: SuggestedAction) -> Self {
        self.with_parts([HintPart::Action(action)])
    }

    /// Appends another hint.
    #[must_use]
    pub fn append(self, hint: Self) -> Self {
        let parts = hint.into_parts();
        self.with_parts(parts)
    }

    fn with_parts(self, parts: impl IntoIterator<Item = HintPart>) -> Self {
        let mut all_parts = self.into_parts();
        all_parts.extend(parts);
        Self::Composed { parts: all_parts }
    }

    fn into_parts(self) -> Vec<HintPart> {
        match self {
            Self::Composed { parts } => parts,
            Self::Recorded { text } => vec![HintPart::Text(text)],
            typed => {
                let actions = typed.actions().into_iter();
                actions.map(HintPart::Action).collect()
            }
        }
    }
}

impl From<SuggestedAction> for Hint {
    fn from(action: SuggestedAction) -> Self {
        let parts = vec![HintPart::Action(action)];
        Self::Composed { parts }
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Self {
        Self::Recorded { text }
    }
}

impl From<&str> for Hint {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl Hint {
    /// Returns the actions that the hint suggests, the best one first.
    #[must_use]
    pub fn actions(&self) -> Vec<SuggestedAction> {
        match self {
            Self::CheckAgents | Self::RecreateDirectory | Self::Recorded { .. } => Vec::new(),
            Self::Resume { session }
            | Self::ResumeWithBrief { session }
            | Self::ResumeWithoutStrict { session }
            | Self::WaitForProcess { session }
            | Self::LogIn { session, .. }
            | Self::TrustDirectory { session, .. } => {
                vec![SuggestedAction::Resume(session.clone())]
            }
            Self::ExtendTimeouts { session } => {
                vec![SuggestedAction::ExtendTimeouts(session.clone())]
            }
            Self::WaitOrHandOff { session, .. } => vec![
                SuggestedAction::Resume(session.clone()),
                SuggestedAction::HandOff(session.clone(), None),
            ],
            Self::HandOffOrForce {
                first,
                session,
                fallback,
            } => {
                let mut actions = first
                    .as_ref()
                    .map_or_else(Vec::new, |first| first.actions());
                actions.push(SuggestedAction::HandOff(session.clone(), fallback.clone()));
                actions.push(SuggestedAction::ForceRetry(session.clone()));
                actions
            }
            Self::Composed { parts } => {
                let actions = parts.iter().filter_map(|part| match part {
                    HintPart::Text(_) => None,
                    HintPart::Action(action) => Some(action.clone()),
                });
                actions.collect()
            }
        }
    }
}
