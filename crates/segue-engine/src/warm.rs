//! Agents that stay running between turns.

use std::collections::HashMap;
use std::sync::Arc;

use segue_agents::Conversation;
use segue_core::{Leg, LegId, PermissionPolicy, SessionId, TurnId};
use tokio::sync::Mutex;

use crate::Engine;
use crate::hold::Claim;

/// A conversation that waits for the next prompt.
pub(crate) struct Waiting {
    pub(crate) leg: LegId,
    /// The last turn it knows. Another process may have gone on with the same native session since.
    pub(crate) tip: TurnId,
    /// What it was opened for.
    pub(crate) permissions: PermissionPolicy,
    pub(crate) model: Option<String>,
    pub(crate) conversation: Box<dyn Conversation>,
    /// The claim on the session, where its program runs on.
    pub(crate) claim: Option<Arc<Claim>>,
}

impl Waiting {
    /// Ends it, and then gives the session back; tells what was done to keep native sessions from harm.
    async fn end(self) -> Vec<String> {
        let told = self.conversation.close().await;
        if let Some(claim) = self.claim {
            claim.let_go().await;
        }
        told
    }

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
        (None, waiting.end().await)
    }

    /// Whether a conversation of this session waits.
    pub(crate) async fn has(&self, session: &SessionId) -> bool {
        self.0.lock().await.contains_key(session)
    }

    /// The claim on a session that waits with its conversation.
    pub(crate) async fn claim_of(&self, session: &SessionId) -> Option<Arc<Claim>> {
        self.0.lock().await.get(session)?.claim.clone()
    }

    /// Ends the conversation of a session, if one waits; tells what was done to keep native sessions from harm.
    pub(crate) async fn end(&self, session: &SessionId) -> Vec<String> {
        let waiting = self.0.lock().await.remove(session);
        match waiting {
            Some(waiting) => waiting.end().await,
            None => Vec::new(),
        }
    }

    /// Keeps a conversation. There is no other one of the session: its turn had to take it first.
    pub(crate) async fn keep(&self, session: &SessionId, waiting: Waiting) {
        self.0.lock().await.insert(session.clone(), waiting);
    }
}

impl Engine {
    /// Ends every agent that was kept running, and gives its session back; tells what was done to keep native sessions from harm, a line each.
    pub async fn close(&self) -> Vec<String> {
        let waiting = std::mem::take(&mut *self.warm.0.lock().await);
        let mut told = Vec::new();
        for waiting in waiting.into_values() {
            told.extend(waiting.end().await);
        }
        told
    }
}
