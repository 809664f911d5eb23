//! Agents that stay running between turns.

use std::collections::HashMap;
use std::sync::Arc;

use segue_agents::Conversation;
use segue_core::agent::PermissionPolicy;
use segue_core::id::{LegId, SessionId, TurnId};
use segue_core::session::Leg;
use tokio::sync::Mutex;

use crate::Engine;
use crate::hold::Claim;

/// A running agent that waits for the next prompt.
pub(crate) struct Waiting {
    pub(crate) leg: LegId,
    /// Last turn that the agent received. Another process may have continued the native session since then.
    pub(crate) tip: TurnId,
    /// Permission policy with which the agent was opened.
    pub(crate) permissions: PermissionPolicy,
    pub(crate) model: Option<String>,
    pub(crate) conversation: Box<dyn Conversation>,
    /// Lease on the session. `None` if no process of the agent stays running.
    pub(crate) claim: Option<Arc<Claim>>,
}

impl Waiting {
    /// Ends the agent, then releases the session. Returns the actions that protected native sessions.
    async fn end(self) -> Vec<String> {
        let told = self.conversation.close().await;
        if let Some(claim) = self.claim {
            claim.let_go().await;
        }
        told
    }

    /// Returns `true` if the agent can run the next prompt of a leg with these options.
    fn fits(&mut self, leg: &Leg, permissions: PermissionPolicy, model: Option<&str>) -> bool {
        self.leg == leg.id
            && Some(self.tip) == leg.tip
            && self.permissions == permissions
            && self.model.as_deref() == model
            && self.conversation.is_alive()
    }
}

/// Waiting agents, by session.
#[derive(Default)]
pub(crate) struct Warm(Mutex<HashMap<SessionId, Waiting>>);

impl Warm {
    /// Returns the agent that can run the next prompt of a leg. `None` if there is none. Ends an agent that no longer
    /// can, and returns the actions that then protected native sessions.
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

    /// Returns `true` if an agent waits in this session.
    pub(crate) async fn has(&self, session: &SessionId) -> bool {
        self.0.lock().await.contains_key(session)
    }

    /// Returns the lease that a waiting agent has on a session.
    pub(crate) async fn claim_of(&self, session: &SessionId) -> Option<Arc<Claim>> {
        self.0.lock().await.get(session)?.claim.clone()
    }

    /// Ends the agent that waits in a session, if there is one. Returns the actions that protected native sessions.
    pub(crate) async fn end(&self, session: &SessionId) -> Vec<String> {
        let waiting = self.0.lock().await.remove(session);
        match waiting {
            Some(waiting) => waiting.end().await,
            None => Vec::new(),
        }
    }

    /// Adds an agent to the pool. The session has no other agent in it, because its turn removes that agent first.
    pub(crate) async fn keep(&self, session: &SessionId, waiting: Waiting) {
        self.0.lock().await.insert(session.clone(), waiting);
    }
}

impl Engine {
    /// Ends every waiting agent and releases its session. Returns the actions that protected native sessions, one line
    /// each.
    pub async fn close(&self) -> Vec<String> {
        let waiting = std::mem::take(&mut *self.warm.0.lock().await);
        let mut told = Vec::new();
        for waiting in waiting.into_values() {
            told.extend(waiting.end().await);
        }
        told
    }
}
