//! Suggested actions as values, because each frontend words them itself.

use std::fmt;

use crate::id::{ProviderId, SessionId};

/// An action that the user can take next. `Display` writes it as a shell command or option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SuggestedAction {
    /// Sends a prompt to the session.
    Resume(SessionId),
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

impl fmt::Display for SuggestedAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |agent: &Option<ProviderId>| {
            let agent = agent.as_ref().map_or("NAME", ProviderId::as_str);
            agent.to_owned()
        };
        match self {
            Self::Resume(id) => write!(
                f,
                "resume the session with `segue chat --resume {id} \"…\"`"
            ),
            Self::ExtendTimeouts(id) => write!(
                f,
                "retry with longer timeouts: `segue chat --resume {id} --open-timeout 120 --timeout 3600 \"…\"`"
            ),
            Self::ForceRetry(id) => write!(
                f,
                "retry anyway with `segue chat --resume {id} --anyway \"…\"`"
            ),
            Self::SkipCooldown => write!(f, "use `--now` to send the prompt anyway"),
            Self::HandOff(id, agent) => write!(
                f,
                "hand the session off with `segue session handoff {id} -p {}`",
                name(agent)
            ),
            Self::UseOtherAgent(agent) => write!(f, "use another agent with `-p {}`", name(agent)),
            Self::Start => write!(f, "start a session with `segue chat \"…\"`"),
            Self::StartAnother => write!(f, "use `--new` to start another session"),
            Self::StartWithOtherAgent => {
                write!(
                    f,
                    "start a session with the other agent: `segue chat -p NAME \"…\"`"
                )
            }
            Self::List => write!(f, "segue session list"),
            Self::ListAll => write!(f, "segue session list --all"),
            Self::Fork(id) => write!(f, "segue session fork {id}"),
            Self::Undo(id) => write!(f, "segue session undo {id}"),
            Self::Compact(id) => write!(f, "segue session compact {id}"),
            Self::ShowCheckpoint(id) => write!(f, "segue session checkpoint {id}"),
        }
    }
}

/// Advice for the user: text, and the actions that it suggests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hint(Vec<HintPart>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum HintPart {
    Text(String),
    Action(SuggestedAction),
}

impl Hint {
    /// Appends text.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.0.push(HintPart::Text(text.into()));
        self
    }

    /// Appends a suggested action.
    #[must_use]
    pub fn with_action(mut self, action: SuggestedAction) -> Self {
        self.0.push(HintPart::Action(action));
        self
    }

    /// Appends another hint.
    #[must_use]
    pub fn append(mut self, hint: Self) -> Self {
        self.0.extend(hint.0);
        self
    }

    /// Formats the hint. `format_action` formats each suggested action, because each frontend words them itself.
    #[must_use]
    pub fn format_with(&self, format_action: impl Fn(&SuggestedAction) -> String) -> String {
        let parts = self.0.iter().map(|part| match part {
            HintPart::Text(text) => text.clone(),
            HintPart::Action(action) => format_action(action),
        });
        parts.collect()
    }
}

/// Formats the suggested actions as shell commands, which is also the form in which the hint is recorded.
impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.format_with(SuggestedAction::to_string))
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Self {
        Self::default().with_text(text)
    }
}

impl From<&str> for Hint {
    fn from(text: &str) -> Self {
        Self::default().with_text(text)
    }
}

impl From<SuggestedAction> for Hint {
    fn from(action: SuggestedAction) -> Self {
        Self::default().with_action(action)
    }
}
