//! Which session, and which agent?

use segue_core::{
    Decision, DecisionKind, MatchedBy, Message, Pick, Project, ProviderId, Session, SessionId,
    SessionRef, Title, pick,
};
use segue_store::{Filter, NewSession, Page, Started, StoreError};

use crate::{ChatRequest, ConversationId, Engine, EngineError, Target};

/// Where a reference is looked up from.
#[derive(Debug, Clone)]
pub struct Scope {
    /// Where we are.
    pub project: Project,
    /// The sessions of the last list that was shown, for references by number.
    pub last_list: Vec<ConversationId>,
}

/// Which session a prompt is for, and who is to answer.
pub(crate) struct Resolved {
    /// The session; none if one is to be made.
    pub(crate) session: Option<Session>,
    pub(crate) provider: ProviderId,
    pub(crate) decisions: Vec<Decision>,
}

impl Engine {
    /// The session that a typed reference means. One that only an agent has is told, not taken.
    pub async fn find(
        &self,
        reference: &SessionRef,
        scope: &Scope,
    ) -> Result<Session, EngineError> {
        match self.find_own(reference, scope).await {
            Err(EngineError::NoMatch(text)) if matches!(reference, SessionRef::Text(_)) => {
                let natives = self.lookup_native(&text).await?;
                Err(match natives.as_slice() {
                    [native] => EngineError::OnlyNative(native.id()),
                    _ => EngineError::NoMatch(text),
                })
            }
            outcome => outcome,
        }
    }

    /// The session of our own that a typed reference means.
    pub(crate) async fn find_own(
        &self,
        reference: &SessionRef,
        scope: &Scope,
    ) -> Result<Session, EngineError> {
        let here = Filter {
            project: Some(scope.project.key.clone()),
            ..Filter::default()
        };
        let no_match = |text: String| move || EngineError::NoMatch(text);
        match reference {
            SessionRef::Latest => self
                .newest(here)
                .await?
                .ok_or_else(no_match("latest".into())),
            SessionRef::Feature(feature) => {
                let filter = Filter {
                    feature: Some(feature.clone()),
                    ..here
                };
                self.newest(filter)
                    .await?
                    .ok_or_else(no_match(format!("feature:{feature}")))
            }
            SessionRef::Number(number) => {
                let listed = number
                    .checked_sub(1)
                    .and_then(|index| scope.last_list.get(index));
                match listed {
                    Some(ConversationId::Session(id)) => self.existing(id).await,
                    Some(native) => Err(EngineError::OnlyNative(native.clone())),
                    None => Err(EngineError::NoNumber {
                        number: *number,
                        listed: scope.last_list.len(),
                    }),
                }
            }
            SessionRef::Text(text) => match self.pick(text).await? {
                Pick::One(id) => self.existing(&id).await,
                Pick::None => Err(EngineError::NoMatch(text.clone())),
                Pick::Ambiguous(candidates) => Err(EngineError::Ambiguous {
                    text: text.clone(),
                    candidates: candidates
                        .into_iter()
                        .map(ConversationId::Session)
                        .collect(),
                }),
            },
        }
    }

    /// The session that a text means. `PROVIDER:ID` is what an agent calls it.
    async fn pick(&self, text: &str) -> Result<Pick, EngineError> {
        let named = text.split_once(':');
        let Some((provider, id)) = named.filter(|(_, id)| !id.is_empty()) else {
            return Ok(pick(&self.store.candidates(text).await?));
        };
        let mut fitting = Vec::new();
        for candidate in self.store.candidates(id).await? {
            if matches!(candidate.by, MatchedBy::Id | MatchedBy::Prefix) {
                continue;
            }
            let legs = self.store.legs(&candidate.id).await?;
            if legs.iter().any(|leg| leg.provider.as_str() == provider) {
                fitting.push(candidate);
            }
        }
        Ok(pick(&fitting))
    }

    pub(crate) async fn existing(&self, id: &SessionId) -> Result<Session, EngineError> {
        let session = self.store.session(id).await?;
        session.ok_or_else(|| StoreError::NoSession(id.clone()).into())
    }

    async fn newest(&self, filter: Filter) -> Result<Option<Session>, EngineError> {
        let found = self.store.find(&filter, Page::first(1)).await?;
        Ok(found.sessions.into_iter().next())
    }

    /// The session a prompt is for, if there is one already, and the agent that is to answer.
    pub(crate) async fn resolve(&self, request: &ChatRequest) -> Result<Resolved, EngineError> {
        let mut decisions = Vec::new();
        let session = match &request.target {
            Target::New => None,
            Target::Session(id) => Some(self.existing(id).await?),
            Target::Continue => {
                let newest = self.newest_here(&request.project).await?;
                let text = match &newest {
                    Some(session) => {
                        format!(
                            "continuing session {} ({})",
                            session.id,
                            session.title.as_str()
                        )
                    }
                    None => {
                        "there is nothing to continue in this directory; starting a new session"
                            .into()
                    }
                };
                decisions.push(Decision::new(DecisionKind::Session, text));
                newest
            }
        };
        let provider = match (&request.provider, &session) {
            (Some(asked_for), _) => asked_for.clone(),
            (None, Some(session)) => session.provider.clone(),
            (None, None) => {
                let (provider, decision) = self.choose_provider(request).await?;
                decisions.push(decision);
                provider
            }
        };
        self.agent(&provider)?;
        Ok(Resolved {
            session,
            provider,
            decisions,
        })
    }

    async fn newest_here(&self, project: &Project) -> Result<Option<Session>, EngineError> {
        let filter = Filter {
            cwd: Some(project.cwd.clone()),
            ..Filter::default()
        };
        self.newest(filter).await
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
        let last = self.newest(filter).await?.map(|session| session.provider);
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

    /// Makes a session with its first prompt, claimed by us.
    pub(crate) async fn start(
        &self,
        request: &ChatRequest,
        provider: &ProviderId,
        prompt: &Message,
    ) -> Result<Started, EngineError> {
        let title = Title::from_prompt(&request.prompt);
        loop {
            let new =
                self.new_session(&request.project, &title, request.feature.as_ref(), provider);
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
        feature: Option<&segue_core::FeatureId>,
        provider: &ProviderId,
    ) -> NewSession {
        let at = (self.world.now)();
        NewSession {
            id: SessionId::at(at, (self.world.random)()),
            project: project.clone(),
            title: title.clone(),
            feature: feature.cloned(),
            provider: provider.clone(),
            at,
        }
    }
}
