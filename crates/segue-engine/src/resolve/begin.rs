//! A session is made.

use segue_core::{Message, Project, ProviderId, Purpose, SessionId, Title};
use segue_store::{Filter, NewSession, Started, StoreError};

use crate::{ChatRequest, Engine, EngineError};

impl Engine {
    /// Makes a session with its first prompt, claimed by us, unless one has come to be that fits.
    pub(crate) async fn start(
        &self,
        request: &ChatRequest,
        provider: &ProviderId,
        prompt: &Message,
        unless: Option<&Filter>,
    ) -> Result<Started, EngineError> {
        let title = Title::from_prompt(&request.prompt);
        loop {
            let purpose = request.target.purpose();
            let new = NewSession {
                unless: unless.cloned(),
                ..self.new_session(&request.project, &title, purpose, provider)
            };
            match self.store.start(new, self.world.me.clone(), prompt).await {
                // Another session of this second drew the same four characters: draw again.
                Err(StoreError::Exists(_)) => {}
                outcome => return Ok(outcome?),
            }
        }
    }

    /// A session to be made now, under an id that is most probably free.
    pub(crate) fn new_session(
        &self,
        project: &Project,
        title: &Title,
        purpose: Option<&Purpose>,
        provider: &ProviderId,
    ) -> NewSession {
        let at = (self.world.now)();
        NewSession {
            id: SessionId::at(at, (self.world.random)()),
            project: project.clone(),
            title: title.clone(),
            purpose: purpose.cloned(),
            provider: provider.clone(),
            at,
            unless: None,
        }
    }
}
