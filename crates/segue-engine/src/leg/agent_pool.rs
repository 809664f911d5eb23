//! Agents that stay running between turns.

use std::collections::HashMap;
use std::sync::Arc;

use segue_core::agent::PermissionPolicy;
use segue_core::id::{LegId, SessionId, TurnId};
use segue_core::session::{GuardAction, Leg};
use segue_providers::AgentConnection;
use tokio::sync::Mutex;

use crate::session::lease::SharedLease;
use crate::turn::admission::AttemptAgent;

/// A running agent that waits for the next prompt.
pub(crate) struct PooledAgent {
    pub(crate) leg: LegId,
    /// Last turn that the agent received. Another process may have continued the native session since then.
    pub(crate) tip: TurnId,
    /// Permission policy with which the agent was opened.
    pub(crate) permissions: PermissionPolicy,
    pub(crate) model: Option<String>,
    pub(crate) connection: Box<dyn AgentConnection>,
    /// Lease on the session. `None` if no process of the agent stays running.
    pub(crate) lease: Option<Arc<SharedLease>>,
}

impl PooledAgent {
    /// Ends the agent, then releases the session. Returns the actions that protected native sessions.
    async fn shut_down(self) -> Vec<GuardAction> {
        let guard_actions = self.connection.close().await;
        if let Some(lease) = self.lease {
            lease.release_after_agent().await;
        }
        guard_actions
    }

    /// Returns `true` if the agent can run the next prompt of a leg with the options of `agent`.
    fn can_run(&mut self, leg: &Leg, agent: &AttemptAgent) -> bool {
        self.leg == leg.id
            && Some(self.tip) == leg.tip
            && self.permissions == agent.permissions
            && self.model == agent.model
            && self.connection.is_alive()
    }
}

/// Waiting agents, by session.
#[derive(Default)]
pub(crate) struct AgentPool(Mutex<HashMap<SessionId, PooledAgent>>);

impl AgentPool {
    /// Returns the agent that can run the next prompt of a leg with the options of `agent`. `None` if there is none; an agent
    /// that cannot run it stays in the pool until it is ended.
    pub(crate) async fn take_usable(
        &self,
        session: &SessionId,
        leg: &Leg,
        agent: &AttemptAgent,
    ) -> Option<Box<dyn AgentConnection>> {
        let mut agents = self.0.lock().await;
        if !agents.get_mut(session)?.can_run(leg, agent) {
            return None;
        }
        agents.remove(session).map(|agent| agent.connection)
    }

    /// Returns `true` if an agent waits in this session.
    pub(crate) async fn contains(&self, session: &SessionId) -> bool {
        self.0.lock().await.contains_key(session)
    }

    /// Returns the lease that a waiting agent has on a session.
    pub(crate) async fn shared_lease(&self, session: &SessionId) -> Option<Arc<SharedLease>> {
        self.0.lock().await.get(session)?.lease.clone()
    }

    /// Ends the agent that waits in a session, if there is one. Returns the actions that protected native sessions.
    pub(crate) async fn end_agent(&self, session: &SessionId) -> Vec<GuardAction> {
        let agent = self.0.lock().await.remove(session);
        match agent {
            Some(agent) => agent.shut_down().await,
            None => Vec::new(),
        }
    }

    /// Adds an agent to the pool. The session has no other agent in it, because its turn removes that agent first.
    pub(crate) async fn insert(&self, session: &SessionId, agent: PooledAgent) {
        self.0.lock().await.insert(session.clone(), agent);
    }

    /// Ends every agent and releases its session. Returns the actions that protected native sessions, one line each.
    pub(crate) async fn end_all(&self) -> Vec<GuardAction> {
        let agents = std::mem::take(&mut *self.0.lock().await);
        let mut guard_actions = Vec::new();
        for agent in agents.into_values() {
            guard_actions.extend(agent.shut_down().await);
        }
        guard_actions
    }
}
