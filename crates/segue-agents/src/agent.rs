//! What every agent can be asked to do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use segue_core::{
    AgentEvent, Capabilities, McpServer, NativeId, Opened, PermissionAnswer, PermissionPolicy,
    PermissionRequest, ProcessMark, ProviderId, RoleDescription, TurnEnd,
};

use tokio::sync::watch;

use crate::AgentError;

/// A program that can hold conversations, by one way of talking to it or by several.
///
/// An implementer starts its program only through this crate's leash, hands no text of a person, an agent or a file to a shell, and
/// reports every failure as an [`AgentError`] that carries the program's own words.
#[async_trait]
pub trait Agent: Send + Sync {
    /// Its name.
    fn provider(&self) -> &ProviderId;
    /// Starts the program, and goes on with a native session or begins a new one.
    async fn open(&self, request: &OpenRequest) -> Result<Opening, AgentError>;
    /// Starts the program just to ask what it is and what it can do.
    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError>;
    /// The native sessions of a directory by the program's own word; `None` if it can't tell, which differs
    /// from having none.
    async fn list(
        &self,
        _cwd: &Path,
        _timeout: Duration,
    ) -> Result<Option<Vec<Listed>>, AgentError> {
        Ok(None)
    }
    /// Whether it can begin a native session that knows the beginning of another one ([`OpenRequest::from`]).
    fn branches(&self) -> bool {
        false
    }
    /// Whether it will be handed the MCP servers it is to use, as far as can be told without starting it.
    fn takes_tools(&self) -> bool {
        true
    }
    /// What applies to it where the caller says nothing.
    fn defaults(&self) -> Defaults {
        Defaults::default()
    }
    /// Whether its program is on this machine, as far as can be told without starting it.
    fn is_there(&self) -> bool {
        true
    }
}

/// What applies to an agent where a caller says nothing, as the user configured it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Defaults {
    /// How permission requests are answered.
    pub permissions: PermissionPolicy,
    /// How long is waited.
    pub timeouts: Timeouts,
    /// The session a prompt goes to when none is named.
    pub session: SessionDefault,
    /// The model, by the agent's own name for it, where one is configured.
    pub model: Option<String>,
    /// The mode, likewise.
    pub mode: Option<String>,
}

/// The session a prompt goes to when none is named.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SessionDefault {
    /// A new one.
    #[default]
    New,
    /// The newest one of the directory.
    ContinueLast,
    /// This one, as a person would type it.
    Resume(String),
}

/// How long an agent is waited for; `None` is for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For each step of starting it and opening a conversation.
    pub start: Duration,
    /// For the first sign of life after a prompt.
    pub first: Option<Duration>,
    /// For the next sign of life, while no tool runs.
    pub silence: Option<Duration>,
    /// For a whole turn.
    pub turn: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            start: Duration::from_mins(1),
            // Agents try again by themselves for minutes when a model does not answer.
            first: Some(Duration::from_mins(10)),
            silence: Some(Duration::from_mins(15)),
            turn: None,
        }
    }
}

/// What a conversation is to be opened with.
#[derive(Debug, Clone)]
pub struct OpenRequest {
    /// The directory to work in.
    pub cwd: PathBuf,
    /// The native session to go on with.
    pub native_id: Option<NativeId>,
    /// Where a new native session is to branch off from an earlier one, for agents that can do that themselves. One
    /// that can't begins a blank one, and says so in [`Opening::opened`]. Never together with `native_id`.
    pub from: Option<NativePoint>,
    /// Whether a native session that can't be gone on with is an error rather than the start of a new one.
    pub strict: bool,
    /// How permission requests will be answered, for agents that can't ask.
    pub permissions: PermissionPolicy,
    /// What the agent is told to be, where it has tools of its own that it may not use as that.
    pub role: Option<RoleDescription>,
    /// The model to use instead of the configured one.
    pub model: Option<String>,
    /// The MCP servers the agent is to use, where it can take any.
    pub mcp: Vec<McpServer>,
    /// How long each step of the opening may take.
    pub timeout: Duration,
    /// Is told which process group was started, as soon as it is.
    pub started: watch::Sender<Option<ProcessMark>>,
}

impl OpenRequest {
    /// The configured mode of an agent, unless it asks for less in it than the role demands. Those that
    /// ask, or only read, are always good.
    pub(crate) fn mode<'a>(&self, configured: Option<&'a str>) -> Option<&'a str> {
        let must_ask = self.role.as_ref().is_some_and(RoleDescription::must_ask);
        configured.filter(|mode| !must_ask || matches!(*mode, "default" | "plan" | "read-only"))
    }
}

/// A place in a native session, after one of its turns.
///
/// The session itself is only read: what branches off is a session of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativePoint {
    /// The native session.
    pub id: NativeId,
    /// How many of its turns come before the place.
    pub turns: usize,
    /// The last record before the place, by the agent's own name, where records have any.
    pub record: Option<String>,
    /// The prompt of the last turn before the place, so that an agent that counts in another way notices.
    pub prompt: String,
}

/// A conversation that was opened.
pub struct Opening {
    /// The conversation.
    pub conversation: Box<dyn Conversation>,
    /// How it was opened: `Resumed`, `Loaded` or `Fresh`.
    pub opened: Opened,
    /// Why a native session could not be gone on with or branched off from, where one was asked for and the
    /// conversation is new.
    pub why_not: Option<String>,
    /// Whether nothing is wrong with that native session, which only can't be gone on with now.
    pub not_now: bool,
    /// What was done to keep native sessions from harm, a line each.
    pub protected: Vec<String>,
    /// Why the agent is talked to in another way than the first one, if it is.
    pub fell_back: Option<String>,
}

impl Opening {
    /// A conversation that was opened, and nothing to add.
    #[must_use]
    pub fn new(conversation: impl Conversation + 'static, opened: Opened) -> Self {
        Self {
            conversation: Box::new(conversation),
            opened,
            why_not: None,
            not_now: false,
            protected: Vec::new(),
            fell_back: None,
        }
    }
}

/// What an agent says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Its version.
    pub version: Option<String>,
    /// What it can do.
    pub capabilities: Capabilities,
}

/// A native session by the program's own word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// What the agent calls it.
    pub id: NativeId,
    /// The directory it was made in.
    pub cwd: PathBuf,
    /// What it is called.
    pub title: Option<String>,
    /// When it was last used.
    pub updated_at: Option<Timestamp>,
}

/// The way to answer a permission request.
pub type Reply = Box<dyn FnOnce(PermissionAnswer) + Send>;

/// What happens next in a turn.
pub enum Step {
    /// The agent said what it calls the conversation, which it had not when the conversation was opened.
    Named(NativeId),
    /// The agent did or said something.
    Event(AgentEvent),
    /// The agent asks before it acts, and waits for the reply.
    Ask(PermissionRequest, Reply),
    /// The turn is over.
    Done(Result<TurnEnd, AgentError>),
}

/// A running agent with an open conversation. Dropping it ends the program, by force if need be.
#[async_trait]
pub trait Conversation: Send {
    /// What the agent calls the conversation; none until it has said so, which it does in the first turn.
    fn native_id(&self) -> Option<&NativeId>;
    /// The process group it runs in; none while no program runs.
    fn process(&self) -> Option<ProcessMark>;
    /// Sends a prompt; [`Conversation::next`] then tells what comes of it.
    async fn send(&mut self, prompt: &str) -> Result<(), AgentError>;
    /// The next step of the turn; safe to drop and to call again.
    async fn next(&mut self) -> Step;
    /// Whether the agent was handed the MCP servers it was to use.
    fn takes_tools(&self) -> bool {
        true
    }
    /// Asks the agent to stop the turn.
    fn cancel(&mut self);
    /// Whether it can take another prompt.
    fn is_alive(&mut self) -> bool;
    /// Ends the program politely and waits until it is gone; tells what was done to keep native sessions from
    /// harm, a line each.
    async fn close(self: Box<Self>) -> Vec<String>;
}
