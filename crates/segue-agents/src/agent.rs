//! What every agent can be asked to do.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use segue_core::{
    AgentEvent, Capabilities, NativeId, Opened, PermissionAnswer, PermissionRequest, ProcessMark,
    ProviderId, TurnEnd,
};

use tokio::sync::watch;

use crate::AgentError;

/// A program that can hold conversations.
///
/// An implementer starts its program only through this crate's leash, never hands text to a shell, and
/// reports every failure as an [`AgentError`] that carries the program's own words.
#[async_trait]
pub trait Agent: Send + Sync {
    /// Its name.
    fn provider(&self) -> &ProviderId;
    /// Starts the program, and goes on with a native session or begins a new one.
    async fn open(&self, request: &OpenRequest) -> Result<Opening, AgentError>;
    /// Starts the program just to ask what it is and what it can do.
    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError>;
}

/// What a conversation is to be opened with.
#[derive(Debug, Clone)]
pub struct OpenRequest {
    /// The directory to work in.
    pub cwd: PathBuf,
    /// The native session to go on with.
    pub native_id: Option<NativeId>,
    /// How long each step of the opening may take.
    pub timeout: Duration,
    /// Is told which process group was started, as soon as it is.
    pub started: watch::Sender<Option<ProcessMark>>,
}

/// A conversation that was opened.
pub struct Opening {
    /// The conversation.
    pub conversation: Box<dyn Conversation>,
    /// How it was opened: `Resumed`, `Loaded` or `Fresh`.
    pub opened: Opened,
    /// Why a native session could not be gone on with, where one was asked for and the conversation is new.
    pub why_not: Option<String>,
}

/// What an agent says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Its version.
    pub version: Option<String>,
    /// What it can do.
    pub capabilities: Capabilities,
}

/// The way to answer a permission request.
pub type Reply = Box<dyn FnOnce(PermissionAnswer) + Send>;

/// What happens next in a turn.
pub enum Step {
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
    /// What the agent calls the conversation.
    fn native_id(&self) -> &NativeId;
    /// The process group it runs in.
    fn process(&self) -> Option<ProcessMark>;
    /// Sends a prompt; [`Conversation::next`] then tells what comes of it.
    async fn send(&mut self, prompt: &str) -> Result<(), AgentError>;
    /// The next step of the turn; safe to drop and to call again.
    async fn next(&mut self) -> Step;
    /// Asks the agent to stop the turn.
    fn cancel(&mut self);
    /// Ends the program politely and waits until it is gone.
    async fn close(self: Box<Self>);
}
