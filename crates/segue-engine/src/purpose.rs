//! The session for a purpose, or of a prompt, before there is one.

use segue_core::{Decision, DecisionKind, Project, ProviderId, Purpose, Session, Step, Title};
use segue_store::StoreError;

use crate::resolve::Trail;
use crate::{ChatRequest, Engine, EngineError, Target};

/// The session that has a purpose.
#[derive(Debug, Clone)]
pub struct ForPurpose {
    /// The session.
    pub session: Session,
    /// Whether it was made just now; it is called after its purpose until somebody names it.
    pub is_new: bool,
    /// What segue decided by itself on the way.
    pub decisions: Vec<Decision>,
}

impl Engine {
    /// The session that a prompt with this purpose would go to, by the very steps of [`Target::Scope`]; one is made if
    /// there is none. No agent is started.
    pub async fn session_for(
        &self,
        purpose: &Purpose,
        provider: Option<&ProviderId>,
        project: &Project,
    ) -> Result<ForPurpose, EngineError> {
        let request = ChatRequest {
            target: Target::Scope,
            purpose: Some(purpose.clone()),
            provider: provider.cloned(),
            ..ChatRequest::new("", project.clone())
        };
        let mut trail = Trail::after(&request);
        let found = self.resolve(&request, &mut trail).await?;
        let decisions = trail.decisions;
        let is_new = found.session.is_none();
        let session = match found.session {
            Some(session) => session,
            None => self.create_for(purpose, &found.provider, project).await?,
        };
        let is_known = |decision: &Decision| {
            matches!(
                decision.kind,
                DecisionKind::Session | DecisionKind::Provider
            )
        };
        // A session that is merely found again is not changed by that, its log included.
        if is_new || !decisions.iter().all(is_known) {
            let (hold, _) = self.hold(&session.id).await?;
            let noted = self.note_all(&hold, &decisions).await;
            hold.release().await;
            noted?;
        }
        Ok(ForPurpose {
            session,
            is_new,
            // What was done is in the log already.
            decisions: trail.done.into_iter().chain(decisions).collect(),
        })
    }

    /// The session that a prompt would go on with, by the very steps of [`Engine::chat`]: what was decided on them, and
    /// each of them. None if one would be made.
    pub async fn session_ahead(
        &self,
        request: &ChatRequest,
    ) -> Result<Option<(Session, Vec<Decision>, Vec<Step>)>, EngineError> {
        let mut trail = Trail::after(request);
        let found = self.resolve(request, &mut trail).await?;
        let decisions = trail.done.into_iter().chain(trail.decisions);
        let decisions = decisions.collect();
        Ok(found
            .session
            .map(|session| (session, decisions, trail.steps)))
    }

    async fn create_for(
        &self,
        purpose: &Purpose,
        provider: &ProviderId,
        project: &Project,
    ) -> Result<Session, EngineError> {
        let title = Title::from_prompt(&purpose.to_string());
        loop {
            let new = self.new_session(project, &title, Some(purpose), provider);
            match self.store.create(new).await {
                // Another session of this second drew the same four characters: draw again.
                Err(StoreError::Exists(_)) => {}
                outcome => return Ok(outcome?),
            }
        }
    }
}
