//! Messages that a caller adds to a session without sending a prompt to an agent.
//!
//! Each message is a turn of its own, which has ended and was sent to no agent. It therefore has a fixed position in
//! the chain, can be reverted and forked at, and is part of every brief. A leg that is resumed has not received it, so
//! the next prompt includes it (`unsent_added_turns` in segue-core).

use segue_core::id::SessionId;
use segue_core::session::{Decision, Message, Role};

use crate::reconcile::{ReconcileMode, ReconciledSession};
use crate::session::SessionEditor;
use crate::{SessionError, token_count};

/// Author of a message that a caller adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageAuthor {
    /// The user, or a program that acts for the user.
    User,
    /// An agent or a model that answered outside segue.
    Assistant,
}

/// Result of adding a message.
#[derive(Debug, Clone)]
pub struct AddedMessage {
    /// Number of the turn that contains the message.
    pub turn: u32,
    /// Automatic decisions that segue made during the call.
    pub decisions: Vec<Decision>,
}

impl SessionEditor {
    /// Adds a message to a session without sending a prompt to an agent. The message is on disk when this returns.
    ///
    /// The agent that runs the session next receives the message: a resumed native session with its next prompt, a new
    /// one with its brief. Fails if the session is in use, as [`crate::Engine::chat`] does.
    pub async fn add_message(
        &self,
        session: &SessionId,
        author: MessageAuthor,
        text: &str,
    ) -> Result<AddedMessage, SessionError> {
        // As for a prompt, a rewind in the native session is applied first, because it would drop this message later.
        let mode = ReconcileMode::Prompt { strict: false };
        let acquiring = self.reconciler.acquire_lease_and_reconcile(session, mode);
        let ReconciledSession {
            guard, decisions, ..
        } = acquiring.await?;
        let role = match author {
            MessageAuthor::User => Role::User,
            MessageAuthor::Assistant => Role::Assistant,
        };
        let mut message = Message::from_text(role, text, self.context.now());
        token_count::count_message_tokens_if_ready(&mut message);
        let added_turn = self.context.store.add_message(&guard.lease, &message).await;
        guard.release().await;
        Ok(AddedMessage {
            turn: added_turn?.number,
            decisions,
        })
    }
}
