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
use segue_core::session::{DecisionKind, Session, SessionRef, StepKind};
use segue_store::Filter;

pub use reference::{Fitting, Standpoint};
pub(crate) use scoped::having;
pub(crate) use trail::Trail;

use crate::adopt::Beside;
use crate::{ChatRequest, Engine, EngineError, Target};

/// Session that a prompt is for, and the agent that is to answer.
pub(crate) enum Resolved {
    /// An existing session, with the chosen agent. `None` for the agent that is the session's provider when the lease
    /// is acquired.
    There(Box<Session>, Option<ProviderId>),
    /// A session to create, with its agent and the target that was looked up.
    New(ProviderId, Target),
}

impl Engine {
    /// Finds the session that a prompt is for, if one exists, and the agent that is to answer.
    pub(crate) async fn resolve(
        &self,
        request: &ChatRequest,
        trail: &mut Trail,
    ) -> Result<Resolved, EngineError> {
        let mut chosen = request.provider.clone();
        let mut target = request.target.clone();
        if target == Target::Usual {
            let provider = match chosen.take() {
                Some(provider) => provider,
                None => self.choose_provider(request, trail).await?,
            };
            target = self.usual(&provider, request).await?;
            trail.step(StepKind::Configured, configured(&provider, &target));
            chosen = Some(provider);
        }
        let session = match &target {
            Target::Usual | Target::New | Target::NewFor(_) => None,
            Target::Scope(purpose) => {
                let found = self.scoped(request, purpose, chosen.as_ref(), trail);
                found.await?
            }
            Target::Session(id) => {
                let session = self.existing(id).await?;
                trail.step(StepKind::Id, format!("session {}", named(&session)));
                Some(session)
            }
            Target::Native(keeper, id) => {
                let provider = self.driver_to_be(keeper);
                // If another agent is to continue, the agent of the native session need not be available.
                if chosen.as_ref().is_none_or(|chosen| *chosen == provider) {
                    self.agent(&provider)?;
                    self.refuse_strangers_in(&provider, id).await?;
                }
                let adopted = self.adopt(&provider, id, &request.project, Beside::Nothing);
                let (session, adopted) = adopted.await?;
                let text = format!("{provider}:{id}, which is session {}", named(&session));
                trail.step(StepKind::Id, text);
                trail.done.extend(adopted);
                Some(session)
            }
            Target::Continue => {
                self.newest_here(&request.project, chosen.as_ref(), trail)
                    .await?
            }
        };
        if let Some(session) = &session
            && session.project.cwd != request.project.cwd
        {
            let text = format!("working in {}, where the session is", session.project.cwd);
            trail.decide(DecisionKind::Session, text);
        }
        if session.is_none() {
            trail.step(StepKind::New, new_one(request));
        }
        if let Some(asked_for) = &request.provider {
            trail.step(StepKind::Provider, format!("{asked_for}, as asked for"));
        }
        let Some(session) = session else {
            let provider = match chosen {
                Some(provider) => provider,
                None => self.choose_provider(request, trail).await?,
            };
            self.agent(&provider)?;
            return Ok(Resolved::New(provider, target));
        };
        if chosen.is_none() {
            let text = format!("{}, who carries the session", session.provider);
            trail.step(StepKind::Provider, text);
        }
        self.agent(chosen.as_ref().unwrap_or(&session.provider))?;
        Ok(Resolved::There(Box::new(session), chosen))
    }

    /// Finds the session of a request with a fallback agent, so that a conversation that was handed over to that agent
    /// before continues instead of a new one.
    ///
    /// `None` if there is no such session, or if the target is not a lookup.
    pub(crate) async fn with_other(
        &self,
        request: &ChatRequest,
        target: &Target,
        other: &ProviderId,
        trail: &mut Trail,
    ) -> Result<Option<Session>, EngineError> {
        let mut way = Trail::default();
        let found = match target {
            Target::Scope(purpose) => self.scoped(request, purpose, Some(other), &mut way).await,
            Target::Continue => {
                self.newest_here(&request.project, Some(other), &mut way)
                    .await
            }
            Target::Usual
            | Target::New
            | Target::NewFor(_)
            | Target::Session(_)
            | Target::Native(..) => {
                return Ok(None);
            }
        };
        trail.steps.retain(|step| step.kind != StepKind::New);
        trail.steps.append(&mut way.steps);
        trail.done.append(&mut way.done);
        let found = found?;
        if found.is_some() {
            // No session is created after all.
            trail
                .decisions
                .retain(|decision| decision.kind != DecisionKind::Session);
            trail.decisions.append(&mut way.decisions);
        } else {
            trail.step(StepKind::New, new_one(request));
        }
        Ok(found)
    }

    /// Returns the target that is configured for an agent.
    async fn usual(
        &self,
        provider: &ProviderId,
        request: &ChatRequest,
    ) -> Result<Target, EngineError> {
        let text = match self.agent(provider)?.defaults().session {
            SessionDefault::New => return Ok(Target::New),
            SessionDefault::ContinueLast => return Ok(Target::Continue),
            SessionDefault::Resume(text) => text,
        };
        let standpoint = Standpoint {
            project: request.project.clone(),
            last_list: Vec::new(),
        };
        let reference = SessionRef::parse(&text).map_err(|_| EngineError::NoMatch(text.clone()))?;
        if let SessionRef::Feature(feature) = &reference {
            // A feature in an agent's configuration means that agent's session before those of other agents.
            let theirs = Filter {
                project: Some(request.project.key.clone()),
                provider: Some(provider.clone()),
                ..Filter::default()
            };
            if let Some(session) = self.of_feature(feature, theirs).await? {
                return Ok(Target::Session(session.id));
            }
        }
        Ok(match self.find_any(&reference, &standpoint).await {
            Ok(found) => found.id().into(),
            // An agent whose files segue cannot read may have the session.
            Err(EngineError::NoMatch(_)) if !self.reads(provider) => {
                let id = NativeId::parse(&text).map_err(|_| EngineError::NoMatch(text))?;
                Target::Native(provider.clone(), id)
            }
            Err(error) => return Err(error),
        })
    }

    /// Chooses the agent last used in this project, else the first available agent.
    async fn choose_provider(
        &self,
        request: &ChatRequest,
        trail: &mut Trail,
    ) -> Result<ProviderId, EngineError> {
        let filter = Filter {
            project: Some(request.project.key.clone()),
            ..Filter::default()
        };
        let last = self.newest(filter).await?.map(|session| session.provider);
        let last = last.filter(|provider| self.agent(provider).is_ok());
        let first = self.agents.first().map(|agent| agent.provider().clone());
        let (provider, why) = match (last, first) {
            (Some(last), _) => (last, "the agent last used in this project"),
            (None, Some(first)) if first == ProviderId::rehearsal() => (
                first,
                "the built-in offline agent: no other was found on this machine",
            ),
            (None, Some(first)) => (first, "the first agent found on this machine"),
            (None, None) => return Err(EngineError::NoAgents),
        };
        trail.step(StepKind::Provider, format!("{provider}, {why}"));
        trail.decide(DecisionKind::Provider, format!("using {provider}, {why}"));
        Ok(provider)
    }
}

/// Formats a session with its title for the user.
fn named(session: &Session) -> String {
    format!("{} ({})", session.id, session.title.as_str())
}

/// Describes the session that is configured for an agent.
fn configured(provider: &ProviderId, target: &Target) -> String {
    match target {
        Target::Continue => format!("{provider} goes on with the newest session of the directory"),
        Target::Session(id) => format!("{provider} goes on with session {id}"),
        Target::Native(keeper, id) => format!("{provider} goes on with {keeper}:{id}"),
        Target::Usual | Target::New | Target::NewFor(_) | Target::Scope(_) => {
            format!("nothing for {provider} to go on with")
        }
    }
}

/// Describes the session to create.
fn new_one(request: &ChatRequest) -> String {
    match request.target.purpose() {
        Some(purpose) => format!("a session for {purpose}"),
        None => "a session".to_owned(),
    }
}
