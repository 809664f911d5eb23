//! Messages that are put into a session without asking an agent.
//!
//! One is a turn of its own: it has ended, and was sent to nobody. So it stays where it is in the story, can be reverted
//! and forked at, and is part of every brief. A leg that goes on was not told of it, so the next prompt tells it
//! (`untold` in segue-core).

use segue_core::{Decision, Message, Role, SessionId, ToldTurn, Turn, untold, with_added};

use crate::outside::Ahead;
use crate::pieces::joined;
use crate::{Engine, EngineError, counted};

/// Who says a message that is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The person, or the program in their place.
    User,
    /// An agent or a model, which answered elsewhere.
    Assistant,
}

/// A message that was added.
#[derive(Debug, Clone)]
pub struct Added {
    /// The number of the turn that it is.
    pub turn: u32,
    /// What segue decided by itself on the way.
    pub decisions: Vec<Decision>,
}

impl Engine {
    /// Puts a message into a session without asking an agent. It is on the disk when this returns.
    ///
    /// Whoever carries the session next is told of it: a native session that goes on with the next prompt, and a new
    /// one with the brief. A session that somebody is at work in is refused, as by [`Engine::chat`].
    pub async fn add_message(
        &self,
        session: &SessionId,
        speaker: Speaker,
        text: &str,
    ) -> Result<Added, EngineError> {
        // As for a prompt: what its native session took back is followed before, and not after and with this.
        let ahead = Ahead::Prompt { strict: false };
        let (hold, decisions) = self.hold_idle(session, ahead).await?;
        let role = match speaker {
            Speaker::User => Role::User,
            Speaker::Assistant => Role::Assistant,
        };
        let mut message = Message::text(role, text, (self.world.now)());
        counted::count_if_ready(&mut message);
        let added = self.store.add_message(&hold.lease, &message).await;
        hold.release().await;
        Ok(Added {
            turn: added?.n,
            decisions,
        })
    }

    /// What is sent to an agent that goes on with its native session, which knows `before` but for what was added to
    /// it.
    pub(crate) async fn reminded(
        &self,
        before: &[Turn],
        prompt: &str,
    ) -> Result<Option<String>, EngineError> {
        let mut added = Vec::new();
        for turn in untold(before) {
            added.push(ToldTurn {
                n: turn.n,
                messages: joined(self.store.messages(turn.id).await?),
            });
        }
        if added.is_empty() {
            return Ok(None);
        }
        let sent = with_added(&added, prompt, self.budget, &segue_tokens::count);
        Ok(Some(sent))
    }
}
