//! Messages that a caller adds to a session without sending a prompt to an agent.
//!
//! Each message is a turn of its own, which has ended and was sent to no agent. It therefore has a fixed position in
//! the chain, can be reverted and forked at, and is part of every brief. A leg that is resumed has not received it, so
//! the next prompt includes it (`untold` in segue-core).

use segue_core::brief::{ToldTurn, with_added};
use segue_core::id::SessionId;
use segue_core::session::{Decision, Message, Role, Turn, untold};

use crate::outside::Ahead;
use crate::pieces::joined;
use crate::{Engine, EngineError, counted};

/// Author of a message that a caller adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The user, or a program that acts for the user.
    User,
    /// An agent or a model that answered outside segue.
    Assistant,
}

/// Result of adding a message.
#[derive(Debug, Clone)]
pub struct Added {
    /// Number of the turn that contains the message.
    pub turn: u32,
    /// Automatic decisions that segue made during the call.
    pub decisions: Vec<Decision>,
}

impl Engine {
    /// Adds a message to a session without sending a prompt to an agent. The message is on disk when this returns.
    ///
    /// The agent that runs the session next receives the message: a resumed native session with its next prompt, a new
    /// one with its brief. Fails if the session is in use, as [`Engine::chat`] does.
    pub async fn add_message(
        &self,
        session: &SessionId,
        speaker: Speaker,
        text: &str,
    ) -> Result<Added, EngineError> {
        // As for a prompt, a rewind in the native session is applied first, because it would drop this message later.
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

    /// Returns the prompt for a resumed native session, preceded by the messages that were added to `before` and that
    /// the native session has not received. `None` if no messages were added.
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
