//! Dependencies of the tools, and their lazy creation.

use std::sync::Arc;

use segue_core::id::SessionId;
use segue_engine::{Engine, Standpoint};
use tokio::sync::OnceCell;

/// Dependencies of the tools.
pub struct Desk {
    /// Engine that answers the calls.
    pub engine: Arc<Engine>,
    /// Session in which the agent works; `None` if the server was started without one.
    pub session: Option<SessionId>,
    /// Function that returns the current project and the last list, with which session references are resolved. Runs at
    /// each call.
    pub standpoint: Box<dyn Fn() -> Standpoint + Send + Sync>,
}

/// A [`Desk`], or a function that creates it.
pub struct LazyDesk(State);

enum State {
    Ready(Desk),
    Later { open: Opener, desk: OnceCell<Desk> },
}

type Opener = Box<dyn Fn() -> Result<Desk, String> + Send + Sync>;

impl LazyDesk {
    /// Wraps a desk that exists.
    #[must_use]
    pub fn ready(desk: Desk) -> Self {
        Self(State::Ready(desk))
    }

    /// Creates the desk at the first call of a tool, because agents wait for the handshake and may never call a tool.
    /// If `open` fails, the call returns its error text, and the next call tries again.
    #[must_use]
    pub fn later(open: impl Fn() -> Result<Desk, String> + Send + Sync + 'static) -> Self {
        Self(State::Later {
            open: Box::new(open),
            desk: OnceCell::new(),
        })
    }

    pub(crate) async fn get(&self) -> Result<&Desk, String> {
        match &self.0 {
            State::Ready(desk) => Ok(desk),
            State::Later { open, desk } => desk.get_or_try_init(async || open()).await,
        }
    }
}
