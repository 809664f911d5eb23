//! Creation of sessions.

use segue_core::id::{ProviderId, SessionId};
use segue_core::scope::Purpose;
use segue_core::session::{Message, Project, Title};
use segue_store::{NewSession, SessionFilter, StartedSession, StoreError};

use crate::{ChatRequest, Engine, EngineError};

impl Engine {
    /// Creates a session with its first prompt and acquires its lease. Fails with [`StoreError::PurposeTaken`] if a
    /// session that matches `conflict_filter` exists by then.
    pub(crate) async fn start_session(
        &self,
        request: &ChatRequest,
        provider: &ProviderId,
        prompt: &Message,
        conflict_filter: Option<&SessionFilter>,
    ) -> Result<StartedSession, EngineError> {
        let title = Title::from_prompt(&request.prompt);
        loop {
            let purpose = request.target.purpose();
            let new = NewSession {
                conflict_filter: conflict_filter.cloned(),
                ..self.new_session(&request.project, &title, purpose, provider)
            };
            match self
                .store
                .start_session(new, self.environment.process.clone(), prompt)
                .await
            {
                // The id is taken by a session of the same second with the same four random characters: draw new ones.
                Err(StoreError::SessionExists(_)) => {}
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Builds a session to create now, with a random id that is most probably unused.
    pub(crate) fn new_session(
        &self,
        project: &Project,
        title: &Title,
        purpose: Option<&Purpose>,
        provider: &ProviderId,
    ) -> NewSession {
        let at = (self.environment.now)();
        NewSession {
            id: SessionId::from_timestamp(at, (self.environment.random)()),
            project: project.clone(),
            title: title.clone(),
            purpose: purpose.cloned(),
            provider: provider.clone(),
            at,
            conflict_filter: None,
        }
    }
}
