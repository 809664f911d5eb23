//! Suggested actions as values, because each frontend words them itself.

use std::fmt;

use crate::id::{ProviderId, SessionId};

/// An action that the user can take next. `Display` writes it as a shell command or option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// Sends a prompt to the session.
    GoOn(SessionId),
    /// Sends a prompt to the session with longer timeouts.
    GiveLonger(SessionId),
    /// Sends a prompt to the session although the agent failed repeatedly.
    TryAnyway(SessionId),
    /// Sends the prompt now, although the agent is in backoff or cooldown.
    AskNow,
    /// Hands the session off to another agent. `None` if no other agent is known.
    HandOver(SessionId, Option<ProviderId>),
    /// Sends the prompt to another agent. Used if no session exists yet. `None` if no other agent is known.
    AskAnother(Option<ProviderId>),
    /// Starts a session.
    Start,
    /// Starts another session.
    StartAnew,
    /// Starts a session with another agent.
    StartWithAnother,
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
    LookAtCheckpoint(SessionId),
}

impl fmt::Display for NextStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |agent: &Option<ProviderId>| {
            let agent = agent.as_ref().map_or("NAME", ProviderId::as_str);
            agent.to_owned()
        };
        match self {
            Self::GoOn(id) => write!(f, "go on with: segue chat --resume {id} \"…\""),
            Self::GiveLonger(id) => write!(
                f,
                "give it longer: segue chat --resume {id} --open-timeout 120 --timeout 3600 \"…\""
            ),
            Self::TryAnyway(id) => write!(
                f,
                "try it once more: segue chat --resume {id} --anyway \"…\""
            ),
            Self::AskNow => write!(f, "--now asks it all the same"),
            Self::HandOver(id, agent) => write!(
                f,
                "have another agent go on: segue session handoff {id} -p {}",
                name(agent)
            ),
            Self::AskAnother(agent) => write!(f, "ask another agent: -p {}", name(agent)),
            Self::Start => write!(f, "start one with: segue chat \"…\""),
            Self::StartAnew => write!(f, "--new begins another session"),
            Self::StartWithAnother => {
                write!(
                    f,
                    "start a session with the other agent: segue chat -p NAME \"…\""
                )
            }
            Self::List => write!(f, "segue session list"),
            Self::ListAll => write!(f, "segue session list --all"),
            Self::Fork(id) => write!(f, "segue session fork {id}"),
            Self::Undo(id) => write!(f, "segue session undo {id}"),
            Self::Compact(id) => write!(f, "segue session compact {id}"),
            Self::LookAtCheckpoint(id) => write!(f, "segue session checkpoint {id}"),
        }
    }
}

/// Advice for the user: text, and the actions that it suggests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hint(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Words(String),
    Step(NextStep),
}

impl Hint {
    /// Appends text.
    #[must_use]
    pub fn say(mut self, words: impl Into<String>) -> Self {
        self.0.push(Piece::Words(words.into()));
        self
    }

    /// Appends a suggested action.
    #[must_use]
    pub fn step(mut self, step: NextStep) -> Self {
        self.0.push(Piece::Step(step));
        self
    }

    /// Appends another hint.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Formats the hint. `words` formats each suggested action, because each frontend words them itself.
    #[must_use]
    pub fn worded(&self, words: impl Fn(&NextStep) -> String) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Words(words) => words.clone(),
            Piece::Step(step) => words(step),
        });
        pieces.collect()
    }
}

/// Formats the suggested actions as shell commands, which is also the form in which the hint is recorded.
impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.worded(NextStep::to_string))
    }
}

impl From<String> for Hint {
    fn from(words: String) -> Self {
        Self::default().say(words)
    }
}

impl From<&str> for Hint {
    fn from(words: &str) -> Self {
        Self::default().say(words)
    }
}

impl From<NextStep> for Hint {
    fn from(step: NextStep) -> Self {
        Self::default().step(step)
    }
}
