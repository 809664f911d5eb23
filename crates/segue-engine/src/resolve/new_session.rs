//! Creation of sessions.

use segue_core::id::{ProviderId, SessionId};
use segue_core::scope::Purpose;
use segue_core::session::{Message, Project, Title};
use segue_store::{NewSession, SessionFilter, StartedSession, StoreError};

use crate::turn::TurnRunner;
use crate::{ChatRequest, ResolveError};

impl TurnRunner {
    /// Creates a session with its first prompt and acquires its lease. Fails with [`StoreError::PurposeTaken`] if a
    /// session that matches `conflict_filter` exists by then.
    pub(crate) async fn start_session(
        &self,
        request: &ChatRequest,
        provider: &ProviderId,
        prompt: &Message,
        conflict_filter: Option<&SessionFilter>,
    ) -> Result<StartedSession, ResolveError> {
        let title = Title::from_prompt(&request.prompt);
        loop {
            let purpose = request.target.purpose();
            let new = NewSession {
                conflict_filter: conflict_filter.cloned(),
                ..self.context.new_session(&request.project, &title, purpose, provider)
            };
            match self
                .context.store
                .start_session(new, self.context.environment.process.clone(), prompt)
                .await
            {
                // The id is taken by a session of the same second with the same four random characters: draw new ones.
                Err(StoreError::SessionExists(_)) => {}
                outcome => return Ok(outcome?),
            }
        }
    }
}
