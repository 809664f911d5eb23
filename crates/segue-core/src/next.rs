//! What can be done next, as a value: each front end has words of its own for it.

use std::fmt;

use crate::{ProviderId, SessionId};

/// Something that can be done next. Written out, it is as one would do it in a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// Say something in the session.
    GoOn(SessionId),
    /// The same with more time for the agent.
    GiveLonger(SessionId),
    /// The same though the agent failed again and again.
    TryAnyway(SessionId),
    /// The same before the agent has rested.
    AskNow,
    /// Have another agent go on with the session; none is known where there is no name.
    HandOver(SessionId, Option<ProviderId>),
    /// Ask another agent where there is no session yet.
    AskAnother(Option<ProviderId>),
    /// Begin a session.
    Start,
    /// Begin another session.
    StartAnew,
    /// Begin a session with another agent.
    StartWithAnother,
    /// List the sessions of the project.
    List,
    /// List all sessions.
    ListAll,
    /// Branch off from the session.
    Fork(SessionId),
    /// Take the last revert of the session back.
    Undo(SessionId),
    /// Sum the session up.
    Compact(SessionId),
    /// Look at what the session was summed up to.
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

/// A piece of advice: words, and the steps that they lead to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hint(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Words(String),
    Step(NextStep),
}

impl Hint {
    /// The same with more words.
    #[must_use]
    pub fn say(mut self, words: impl Into<String>) -> Self {
        self.0.push(Piece::Words(words.into()));
        self
    }

    /// The same with a step.
    #[must_use]
    pub fn step(mut self, step: NextStep) -> Self {
        self.0.push(Piece::Step(step));
        self
    }

    /// The same with another hint after it.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The hint in somebody's own words for the steps.
    #[must_use]
    pub fn worded(&self, words: impl Fn(&NextStep) -> String) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Words(words) => words.clone(),
            Piece::Step(step) => words(step),
        });
        pieces.collect()
    }
}

/// As one would do it in a shell, which is how it goes on record.
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
