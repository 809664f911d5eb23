//! Which session, and which agent?

use std::fmt;
use std::path::Path;

use jiff::Timestamp;
use segue_agents::SessionDefault;
use segue_catalog::{Kind, NativeSession};
use segue_core::{
    Decision, DecisionKind, MatchedBy, Message, NativeId, Pick, Project, ProviderId, Session,
    SessionId, SessionRef, Title, pick,
};
use segue_store::{Filter, NewSession, Page, Started, StoreError};

use crate::{ChatRequest, Conversation, ConversationId, Engine, EngineError, Native, Target};

/// Where a reference is looked up from.
#[derive(Debug, Clone)]
pub struct Scope {
    /// Where we are.
    pub project: Project,
    /// The sessions of the last list that was shown, for references by number.
    pub last_list: Vec<ConversationId>,
}

/// One of several conversations that a text may mean, with what tells it from the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitting {
    /// Which.
    pub id: ConversationId,
    /// What it is called, where it is called anything.
    pub title: Option<String>,
    /// When something last happened in it.
    pub updated_at: Timestamp,
}

impl fmt::Display for Fitting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

impl From<&Session> for Fitting {
    fn from(session: &Session) -> Self {
        Self {
            id: ConversationId::Session(session.id.clone()),
            title: Some(session.title.as_str().to_owned()),
            updated_at: session.updated_at,
        }
    }
}

impl From<&Native> for Fitting {
    fn from(native: &Native) -> Self {
        Self::from(&native.session)
    }
}

impl From<&NativeSession> for Fitting {
    fn from(native: &NativeSession) -> Self {
        let head = &native.head;
        let title = head.title.as_ref().map(|title| title.as_str().to_owned());
        Self {
            id: ConversationId::Native(native.provider.clone(), head.id.clone()),
            title: title.or_else(|| head.first_prompt.clone()),
            updated_at: head.updated_at,
        }
    }
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
                    [] => EngineError::NoMatch(text),
                    [native] => EngineError::OnlyNative(native.id()),
                    several => EngineError::Ambiguous {
                        text,
                        candidates: several.iter().map(Fitting::from).collect(),
                    },
                })
            }
            outcome => outcome,
        }
    }

    /// The session that a typed reference means. One that only an agent has becomes one of ours, with all that was said
    /// in it, which is told.
    pub async fn take(
        &self,
        reference: &SessionRef,
        scope: &Scope,
    ) -> Result<(Session, Option<Decision>), EngineError> {
        match self.find_any(reference, scope).await? {
            Conversation::Session(session, _) => Ok((*session, None)),
            Conversation::Native(native) => self.take_over(&native, &scope.project).await,
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
                Pick::Ambiguous(ids) => {
                    let mut candidates = Vec::with_capacity(ids.len());
                    for id in ids {
                        candidates.push(Fitting::from(&self.existing(&id).await?));
                    }
                    Err(EngineError::Ambiguous {
                        text: text.clone(),
                        candidates,
                    })
                }
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
            if matches!(
                candidate.by,
                MatchedBy::Id | MatchedBy::Prefix | MatchedBy::Suffix
            ) {
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
        let mut chosen = request.provider.clone();
        let mut target = request.target.clone();
        if target == Target::Usual {
            let provider = match chosen.take() {
                Some(provider) => provider,
                None => self.choose_provider(request, &mut decisions).await?,
            };
            target = self.usual(&provider, request).await?;
            chosen = Some(provider);
        }
        let session = match target {
            Target::Usual | Target::New => None,
            Target::Session(id) => Some(self.existing(&id).await?),
            Target::Native(keeper, id) => {
                // Whoever can't be driven is told about where the agent is looked up.
                let provider = self.driver(&keeper).unwrap_or(keeper);
                self.agent(&provider)?;
                if chosen.as_ref().is_none_or(|chosen| *chosen == provider) {
                    self.refuse_strangers_in(&provider, &id).await?;
                }
                let (session, adopted) = self.adopt(&provider, &id, &request.project).await?;
                decisions.extend(adopted);
                Some(session)
            }
            Target::Continue => {
                self.newest_here(&request.project, chosen.as_ref(), &mut decisions)
                    .await?
            }
        };
        if let Some(session) = &session
            && session.project.cwd != request.project.cwd
        {
            let text = format!("working in {}, where the session is", session.project.cwd);
            decisions.push(Decision::new(DecisionKind::Session, text));
        }
        let provider = match (chosen, &session) {
            (Some(asked_for), _) => asked_for,
            (None, Some(session)) => session.provider.clone(),
            (None, None) => self.choose_provider(request, &mut decisions).await?,
        };
        self.agent(&provider)?;
        Ok(Resolved {
            session,
            provider,
            decisions,
        })
    }

    /// The session that is configured for an agent.
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
        let scope = Scope {
            project: request.project.clone(),
            last_list: Vec::new(),
        };
        let reference = SessionRef::parse(&text).map_err(|_| EngineError::NoMatch(text.clone()))?;
        Ok(match self.find_any(&reference, &scope).await {
            Ok(found) => found.id().into(),
            // An agent whose files we can't read may know it.
            Err(EngineError::NoMatch(_)) if !self.reads(provider) => {
                let id = NativeId::parse(&text).map_err(|_| EngineError::NoMatch(text))?;
                Target::Native(provider.clone(), id)
            }
            Err(error) => return Err(error),
        })
    }

    /// The newest session of a working directory by its own time, whoever keeps it: one of ours, or a native one of
    /// an agent that can be driven, which becomes one of ours.
    async fn newest_here(
        &self,
        project: &Project,
        provider: Option<&ProviderId>,
        decisions: &mut Vec<Decision>,
    ) -> Result<Option<Session>, EngineError> {
        let filter = Filter {
            cwd: Some(project.cwd.clone()),
            provider: provider.cloned(),
            ..Filter::default()
        };
        let mut newest = self.newest(filter).await?;
        let mut newest_at = newest.as_ref().map(|session| session.updated_at);
        for (at, provider, id) in self.natives_here(project, provider).await? {
            if newest_at.is_some_and(|newest| newest >= at) {
                break;
            }
            // The user may have gone on with one of ours in the agent's own program since.
            let carrier = self.carrier(&provider, &id).await?;
            let named = [(provider.clone(), id.clone())];
            let past = carrier.is_none() && !self.store.carried(&named).await?.is_empty();
            if past {
                // It carried one of ours, which has gone on elsewhere.
                continue;
            }
            let (session, adopted) = match carrier {
                Some(session) => (session, None),
                None => self.adopt(&provider, &id, project).await?,
            };
            decisions.extend(adopted);
            newest_at = Some(at);
            newest = Some(session);
        }
        let text = match &newest {
            Some(session) => format!(
                "continuing session {} ({})",
                session.id,
                session.title.as_str()
            ),
            None => "there is nothing to continue in this directory; starting a new session".into(),
        };
        decisions.push(Decision::new(DecisionKind::Session, text));
        Ok(newest)
    }

    /// The native sessions of a working directory that can be gone on with, the newest first.
    async fn natives_here(
        &self,
        project: &Project,
        provider: Option<&ProviderId>,
    ) -> Result<Vec<(Timestamp, ProviderId, NativeId)>, EngineError> {
        let filter = Filter {
            project: Some(project.key.clone()),
            provider: provider.cloned(),
            ..Filter::default()
        };
        let (natives, _) = self.all_natives(&filter).await;
        let readable = natives.into_iter().filter_map(|native| {
            let head = native.session.head;
            let here = is_same_directory(head.cwd.as_deref()?, &project.cwd);
            let driver = self.driver(&native.session.provider)?;
            let conversation = head.kind == Kind::Conversation;
            (here && conversation).then_some((head.updated_at, driver, head.id))
        });
        let mut all: Vec<_> = readable.collect();
        if let Some(provider) = provider.filter(|provider| !self.reads(provider)) {
            all.extend(self.asked(provider, project).await?);
        }
        all.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
        Ok(all)
    }

    /// The native sessions of a directory by the word of an agent whose files can't be read, where it can tell.
    async fn asked(
        &self,
        provider: &ProviderId,
        project: &Project,
    ) -> Result<Vec<(Timestamp, ProviderId, NativeId)>, EngineError> {
        let agent = self.agent(provider)?;
        let timeout = agent.defaults().timeouts.start;
        // An agent that can't be started says so when the prompt is sent.
        let listed = agent.list(Path::new(&project.cwd), timeout).await;
        let listed = listed.ok().flatten().unwrap_or_default();
        let here = listed
            .into_iter()
            .filter(|entry| is_same_directory(&entry.cwd.to_string_lossy(), &project.cwd));
        let timed = here.map(|entry| {
            let at = entry.updated_at.unwrap_or(Timestamp::UNIX_EPOCH);
            (at, provider.clone(), entry.id)
        });
        Ok(timed.collect())
    }

    /// The agent last used in this project, else the first that can be driven.
    async fn choose_provider(
        &self,
        request: &ChatRequest,
        decisions: &mut Vec<Decision>,
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
        let text = format!("using {provider}, {why}");
        decisions.push(Decision::new(DecisionKind::Provider, text));
        Ok(provider)
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

/// Whether two paths lead to the same directory, by whatever links.
fn is_same_directory(theirs: &str, ours: &str) -> bool {
    theirs == ours
        || Path::new(theirs)
            .canonicalize()
            .is_ok_and(|theirs| theirs == Path::new(ours))
}
