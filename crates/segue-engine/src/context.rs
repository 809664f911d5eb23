//! Context that the components of the engine share.

use std::sync::Arc;

use jiff::Timestamp;
use segue_catalog::Index;
use segue_core::agent::RoleDescription;
use segue_core::id::{ProviderId, SessionId};
use segue_core::scope::{Purpose, RoleName};
use segue_core::session::{Decision, Project, Session, SessionSnapshot, Title};
use segue_store::{Lease, NewSession, PageRequest, SessionFilter, Store, StoreError};

use crate::agents::AgentRegistry;
use crate::engine::EngineSettings;
use crate::leg::agent_pool::AgentPool;
use crate::native::NativeSessions;
use crate::session::lease::Leases;
use crate::{AccessError, ArchiveService, Environment};

/// Store, agents, native sessions and settings.
pub(crate) struct EngineContext {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) environment: Environment,
    pub(crate) settings: EngineSettings,
    pub(crate) agents: AgentRegistry,
    pub(crate) natives: NativeSessions,
    pub(crate) leases: Leases,
    pub(crate) agent_pool: Arc<AgentPool>,
    /// Index of the catalog. `None` if the engine reads the files of agents instead.
    pub(crate) index: Option<Arc<Index>>,
    /// Storage for copies of native sessions. `None` if the engine has none.
    pub(crate) archive_service: Option<ArchiveService>,
}

impl EngineContext {
    /// Returns the current time.
    pub(crate) fn now(&self) -> Timestamp {
        (self.environment.now)()
    }

    /// Returns the session with an id. Fails if it does not exist.
    pub(crate) async fn require_session(&self, id: &SessionId) -> Result<Session, StoreError> {
        let session = self.store.session(id).await?;
        session.ok_or_else(|| StoreError::NoSession(id.clone()))
    }

    /// Returns the current state of a session. Fails if it does not exist.
    pub(crate) async fn require_snapshot(
        &self,
        id: &SessionId,
    ) -> Result<SessionSnapshot, StoreError> {
        let snapshot = self.store.session_snapshot(id).await?;
        snapshot.ok_or_else(|| StoreError::NoSession(id.clone()))
    }

    /// Returns the newest session that matches a filter.
    pub(crate) async fn newest_session(
        &self,
        filter: SessionFilter,
    ) -> Result<Option<Session>, StoreError> {
        let page = self.store.list_sessions(&filter, PageRequest::first(1));
        Ok(page.await?.sessions.into_iter().next())
    }

    /// Returns a session id with a random part, which is most probably unused.
    pub(crate) fn draw_session_id(&self, at: Timestamp) -> SessionId {
        SessionId::from_timestamp(at, (self.environment.random)())
    }

    /// Builds a session to create now, with a random id that is most probably unused.
    pub(crate) fn new_session(
        &self,
        project: &Project,
        title: &Title,
        purpose: Option<&Purpose>,
        provider: &ProviderId,
    ) -> NewSession {
        let at = self.now();
        NewSession {
            id: self.draw_session_id(at),
            project: project.clone(),
            title: title.clone(),
            purpose: purpose.cloned(),
            provider: provider.clone(),
            at,
            conflict_filter: None,
        }
    }

    /// Creates a session with a function of the store. Draws another id if the id is taken, by a session of the same
    /// second with the same four random characters.
    pub(crate) async fn create_session<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        mut new: NewSession,
        create: impl Fn(NewSession) -> F,
    ) -> Result<T, StoreError> {
        loop {
            match create(new.clone()).await {
                Err(StoreError::SessionExists(_)) => {
                    new.id = self.draw_session_id(new.at);
                }
                outcome => return outcome,
            }
        }
    }

    /// Logs decisions in a session.
    pub(crate) async fn log_decisions(
        &self,
        lease: &Lease,
        decisions: &[Decision],
    ) -> Result<(), StoreError> {
        for decision in decisions {
            self.store.log_decision(lease, decision, self.now()).await?;
        }
        Ok(())
    }

    /// Returns the role of the agent in a session; `None` if the session has no role. Fails if the role has no
    /// description, because its limits are unknown then.
    pub(crate) fn session_role(
        &self,
        session: &Session,
    ) -> Result<Option<&RoleDescription>, AccessError> {
        let purpose = session.purpose.as_ref();
        self.role_description(purpose.and_then(|purpose| purpose.role.as_ref()))
    }

    /// Returns the description of a role; `None` if no role is given. Fails if the role has no description.
    pub(crate) fn role_description(
        &self,
        role: Option<&RoleName>,
    ) -> Result<Option<&RoleDescription>, AccessError> {
        let Some(name) = role else {
            return Ok(None);
        };
        let roles = &self.settings.roles;
        let unknown = || AccessError::UnknownRole {
            role: name.clone(),
            available: roles.iter().map(|role| role.name.clone()).collect(),
        };
        roles.get(name).map(Some).ok_or_else(unknown)
    }
}

/// Runs `work` on a blocking thread, because it would otherwise delay all other tasks of this process.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        // The task is never cancelled, so it can only have panicked.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
