//! Agents that stay running between turns.

use std::collections::HashMap;

use segue_agents::Conversation;
use segue_core::{Leg, LegId, PermissionPolicy, SessionId, TurnId};
use tokio::sync::Mutex;

use crate::Engine;

/// A conversation that waits for the next prompt.
pub(crate) struct Waiting {
    pub(crate) leg: LegId,
    /// The last turn it knows. Another process may have gone on with the same native session since.
    pub(crate) tip: TurnId,
    /// What it was opened for.
    pub(crate) permissions: PermissionPolicy,
    pub(crate) model: Option<String>,
    pub(crate) conversation: Box<dyn Conversation>,
}

impl Waiting {
    /// Whether it can carry the next prompt of a leg, under these terms.
    fn fits(&mut self, leg: &Leg, permissions: PermissionPolicy, model: Option<&str>) -> bool {
        self.leg == leg.id
            && Some(self.tip) == leg.tip
            && self.permissions == permissions
            && self.model.as_deref() == model
            && self.conversation.is_alive()
    }
}

/// The conversations that wait, by session.
#[derive(Default)]
pub(crate) struct Warm(Mutex<HashMap<SessionId, Waiting>>);

impl Warm {
    /// The conversation that can carry the next prompt of a leg; one that can't any more is ended, and what was done
    /// then to keep native sessions from harm is told.
    pub(crate) async fn take(
        &self,
        session: &SessionId,
        leg: Option<&Leg>,
        permissions: PermissionPolicy,
        model: Option<&str>,
    ) -> (Option<Box<dyn Conversation>>, Vec<String>) {
        let Some(mut waiting) = self.0.lock().await.remove(session) else {
            return (None, Vec::new());
        };
        if leg.is_some_and(|leg| waiting.fits(leg, permissions, model)) {
            return (Some(waiting.conversation), Vec::new());
        }
        (None, waiting.conversation.close().await)
    }

    /// Whether a conversation of this session waits.
    pub(crate) async fn has(&self, session: &SessionId) -> bool {
        self.0.lock().await.contains_key(session)
    }

    /// Ends the conversation of a session, if one waits; tells what was done to keep native sessions from harm.
    pub(crate) async fn end(&self, session: &SessionId) -> Vec<String> {
        let waiting = self.0.lock().await.remove(session);
        match waiting {
            Some(waiting) => waiting.conversation.close().await,
            None => Vec::new(),
        }
    }

    /// Keeps a conversation. There is no other one of the session: its turn had to take it first.
    pub(crate) async fn keep(&self, session: &SessionId, waiting: Waiting) {
        self.0.lock().await.insert(session.clone(), waiting);
    }
}

impl Engine {
    /// Ends every agent that was kept running; tells what was done to keep native sessions from harm, a line each.
    pub async fn close(&self) -> Vec<String> {
        let waiting = std::mem::take(&mut *self.warm.0.lock().await);
        let mut told = Vec::new();
        for waiting in waiting.into_values() {
            told.extend(waiting.conversation.close().await);
        }
        told
    }
}
