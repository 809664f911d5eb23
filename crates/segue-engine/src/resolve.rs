//! Which session, and which agent?

mod catalog;
mod feature;
mod scoped;
mod trail;

use std::fmt;
use std::path::Path;

use jiff::Timestamp;
use segue_agents::SessionDefault;
use segue_catalog::{Kind, NativeSession};
use segue_core::{
    Decision, DecisionKind, MatchedBy, Message, NativeId, Pick, Project, ProviderId, Purpose, Sent,
    Session, SessionId, SessionRef, StepKind, Title, pick,
};
use segue_store::{Filter, NewSession, Page, Started, StoreError};

pub(crate) use scoped::having;
pub(crate) use trail::Trail;

use crate::{ChatRequest, Conversation, ConversationId, Engine, EngineError, Native, Target};

/// Where a reference is looked up from.
#[derive(Debug, Clone)]
pub struct Standpoint {
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
    /// Who carries it, where its id does not tell.
    pub agent: Option<ProviderId>,
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
            agent: Some(session.provider.clone()),
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
            title: title.or_else(|| {
                let prompt = head.first_prompt.as_deref();
                prompt.map(|prompt| Sent::words(prompt).to_owned())
            }),
            updated_at: head.updated_at,
            agent: None,
        }
    }
}

/// Which session a prompt is for, and who is to answer.
pub(crate) enum Resolved {
    /// One that there is, and who was chosen to answer; else it is whoever carries it by the time it is ours.
    There(Box<Session>, Option<ProviderId>),
    /// One that is to be made, for whom, and by what it was looked up.
    New(ProviderId, Target),
}

impl Engine {
    /// The session that a typed reference means. One that only an agent has is told, not taken.
    pub async fn find(
        &self,
        reference: &SessionRef,
        standpoint: &Standpoint,
    ) -> Result<Session, EngineError> {
        match self.find_own(reference, standpoint).await {
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
        standpoint: &Standpoint,
    ) -> Result<(Session, Option<Decision>), EngineError> {
        match self.find_any(reference, standpoint).await? {
            Conversation::Session(session, _) => Ok((*session, None)),
            Conversation::Native(native) => self.take_over(&native, &standpoint.project).await,
        }
    }

    /// The session of our own that a typed reference means.
    pub(crate) async fn find_own(
        &self,
        reference: &SessionRef,
        standpoint: &Standpoint,
    ) -> Result<Session, EngineError> {
        let here = Filter {
            project: Some(standpoint.project.key.clone()),
            ..Filter::default()
        };
        let no_match = |text: String| move || EngineError::NoMatch(text);
        match reference {
            SessionRef::Latest => self
                .newest(here)
                .await?
                .ok_or_else(no_match("latest".into())),
            SessionRef::Feature(feature) => {
                let found = self.of_feature(feature, here).await?;
                found.ok_or_else(no_match(format!("feature:{feature}")))
            }
            SessionRef::Number(number) => {
                let listed = number
                    .checked_sub(1)
                    .and_then(|index| standpoint.last_list.get(index));
                match listed {
                    Some(ConversationId::Session(id)) => self.existing(id).await,
                    Some(native) => Err(EngineError::OnlyNative(native.clone())),
                    None => Err(EngineError::NoNumber {
                        number: *number,
                        listed: standpoint.last_list.len(),
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
                trail.step(StepKind::Id, format!("session {}", told(&session)));
                Some(session)
            }
            Target::Native(keeper, id) => {
                // Whoever can't be driven is told about where the agent is looked up.
                let provider = self.driver(keeper).unwrap_or_else(|| keeper.clone());
                self.agent(&provider)?;
                if chosen.as_ref().is_none_or(|chosen| *chosen == provider) {
                    self.refuse_strangers_in(&provider, id).await?;
                }
                let adopted = self.adopt(&provider, id, &request.project, None);
                let (session, adopted) = adopted.await?;
                let text = format!("{provider}:{id}, which is session {}", told(&session));
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

    /// The session that has the key of a request with an agent that nobody asked for: what was handed over to it goes
    /// on there, and is not begun once more.
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
            // None is begun after all.
            trail
                .decisions
                .retain(|decision| decision.kind != DecisionKind::Session);
            trail.decisions.append(&mut way.decisions);
        } else {
            trail.step(StepKind::New, new_one(request));
        }
        Ok(found)
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
        let standpoint = Standpoint {
            project: request.project.clone(),
            last_list: Vec::new(),
        };
        let reference = SessionRef::parse(&text).map_err(|_| EngineError::NoMatch(text.clone()))?;
        if let SessionRef::Feature(feature) = &reference {
            // What is configured for an agent means its own session before those of others.
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
        trail: &mut Trail,
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
                None => self.adopt(&provider, &id, project, None).await?,
            };
            trail.done.extend(adopted);
            newest_at = Some(at);
            newest = Some(session);
        }
        if let Some(session) = &newest {
            let named = told(session);
            let step = format!("the newest one here is {named}");
            trail.step(StepKind::Directory, step);
            let text = format!("continuing session {named}");
            trail.decide(DecisionKind::Continued, text);
        } else {
            trail.step(StepKind::Directory, "there is none here");
            let text = "there is nothing to continue in this directory; starting a new session";
            trail.decide(DecisionKind::Session, text);
        }
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

    /// Makes a session with its first prompt, claimed by us, unless one has come to be that fits.
    pub(crate) async fn start(
        &self,
        request: &ChatRequest,
        provider: &ProviderId,
        prompt: &Message,
        unless: Option<&Filter>,
    ) -> Result<Started, EngineError> {
        let title = Title::from_prompt(&request.prompt);
        loop {
            let purpose = request.target.purpose();
            let new = NewSession {
                unless: unless.cloned(),
                ..self.new_session(&request.project, &title, purpose, provider)
            };
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
        purpose: Option<&Purpose>,
        provider: &ProviderId,
    ) -> NewSession {
        let at = (self.world.now)();
        NewSession {
            id: SessionId::at(at, (self.world.random)()),
            project: project.clone(),
            title: title.clone(),
            purpose: purpose.cloned(),
            provider: provider.clone(),
            at,
            unless: None,
        }
    }
}

/// A session with its title, for a person.
fn told(session: &Session) -> String {
    format!("{} ({})", session.id, session.title.as_str())
}

/// What is configured for an agent to go on with, in words.
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

/// What is to be made, in words.
fn new_one(request: &ChatRequest) -> String {
    match request.target.purpose() {
        Some(purpose) => format!("a session for {purpose}"),
        None => "a session".to_owned(),
    }
}

/// Whether two paths lead to the same directory, by whatever links.
fn is_same_directory(theirs: &str, ours: &str) -> bool {
    theirs == ours
        || Path::new(theirs)
            .canonicalize()
            .is_ok_and(|theirs| theirs == Path::new(ours))
}
