//! What the tools work with, and when it is made.

use std::sync::Arc;

use segue_core::SessionId;
use segue_engine::{Engine, Standpoint};
use tokio::sync::OnceCell;

/// What the tools work with.
pub struct Desk {
    /// Knows everything.
    pub engine: Arc<Engine>,
    /// The session that the agent is at work in; none if it was not said.
    pub session: Option<SessionId>,
    /// Where references are looked up from, at the moment of the question.
    pub standpoint: Box<dyn Fn() -> Standpoint + Send + Sync>,
}

/// A desk, or how to come by one.
pub struct LazyDesk(State);

enum State {
    Ready(Desk),
    Later { open: Opener, desk: OnceCell<Desk> },
}

type Opener = Box<dyn Fn() -> Result<Desk, String> + Send + Sync>;

impl LazyDesk {
    /// One that is there.
    #[must_use]
    pub fn ready(desk: Desk) -> Self {
        Self(State::Ready(desk))
    }

    /// One that is made at the first call of a tool, since agents wait for the handshake and may never call one.
    /// What goes wrong then is told in words, and the next call tries again.
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
