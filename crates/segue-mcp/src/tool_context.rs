//! Dependencies of the tools, and their lazy creation.

use segue_core::id::SessionId;
use segue_engine::{Library, RefContext, Resolver, SessionEditor};
use tokio::sync::OnceCell;

/// Dependencies of the tools.
pub struct ToolContext {
    /// Component that reads and searches conversations.
    pub library: Library,
    /// Component that finds the conversation for a reference.
    pub resolver: Resolver,
    /// Component that sets the title of the session.
    pub sessions: SessionEditor,
    /// Session in which the agent works; `None` if the server was started without one.
    pub session: Option<SessionId>,
    /// Function that returns the current project and the last list, with which session references are resolved. Runs at
    /// each call.
    pub ref_context: Box<dyn Fn() -> RefContext + Send + Sync>,
}

/// A [`ToolContext`], or a function that creates it.
pub enum LazyToolContext {
    /// An existing context.
    Ready(Box<ToolContext>),
    /// A function, and the context that it created; see [`Self::from_opener`].
    Deferred(ToolContextOpener, OnceCell<ToolContext>),
}

/// Function that creates a [`ToolContext`]. The error is a text for the agent.
pub type ToolContextOpener = Box<dyn Fn() -> Result<ToolContext, String> + Send + Sync>;

impl LazyToolContext {
    /// Creates the context at the first call of a tool, because agents wait for the handshake and may never call a
    /// tool. If `opener` fails, the call returns its error text, and the next call retries.
    #[must_use]
    pub fn from_opener(
        opener: impl Fn() -> Result<ToolContext, String> + Send + Sync + 'static,
    ) -> Self {
        Self::Deferred(Box::new(opener), OnceCell::new())
    }

    pub(crate) async fn get_or_open(&self) -> Result<&ToolContext, String> {
        match self {
            Self::Ready(context) => Ok(context),
            Self::Deferred(opener, cell) => cell.get_or_try_init(async || opener()).await,
        }
    }
}
