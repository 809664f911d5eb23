//! Lookup of the session for a purpose or a request, without a turn.

use segue_core::id::ProviderId;
use segue_core::scope::Purpose;
use segue_core::session::{Decision, DecisionKind, Project, Session, Step, Title};
use segue_store::{Filter, NewSession, StoreError};

use crate::resolve::{Resolved, Trail, having};
use crate::{ChatRequest, Engine, EngineError, Target};

/// The session for a purpose.
#[derive(Debug, Clone)]
pub struct ForPurpose {
    /// The session.
    pub session: Session,
    /// Whether the session was created by this call. Its title is the purpose until the user or the agent names it.
    pub is_new: bool,
    /// Decisions that segue made during the lookup.
    pub decisions: Vec<Decision>,
}

impl Engine {
    /// Returns the session that a prompt with this purpose would go to, by the resolution steps of [`Target::Scope`].
    /// Creates the session if it does not exist. Starts no agent.
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
                // A concurrent process created the session since the lookup, so the next lookup finds it.
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
        // A lookup that only finds a session must not change it, and that includes its log.
        if is_new || !decisions.iter().all(is_known) {
            let (hold, _) = self.hold(&session.id).await?;
            let noted = self.note_all(&hold, &decisions).await;
            hold.release().await;
            noted?;
        }
        Ok(ForPurpose {
            session,
            is_new,
            // The decisions in `done` are already in the log.
            decisions: trail.done.into_iter().chain(decisions).collect(),
        })
    }

    /// Returns the session that a prompt would continue, by the resolution steps of [`Engine::chat`], with the
    /// decisions and the steps. `None` if the prompt would create a session.
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
                // The id is taken by a session of the same second with the same four random characters: draw new ones.
                Err(StoreError::Exists(_)) => {}
                outcome => return outcome,
            }
        }
    }
}
