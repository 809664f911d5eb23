//! Which session, and which agent?

use segue_core::{
    Decision, DecisionKind, Pick, Project, ProviderId, Session, SessionId, SessionRef, Title, pick,
};
use segue_store::{Filter, NewSession, Page, StoreError};

use crate::{ChatRequest, Engine, EngineError, Target};

/// Where a reference is looked up from.
#[derive(Debug, Clone)]
pub struct Scope {
    /// Where we are.
    pub project: Project,
    /// The sessions of the last list that was shown, for references by number.
    pub last_list: Vec<SessionId>,
}

impl Engine {
    /// The session that a typed reference means.
    pub async fn find(
        &self,
        reference: &SessionRef,
        scope: &Scope,
    ) -> Result<Session, EngineError> {
        let newest = |filter: Filter, text: String| async move {
            let found = self.store.find(&filter, Page::first(1)).await?;
            found
                .sessions
                .into_iter()
                .next()
                .ok_or(EngineError::NoMatch(text))
        };
        let here = Filter {
            project: Some(scope.project.key.clone()),
            ..Filter::default()
        };
        match reference {
            SessionRef::Latest => newest(here, "latest".into()).await,
            SessionRef::Feature(feature) => {
                let filter = Filter {
                    feature: Some(feature.clone()),
                    ..here
                };
                newest(filter, format!("feature:{feature}")).await
            }
            SessionRef::Number(number) => {
                let listed = number
                    .checked_sub(1)
                    .and_then(|index| scope.last_list.get(index));
                match listed {
                    Some(id) => self.existing(id).await,
                    None => Err(EngineError::NoMatch(number.to_string())),
                }
            }
            SessionRef::Text(text) => match pick(&self.store.candidates(text).await?) {
                Pick::One(id) => self.existing(&id).await,
                Pick::None => Err(EngineError::NoMatch(text.clone())),
                Pick::Ambiguous(candidates) => Err(EngineError::Ambiguous {
                    text: text.clone(),
                    candidates,
                }),
            },
        }
    }

    pub(crate) async fn existing(&self, id: &SessionId) -> Result<Session, EngineError> {
        let session = self.store.session(id).await?;
        session.ok_or_else(|| StoreError::NoSession(id.clone()).into())
    }

    /// The session a prompt is for, made if need be, and the agent that is to answer.
    pub(crate) async fn resolve(
        &self,
        request: &ChatRequest,
    ) -> Result<(Session, Vec<Decision>), EngineError> {
        let mut decisions = Vec::new();
        let existing = match &request.target {
            Target::New => None,
            Target::Session(id) => Some(self.existing(id).await?),
            Target::Continue => {
                let newest = self.newest_here(&request.project).await?;
                let text = match &newest {
                    Some(session) => format!(
                        "continuing session {} ({})",
                        session.id,
                        session.title.as_str()
                    ),
                    None => {
                        "there is nothing to continue in this directory; starting a new session"
                            .into()
                    }
                };
                decisions.push(Decision::new(DecisionKind::Session, text));
                newest
            }
        };
        if let Some(session) = existing {
            let provider = request.provider.as_ref().unwrap_or(&session.provider);
            self.agent(provider)?;
            return Ok((session, decisions));
        }
        let provider = if let Some(provider) = &request.provider {
            provider.clone()
        } else {
            let (provider, decision) = self.choose_provider(request).await?;
            decisions.push(decision);
            provider
        };
        self.agent(&provider)?;
        Ok((self.make_session(request, provider).await?, decisions))
    }

    async fn newest_here(&self, project: &Project) -> Result<Option<Session>, EngineError> {
        let filter = Filter {
            cwd: Some(project.cwd.clone()),
            ..Filter::default()
        };
        let found = self.store.find(&filter, Page::first(1)).await?;
        Ok(found.sessions.into_iter().next())
    }

    /// The agent last used in this project, else the first that can be driven.
    async fn choose_provider(
        &self,
        request: &ChatRequest,
    ) -> Result<(ProviderId, Decision), EngineError> {
        let filter = Filter {
            project: Some(request.project.key.clone()),
            ..Filter::default()
        };
        let last = self.store.find(&filter, Page::first(1)).await?;
        let last = last
            .sessions
            .into_iter()
            .next()
            .map(|session| session.provider);
        let last = last.filter(|provider| self.agent(provider).is_ok());
        let first = self.agents.first().map(|agent| agent.provider().clone());
        let why = match (&last, &request.fallback_why) {
            (_, Some(why)) => why,
            (Some(_), None) => "the agent last used in this project",
            (None, None) => "the first agent found on this machine",
        };
        let Some(provider) = last.clone().or(first) else {
            return Err(EngineError::NoAgents);
        };
        let text = format!("using {provider}, {why}");
        Ok((provider, Decision::new(DecisionKind::Provider, text)))
    }

    async fn make_session(
        &self,
        request: &ChatRequest,
        provider: ProviderId,
    ) -> Result<Session, EngineError> {
        loop {
            let at = (self.world.now)();
            let new = NewSession {
                id: SessionId::at(at, (self.world.random)()),
                project: request.project.clone(),
                title: Title::from_prompt(&request.prompt),
                feature: request.feature.clone(),
                provider: provider.clone(),
                at,
            };
            match self.store.create(new).await {
                // Another session of this second drew the same four characters: draw again.
                Err(StoreError::Exists(_)) => {}
                outcome => return Ok(outcome?),
            }
        }
    }
}
