//! Resolution of a request to a session and an agent.

pub(crate) mod adopt;
mod feature;
mod native_match;
mod purpose;
pub(crate) mod purpose_session;
mod session_ref;
mod trace;
mod working_directory;

use std::sync::Arc;

use segue_core::agent::RoleDescription;
use segue_core::id::{NativeId, ProviderId};
use segue_core::scope::RoleName;
use segue_core::session::{
    ConfiguredSession, Decision, DecisionKind, Project, ProviderChoice, ResolutionStep,
    ResolutionStepKind, Session, SessionRef,
};
use segue_providers::SessionDefault;
use segue_store::SessionFilter;

pub(crate) use purpose::purpose_filter;
pub use session_ref::{RefContext, SessionMatch};
pub(crate) use trace::ResolutionTrace;

use crate::context::EngineContext;
use crate::library::Library;
use crate::reconcile::Reconciler;
use crate::resolve::adopt::AdoptionHint;
use crate::{AccessError, ChatRequest, ResolveError, Target};

/// Session that a prompt is for, and the agent that is to answer.
pub(crate) enum Resolved {
    /// An existing session, with the chosen agent. `None` for the agent that is the session's provider when the lease
    /// is acquired.
    Existing(Box<Session>, Option<ProviderId>),
    /// A session to create, with its agent and the target that was looked up.
    New(ProviderId, Target),
}

/// Component that finds the session for a reference, a purpose or a request.
#[derive(Clone)]
pub struct Resolver {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) library: Library,
    pub(crate) reconciler: Reconciler,
}

impl Resolver {
    /// Returns the role of the agent in a session; `None` if the session has no role. Fails if the role has no
    /// description, because its limits are unknown then.
    pub fn session_role(&self, session: &Session) -> Result<Option<&RoleDescription>, AccessError> {
        self.context.session_role(session)
    }

    /// Returns the description of a role; `None` if no role is given. Fails if the role has no description.
    pub fn role_description(
        &self,
        role: Option<&RoleName>,
    ) -> Result<Option<&RoleDescription>, AccessError> {
        self.context.role_description(role)
    }

    /// Finds the session that a prompt is for, if one exists, and the agent that is to answer.
    pub(crate) async fn resolve(
        &self,
        request: &ChatRequest,
        trace: &mut ResolutionTrace,
    ) -> Result<Resolved, ResolveError> {
        let mut chosen_provider = request.provider.clone();
        let mut target = request.target.clone();
        if target == Target::Default {
            let provider = match chosen_provider.take() {
                Some(provider) => provider,
                None => self.choose_provider(request, trace).await?,
            };
            target = self.configured_target(&provider, request).await?;
            trace.steps.push(ResolutionStep::SessionConfigured {
                provider: provider.clone(),
                configured: configured_session(&target),
            });
            chosen_provider = Some(provider);
        }
        let session = match &target {
            Target::Session(id) => {
                let session = self.context.require_session(id).await?;
                trace.steps.push(ResolutionStep::SessionNamed {
                    session: session.id.clone(),
                    title: session.title.as_str().to_owned(),
                });
                Some(session)
            }
            Target::Native(native_provider, id) => {
                let provider = self.context.agents.driver_or_default(native_provider);
                let adoption = self.adopt_target(
                    (&provider, id),
                    &request.project,
                    chosen_provider.as_ref(),
                    trace,
                );
                Some(adoption.await?)
            }
            _ => {
                self.look_up(request, &target, chosen_provider.as_ref(), trace)
                    .await?
            }
        };
        match &session {
            None => trace.steps.push(new_session_step(request)),
            Some(session) if session.project.cwd != request.project.cwd => {
                trace.decisions.push(Decision::SessionDirectoryUsed {
                    cwd: session.project.cwd.clone(),
                });
            }
            Some(_) => {}
        }
        if let Some(requested) = &request.provider {
            trace.steps.push(ResolutionStep::ProviderRequested {
                provider: requested.clone(),
            });
        }
        let agents = &self.context.agents;
        let Some(session) = session else {
            let provider = match chosen_provider {
                Some(provider) => provider,
                None => self.choose_provider(request, trace).await?,
            };
            agents.get(&provider)?;
            return Ok(Resolved::New(provider, target));
        };
        if chosen_provider.is_none() {
            trace.steps.push(ResolutionStep::SessionProviderUsed {
                provider: session.provider.clone(),
                is_changed: false,
            });
        }
        agents.get(chosen_provider.as_ref().unwrap_or(&session.provider))?;
        Ok(Resolved::Existing(Box::new(session), chosen_provider))
    }

    /// Looks up the session for a purpose or a directory. `None` if there is none, or if the target is not a lookup.
    async fn look_up(
        &self,
        request: &ChatRequest,
        target: &Target,
        provider: Option<&ProviderId>,
        trace: &mut ResolutionTrace,
    ) -> Result<Option<Session>, ResolveError> {
        match target {
            Target::Scope(purpose) => {
                self.find_for_purpose(request, purpose, provider, trace)
                    .await
            }
            Target::NewestInDirectory => {
                self.newest_in_directory(&request.project, provider, trace)
                    .await
            }
            _ => Ok(None),
        }
    }

    /// Returns the session that uses a native session. Adopts the native session if no session uses it yet.
    async fn adopt_target(
        &self,
        (provider, id): (&ProviderId, &NativeId),
        project: &Project,
        chosen_provider: Option<&ProviderId>,
        trace: &mut ResolutionTrace,
    ) -> Result<Session, ResolveError> {
        // If another agent is to continue, the agent of the native session need not be available.
        if chosen_provider.is_none_or(|chosen_provider| chosen_provider == provider) {
            let EngineContext {
                agents, natives, ..
            } = &*self.context;
            agents.get(provider)?;
            natives.ensure_no_foreign_process(provider, id).await?;
        }
        let adoption = self.adopt_by_id(provider, id, project, AdoptionHint::Empty);
        let (session, decision) = adoption.await?;
        trace.steps.push(ResolutionStep::NativeNamed {
            provider: provider.clone(),
            native_id: id.clone(),
            session: session.id.clone(),
            title: session.title.as_str().to_owned(),
        });
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
    ) -> Result<Option<Session>, ResolveError> {
        if !matches!(target, Target::Scope(_) | Target::NewestInDirectory) {
            return Ok(None);
        }
        let mut fallback_trace = ResolutionTrace::default();
        let looked_up = self
            .look_up(request, target, Some(fallback), &mut fallback_trace)
            .await;
        trace
            .steps
            .retain(|step| step.kind() != ResolutionStepKind::New);
        trace.steps.append(&mut fallback_trace.steps);
        trace
            .logged_decisions
            .append(&mut fallback_trace.logged_decisions);
        let session = looked_up?;
        if session.is_some() {
            // No session is created after all.
            trace
                .decisions
                .retain(|decision| decision.kind() != DecisionKind::Session);
            trace.decisions.append(&mut fallback_trace.decisions);
        } else {
            trace.steps.push(new_session_step(request));
        }
        Ok(session)
    }

    /// Returns the target that is configured for an agent.
    async fn configured_target(
        &self,
        provider: &ProviderId,
        request: &ChatRequest,
    ) -> Result<Target, ResolveError> {
        let text = match self.context.agents.get(provider)?.defaults().session {
            SessionDefault::New => return Ok(Target::New),
            SessionDefault::NewestInDirectory => return Ok(Target::NewestInDirectory),
            SessionDefault::Selected(text) => text,
        };
        let ref_context = RefContext {
            project: request.project.clone(),
            last_list: Vec::new(),
        };
        let reference =
            SessionRef::parse(&text).map_err(|_| ResolveError::NoMatch(text.clone()))?;
        if let SessionRef::Feature(feature) = &reference {
            // A feature in an agent's configuration means that agent's session before those of other agents.
            let agent_filter = SessionFilter {
                provider: Some(provider.clone()),
                ..SessionFilter::in_project(&request.project.key)
            };
            if let Some(session) = self.find_feature_session(feature, agent_filter).await? {
                return Ok(Target::Session(session.id));
            }
        }
        match self.find_conversation(&reference, &ref_context).await {
            // An agent whose files segue cannot read may have the session.
            Err(ResolveError::NoMatch(_)) if !self.context.natives.can_read_sessions(provider) => {
                let id = NativeId::parse(&text).map_err(|_| ResolveError::NoMatch(text))?;
                Ok(Target::Native(provider.clone(), id))
            }
            found => Ok(found?.id().into()),
        }
    }

    /// Chooses the agent last used in this project, else the first available agent.
    async fn choose_provider(
        &self,
        request: &ChatRequest,
        trace: &mut ResolutionTrace,
    ) -> Result<ProviderId, ResolveError> {
        let agents = &self.context.agents;
        let project_filter = SessionFilter::in_project(&request.project.key);
        let last = self.context.newest_session(project_filter).await?;
        let last = last.map(|session| session.provider);
        let last = last.filter(|provider| agents.get(provider).is_ok());
        let first = agents.providers().next().cloned();
        let (provider, reason) = match (last, first) {
            (Some(last), _) => (last, ProviderChoice::LastUsedInProject),
            (None, Some(first)) if first == ProviderId::rehearsal() => {
                (first, ProviderChoice::BuiltIn)
            }
            (None, Some(first)) => (first, ProviderChoice::FirstFound),
            (None, None) => return Err(ResolveError::NoAgents),
        };
        trace.steps.push(ResolutionStep::ProviderChosen {
            provider: provider.clone(),
            reason,
        });
        trace.decisions.push(Decision::ProviderChosen {
            provider: provider.clone(),
            reason,
        });
        Ok(provider)
    }
}

/// Returns the session that is configured for an agent.
fn configured_session(target: &Target) -> ConfiguredSession {
    match target {
        Target::NewestInDirectory => ConfiguredSession::NewestInDirectory,
        Target::Session(id) => ConfiguredSession::Session {
            session: id.clone(),
        },
        Target::Native(provider, id) => ConfiguredSession::Native {
            provider: provider.clone(),
            native_id: id.clone(),
        },
        Target::Default | Target::New | Target::NewWithPurpose(_) | Target::Scope(_) => {
            ConfiguredSession::New
        }
    }
}

/// Returns the step that creates a session.
fn new_session_step(request: &ChatRequest) -> ResolutionStep {
    ResolutionStep::SessionCreated {
        purpose: request.target.purpose().cloned(),
    }
}
