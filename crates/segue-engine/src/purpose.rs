//! The session for a purpose, or of a prompt, before there is one.

use segue_core::{Decision, DecisionKind, Project, ProviderId, Purpose, Session, Step, Title};
use segue_store::{Filter, NewSession, StoreError};

use crate::resolve::{Resolved, Trail, having};
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
        self.described(purpose.role.as_ref())?;
        let request = ChatRequest {
            target: Target::Scope(purpose.clone()),
            provider: provider.cloned(),
            ..ChatRequest::new("", project.clone())
        };
        let mut trail = Trail::after(&request);
        let (session, is_new) = loop {
            let carrier = match self.resolve(&request, &mut trail).await? {
                Resolved::There(session, _) => break (*session, false),
                Resolved::New(carrier, _) => carrier,
            };
            let unless = having(purpose, project, provider);
            match self.create_for(purpose, &carrier, project, &unless).await {
                // Somebody else made it since we looked, so that it is found now.
                Err(StoreError::Fits(_)) => trail.begin_again(&request),
                made => break (made?, true),
            }
        };
        let decisions = trail.decisions;
        let is_known = |decision: &Decision| {
            matches!(
                decision.kind,
                DecisionKind::Session | DecisionKind::Continued | DecisionKind::Provider
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
        let Resolved::There(session, _) = self.resolve(request, &mut trail).await? else {
            return Ok(None);
        };
        let decisions = trail.done.into_iter().chain(trail.decisions);
        Ok(Some((*session, decisions.collect(), trail.steps)))
    }

    async fn create_for(
        &self,
        purpose: &Purpose,
        provider: &ProviderId,
        project: &Project,
        unless: &Filter,
    ) -> Result<Session, StoreError> {
        let title = Title::from_prompt(&purpose.to_string());
        loop {
            let new = NewSession {
                unless: Some(unless.clone()),
                ..self.new_session(project, &title, Some(purpose), provider)
            };
            match self.store.create(new).await {
                // Another session of this second drew the same four characters: draw again.
                Err(StoreError::Exists(_)) => {}
                outcome => return outcome,
            }
        }
    }
}
