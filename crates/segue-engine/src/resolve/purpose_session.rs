//! Lookup of the session for a purpose or a request, without a turn.

use segue_core::id::ProviderId;
use segue_core::scope::Purpose;
use segue_core::session::{Decision, DecisionKind, Project, ResolutionStep, Session, Title};
use segue_store::{NewSession, StoreError};

use crate::resolve::{ResolutionTrace, Resolved, Resolver, purpose_filter};
use crate::{ChatRequest, ResolveError, Target};

/// The session for a purpose.
#[derive(Debug, Clone)]
pub struct PurposeSession {
    /// The session.
    pub session: Session,
    /// Whether the session was created by this call. Its title is the purpose until the user or the agent names it.
    pub is_new: bool,
    /// Decisions that segue made during the lookup.
    pub decisions: Vec<Decision>,
}

impl Resolver {
    /// Returns the session that a prompt with this purpose would go to, by the resolution steps of [`Target::Scope`].
    /// Creates the session if it does not exist. Starts no agent.
    pub async fn session_for_purpose(
        &self,
        purpose: &Purpose,
        provider: Option<&ProviderId>,
        project: &Project,
    ) -> Result<PurposeSession, ResolveError> {
        self.context.role_description(purpose.role.as_ref())?;
        let request = ChatRequest {
            target: Target::Scope(purpose.clone()),
            provider: provider.cloned(),
            ..ChatRequest::new("", project.clone())
        };
        let mut trace = ResolutionTrace::for_request(&request);
        let (session, is_new) = loop {
            let new_provider = match self.resolve(&request, &mut trace).await? {
                Resolved::Existing(session, _) => break (*session, false),
                Resolved::New(new_provider, _) => new_provider,
            };
            let (context, title) = (&self.context, Title::from_prompt(&purpose.to_string()));
            let new = NewSession {
                conflict_filter: Some(purpose_filter(purpose, project, provider)),
                ..context.new_session(project, &title, Some(purpose), &new_provider)
            };
            let creating = context.create_session(new, |new| context.store.create_session(new));
            match creating.await {
                // A concurrent process created the session since the lookup, so the next lookup finds it.
                Err(StoreError::PurposeTaken(_)) => trace.restart(&request),
                created => break (created?, true),
            }
        };
        let decisions = trace.decisions;
        let is_lookup_decision = |decision: &Decision| {
            matches!(
                decision.kind(),
                DecisionKind::Session | DecisionKind::Continued | DecisionKind::Provider
            )
        };
        // A lookup that only finds a session must not change it, and that includes its log.
        if is_new || !decisions.iter().all(is_lookup_decision) {
            let (guard, _) = self.context.leases.acquire_lease(&session.id).await?;
            let logged = self.context.log_decisions(&guard.lease, &decisions).await;
            guard.release().await;
            logged?;
        }
        Ok(PurposeSession {
            session,
            is_new,
            // The decisions in `logged_decisions` are already in the log.
            decisions: [trace.logged_decisions, decisions].concat(),
        })
    }

    /// Returns the session that a prompt would continue, by the resolution steps of [`crate::Engine::chat`], with the
    /// decisions and the steps. `None` if the prompt would create a session.
    pub async fn peek_session(
        &self,
        request: &ChatRequest,
    ) -> Result<Option<(Session, Vec<Decision>, Vec<ResolutionStep>)>, ResolveError> {
        let mut trace = ResolutionTrace::for_request(request);
        let Resolved::Existing(session, _) = self.resolve(request, &mut trace).await? else {
            return Ok(None);
        };
        let decisions = [trace.logged_decisions, trace.decisions].concat();
        Ok(Some((*session, decisions, trace.steps)))
    }
}
