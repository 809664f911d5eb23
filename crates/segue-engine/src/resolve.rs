//! Resolution of a request to a session and an agent.

mod begin;
mod catalog;
mod feature;
mod here;
mod reference;
mod scoped;
mod trail;

use segue_agents::SessionDefault;
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{DecisionKind, Project, ResolutionStepKind, Session, SessionRef};
use segue_store::SessionFilter;

pub use reference::{RefContext, SessionMatch};
pub(crate) use scoped::purpose_filter;
pub(crate) use trail::ResolutionTrace;

use crate::adopt::AdoptionHint;
use crate::{ChatRequest, Engine, EngineError, Target};

/// Session that a prompt is for, and the agent that is to answer.
pub(crate) enum Resolved {
    /// An existing session, with the chosen agent. `None` for the agent that is the session's provider when the lease
    /// is acquired.
    Existing(Box<Session>, Option<ProviderId>),
    /// A session to create, with its agent and the target that was looked up.
    New(ProviderId, Target),
}

impl Engine {
    /// Finds the session that a prompt is for, if one exists, and the agent that is to answer.
    pub(crate) async fn resolve(
        &self,
        request: &ChatRequest,
        trace: &mut ResolutionTrace,
    ) -> Result<Resolved, EngineError> {
        let mut chosen_provider = request.provider.clone();
        let mut target = request.target.clone();
        if target == Target::Default {
            let provider = match chosen_provider.take() {
                Some(provider) => provider,
                None => self.choose_provider(request, trace).await?,
            };
            target = self.configured_target(&provider, request).await?;
            trace.add_step(
                ResolutionStepKind::Configured,
                describe_configured_target(&provider, &target),
            );
            chosen_provider = Some(provider);
        }
        let session = match &target {
            Target::Default | Target::New | Target::NewWithPurpose(_) => None,
            Target::Scope(purpose) => {
                let lookup =
                    self.find_for_purpose(request, purpose, chosen_provider.as_ref(), trace);
                lookup.await?
            }
            Target::Session(id) => {
                let session = self.require_session(id).await?;
                trace.add_step(
                    ResolutionStepKind::Id,
                    format!("session {}", format_session(&session)),
                );
                Some(session)
            }
            Target::Native(native_provider, id) => {
                let provider = self.driver_or_default(native_provider);
                let adoption = self.adopt_target(
                    (&provider, id),
                    &request.project,
                    chosen_provider.as_ref(),
                    trace,
                );
                Some(adoption.await?)
            }
            Target::NewestInDirectory => {
                self.newest_in_directory(&request.project, chosen_provider.as_ref(), trace)
                    .await?
            }
        };
        if let Some(session) = &session
            && session.project.cwd != request.project.cwd
        {
            let text = format!(
                "working in {}, the directory of the session",
                session.project.cwd
            );
            trace.add_decision(DecisionKind::Session, text);
        }
        if session.is_none() {
            trace.add_step(ResolutionStepKind::New, describe_new_session(request));
        }
        if let Some(requested) = &request.provider {
            trace.add_step(
                ResolutionStepKind::Provider,
                format!("{requested}, as requested"),
            );
        }
        let Some(session) = session else {
            let provider = match chosen_provider {
                Some(provider) => provider,
                None => self.choose_provider(request, trace).await?,
            };
            self.agent(&provider)?;
            return Ok(Resolved::New(provider, target));
        };
        if chosen_provider.is_none() {
            let text = format!("{}, the agent of the session", session.provider);
            trace.add_step(ResolutionStepKind::Provider, text);
        }
        self.agent(chosen_provider.as_ref().unwrap_or(&session.provider))?;
        Ok(Resolved::Existing(Box::new(session), chosen_provider))
    }

    /// Returns the session that uses a native session. Adopts the native session if no session uses it yet.
    async fn adopt_target(
        &self,
        (provider, id): (&ProviderId, &NativeId),
        project: &Project,
        chosen_provider: Option<&ProviderId>,
        trace: &mut ResolutionTrace,
    ) -> Result<Session, EngineError> {
        // If another agent is to continue, the agent of the native session need not be available.
        if chosen_provider.is_none_or(|chosen_provider| chosen_provider == provider) {
            self.agent(provider)?;
            self.ensure_no_foreign_process(provider, id).await?;
        }
        let adoption = self.adopt_by_id(provider, id, project, AdoptionHint::Empty);
        let (session, decision) = adoption.await?;
        let text = format!(
            "{provider}:{id}, which is session {}",
            format_session(&session)
        );
        trace.add_step(ResolutionStepKind::Id, text);
        trace.logged_decisions.extend(decision);
        Ok(session)
    }

    /// Finds the session of a request with a fallback agent, so that a conversation that was handed over to that agent
    /// before continues instead of a new one.
    ///
    /// `None` if there is no such session, or if the target is not a lookup.
    pub(crate) async fn find_with_fallback_provider(
        &self,
        request: &ChatRequest,
        target: &Target,
        fallback: &ProviderId,
        trace: &mut ResolutionTrace,
    ) -> Result<Option<Session>, EngineError> {
        let mut fallback_trace = ResolutionTrace::default();
        let session = match target {
            Target::Scope(purpose) => {
                self.find_for_purpose(request, purpose, Some(fallback), &mut fallback_trace)
                    .await
            }
            Target::NewestInDirectory => {
                self.newest_in_directory(&request.project, Some(fallback), &mut fallback_trace)
                    .await
            }
            Target::Default
            | Target::New
            | Target::NewWithPurpose(_)
            | Target::Session(_)
            | Target::Native(..) => {
                return Ok(None);
            }
        };
        trace
            .steps
            .retain(|step| step.kind() != ResolutionStepKind::New);
        trace.steps.append(&mut fallback_trace.steps);
        trace
            .logged_decisions
            .append(&mut fallback_trace.logged_decisions);
        let session = session?;
        if session.is_some() {
            // No session is created after all.
            trace
                .decisions
                .retain(|decision| decision.kind() != DecisionKind::Session);
            trace.decisions.append(&mut fallback_trace.decisions);
        } else {
            trace.add_step(ResolutionStepKind::New, describe_new_session(request));
        }
        Ok(session)
    }

    /// Returns the target that is configured for an agent.
    async fn configured_target(
        &self,
        provider: &ProviderId,
        request: &ChatRequest,
    ) -> Result<Target, EngineError> {
        let text = match self.agent(provider)?.defaults().session {
            SessionDefault::New => return Ok(Target::New),
            SessionDefault::NewestInDirectory => return Ok(Target::NewestInDirectory),
            SessionDefault::Selected(text) => text,
        };
        let ref_context = RefContext {
            project: request.project.clone(),
            last_list: Vec::new(),
        };
        let reference = SessionRef::parse(&text).map_err(|_| EngineError::NoMatch(text.clone()))?;
        if let SessionRef::Feature(feature) = &reference {
            // A feature in an agent's configuration means that agent's session before those of other agents.
            let agent_filter = SessionFilter {
                project: Some(request.project.key.clone()),
                provider: Some(provider.clone()),
                ..SessionFilter::default()
            };
            if let Some(session) = self.find_feature_session(feature, agent_filter).await? {
                return Ok(Target::Session(session.id));
            }
        }
        Ok(
            match self.find_conversation(&reference, &ref_context).await {
                Ok(conversation) => conversation.id().into(),
                // An agent whose files segue cannot read may have the session.
                Err(EngineError::NoMatch(_)) if !self.can_read_sessions(provider) => {
                    let id = NativeId::parse(&text).map_err(|_| EngineError::NoMatch(text))?;
                    Target::Native(provider.clone(), id)
                }
                Err(error) => return Err(error),
            },
        )
    }

    /// Chooses the agent last used in this project, else the first available agent.
    async fn choose_provider(
        &self,
        request: &ChatRequest,
        trace: &mut ResolutionTrace,
    ) -> Result<ProviderId, EngineError> {
        let filter = SessionFilter {
            project: Some(request.project.key.clone()),
            ..SessionFilter::default()
        };
        let last = self
            .newest_session(filter)
            .await?
            .map(|session| session.provider);
        let last = last.filter(|provider| self.agent(provider).is_ok());
        let first = self.agents.first().map(|agent| agent.provider().clone());
        let (provider, reason) = match (last, first) {
            (Some(last), _) => (last, "the agent last used in this project"),
            (None, Some(first)) if first == ProviderId::rehearsal() => (
                first,
                "the built-in offline agent: no other agent was found",
            ),
            (None, Some(first)) => (first, "the first agent found on this machine"),
            (None, None) => return Err(EngineError::NoAgents),
        };
        trace.add_step(
            ResolutionStepKind::Provider,
            format!("{provider}, {reason}"),
        );
        trace.add_decision(
            DecisionKind::Provider,
            format!("using {provider}, {reason}"),
        );
        Ok(provider)
    }
}

/// Formats a session with its title for the user.
fn format_session(session: &Session) -> String {
    format!("{} ({})", session.id, session.title.as_str())
}

/// Describes the session that is configured for an agent.
fn describe_configured_target(provider: &ProviderId, target: &Target) -> String {
    match target {
        Target::NewestInDirectory => {
            format!("{provider} resumes the newest session in the directory")
        }
        Target::Session(id) => format!("{provider} resumes session {id}"),
        Target::Native(native_provider, id) => {
            format!("{provider} resumes {native_provider}:{id}")
        }
        Target::Default | Target::New | Target::NewWithPurpose(_) | Target::Scope(_) => {
            format!("{provider} starts a new session")
        }
    }
}

/// Describes the session to create.
fn describe_new_session(request: &ChatRequest) -> String {
    match request.target.purpose() {
        Some(purpose) => format!("a session for {purpose}"),
        None => "a session".to_owned(),
    }
}
