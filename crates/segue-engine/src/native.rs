//! Native sessions beside segue's own: one list, one way to name them.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use segue_catalog::{
    Catalog, NativeSession, NativeTurn, Natives, Skipped, Start, outline, project_key, replay,
};
use segue_core::{NativeId, ProviderId, Session, SessionId, SessionRef, SessionStatus, Title};
use segue_store::{Filter, Page};

use crate::{Engine, EngineError, Fitting, Freshness, Known, Standpoint, Target};

/// What a conversation is called, whoever keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConversationId {
    /// One of segue's own.
    Session(SessionId),
    /// One that only an agent has.
    Native(ProviderId, NativeId),
}

impl ConversationId {
    /// Who keeps it.
    #[must_use]
    pub fn provider(&self) -> &str {
        match self {
            Self::Session(_) => "segue",
            Self::Native(provider, _) => provider.as_str(),
        }
    }
}

impl From<ConversationId> for Target {
    fn from(id: ConversationId) -> Self {
        match id {
            ConversationId::Session(id) => Self::Session(id),
            ConversationId::Native(provider, id) => Self::Native(provider, id),
        }
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(id) => write!(f, "{id}"),
            Self::Native(provider, id) => write!(f, "{provider}:{id}"),
        }
    }
}

/// A native session and the project it belongs to.
#[derive(Debug, Clone)]
pub struct Native {
    /// The session.
    pub session: NativeSession,
    /// What tells its project from others; none where the agent does not say where it worked.
    pub project: Option<String>,
    /// What the index knows of it beside that.
    pub known: Option<Box<Known>>,
}

impl Native {
    /// What it is called.
    #[must_use]
    pub fn id(&self) -> ConversationId {
        ConversationId::Native(self.session.provider.clone(), self.session.head.id.clone())
    }
}

/// A conversation: one of segue's own, or one that only an agent has.
#[derive(Debug, Clone)]
pub enum Conversation {
    /// A session of segue's, and where it stands.
    Session(Box<Session>, SessionStatus),
    /// A native session.
    Native(Box<Native>),
}

impl Conversation {
    /// What it is called.
    #[must_use]
    pub fn id(&self) -> ConversationId {
        match self {
            Self::Session(session, _) => ConversationId::Session(session.id.clone()),
            Self::Native(native) => native.id(),
        }
    }

    /// What tells the project it belongs to from others, where that is known.
    #[must_use]
    pub fn project(&self) -> Option<&str> {
        match self {
            Self::Session(session, _) => Some(&session.project.key),
            Self::Native(native) => native.project.as_deref(),
        }
    }

    fn updated_at(&self) -> jiff::Timestamp {
        match self {
            Self::Session(session, _) => session.updated_at,
            Self::Native(native) => native.session.head.updated_at,
        }
    }
}

/// What is in a native session, apart from what was said.
#[derive(Debug)]
pub struct Survey {
    /// What it is called by now, where a record says so.
    pub title: Option<Title>,
    /// Its turns, without their messages.
    pub turns: Vec<NativeTurn>,
    /// How often the agent made its own context smaller.
    pub compactions: u32,
    /// What could not be read.
    pub skipped: Skipped,
}

/// A list of conversations.
#[derive(Debug, Default)]
pub struct Conversations {
    /// The conversations, newest first.
    pub rows: Vec<Conversation>,
    /// Whether there are more.
    pub more: bool,
    /// Of which agents something could not be read, and why.
    pub unreadable: Vec<(ProviderId, String)>,
    /// Why the index could not be asked, where it should have been.
    pub without_index: Option<String>,
}

impl Conversations {
    /// Adds what could not be read, as far as it is of the agent that was asked for.
    pub fn lack(&mut self, filter: &Filter, unreadable: Vec<(ProviderId, String)>) {
        let wanted = filter.provider.as_ref().map(keeper);
        let fits = |provider: &ProviderId| wanted.as_ref().is_none_or(|wanted| wanted == provider);
        let unreadable = unreadable.into_iter();
        self.unreadable
            .extend(unreadable.filter(|(provider, _)| fits(provider)));
        self.unreadable.sort();
        self.unreadable.dedup();
    }

    /// Adds others, each of them once, and keeps so many.
    pub fn join(&mut self, others: Self, limit: u32) {
        let known: Vec<ConversationId> = self.rows.iter().map(Conversation::id).collect();
        let others_rows = others.rows.into_iter();
        self.rows
            .extend(others_rows.filter(|row| !known.contains(&row.id())));
        self.more |= others.more;
        self.unreadable.extend(others.unreadable);
        self.unreadable.sort();
        self.unreadable.dedup();
        self.without_index = self.without_index.take().or(others.without_index);
        self.sort(limit);
    }

    /// Puts the newest first, and keeps so many of them.
    pub fn sort(&mut self, limit: u32) {
        self.rows
            .sort_by_key(|row| std::cmp::Reverse(row.updated_at()));
        self.more |= self.rows.len() > limit as usize;
        self.rows.truncate(limit as usize);
    }
}

impl Engine {
    /// The newest conversations that fit a filter, each of them once: a native session that carries one of
    /// segue's own is part of that one.
    pub async fn conversations(
        &self,
        filter: &Filter,
        limit: u32,
        freshness: Freshness,
    ) -> Result<Conversations, EngineError> {
        let (own, more) = self.list(filter, Page::first(limit)).await?;
        // One more, so that it is known whether there are more.
        let some = limit.saturating_add(1);
        let indexed = self.indexed(filter, some, freshness).await?;
        let without_index = indexed.as_ref().err().cloned().flatten();
        let (natives, unreadable) = match indexed {
            Ok(indexed) => (indexed.natives, indexed.unreadable),
            Err(_) => self.natives(filter).await?,
        };
        let own = own
            .into_iter()
            .map(|(session, status)| Conversation::Session(Box::new(session), status));
        let natives = natives
            .into_iter()
            .map(|native| Conversation::Native(Box::new(native)));
        let mut conversations = Conversations {
            rows: own.chain(natives).collect(),
            more: more.is_some(),
            unreadable: Vec::new(),
            without_index,
        };
        conversations.lack(filter, unreadable);
        conversations.sort(limit);
        Ok(conversations)
    }

    /// The native sessions that fit a filter and carry none of segue's own.
    pub(crate) async fn natives(
        &self,
        filter: &Filter,
    ) -> Result<(Vec<Native>, Vec<(ProviderId, String)>), EngineError> {
        let (natives, unreadable) = self.all_natives(filter).await;
        Ok((self.not_carried(natives).await?, unreadable))
    }

    /// The native sessions that fit a filter.
    pub(crate) async fn all_natives(
        &self,
        filter: &Filter,
    ) -> (Vec<Native>, Vec<(ProviderId, String)>) {
        // What a native session is for, only segue knows.
        if filter.is_own() {
            return (Vec::new(), Vec::new());
        }
        let wanted = filter.clone();
        self.with_catalog(move |catalog| {
            let keeper = wanted.provider.as_ref().map(keeper);
            let found = catalog.sessions(keeper.as_ref(), wanted.since);
            let fits = |native: &Native| {
                let head = &native.session.head;
                let project = wanted.project.as_ref();
                wanted.since.is_none_or(|since| head.updated_at >= since)
                    && project.is_none_or(|project| native.project.as_ref() == Some(project))
            };
            let unreadable = causes(&found);
            let natives = placed(found.sessions).into_iter().filter(fits);
            (natives.collect::<Vec<_>>(), unreadable)
        })
        .await
    }

    /// Adds native sessions that were found in another way, unless they are there.
    pub async fn add_natives(
        &self,
        conversations: &mut Conversations,
        natives: Vec<Native>,
        limit: u32,
    ) -> Result<(), EngineError> {
        let known: Vec<_> = conversations.rows.iter().map(Conversation::id).collect();
        for native in self.not_carried(natives).await? {
            if !known.contains(&native.id()) {
                let row = Conversation::Native(Box::new(native));
                conversations.rows.push(row);
            }
        }
        conversations.sort(limit);
        Ok(())
    }

    /// Whether anybody is called so: an agent that can be driven, or one whose sessions can be read.
    #[must_use]
    pub fn knows(&self, provider: &ProviderId) -> bool {
        self.known_providers().contains(&provider.as_str())
    }

    /// Everybody who can be driven, the preferred ones first.
    #[must_use]
    pub fn drivable(&self) -> Vec<&ProviderId> {
        self.agents.iter().map(|agent| agent.provider()).collect()
    }

    /// Everybody who can be driven or read, by name.
    #[must_use]
    pub fn known_providers(&self) -> Vec<&str> {
        let agents = self.agents.iter().map(|agent| agent.provider().as_str());
        let mut names: Vec<&str> = agents.chain(self.catalog.providers()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether the files of this agent's sessions can be read.
    pub(crate) fn reads(&self, provider: &ProviderId) -> bool {
        let keeper = keeper(provider);
        self.catalog
            .providers()
            .any(|known| known == keeper.as_str())
    }

    /// The agent that can be driven to go on with the native sessions of `keeper`.
    pub(crate) fn driver(&self, keeper: &ProviderId) -> Option<ProviderId> {
        let candidates = [Some(keeper.clone()), spoken_to(keeper)];
        let mut drivers = candidates.into_iter().flatten();
        drivers.find(|provider| self.agent(provider).is_ok())
    }

    pub(crate) async fn not_carried(
        &self,
        natives: Vec<Native>,
    ) -> Result<Vec<Native>, EngineError> {
        let mut asked = Vec::with_capacity(natives.len() * 2);
        for native in &natives {
            let NativeSession { provider, head, .. } = &native.session;
            asked.push((provider.clone(), head.id.clone()));
            asked.extend(spoken_to(provider).map(|driver| (driver, head.id.clone())));
        }
        let carried: HashSet<(ProviderId, NativeId)> = if asked.is_empty() {
            HashSet::new()
        } else {
            let carried = self.store.carried(&asked).await?.into_iter();
            carried.map(|(driver, id)| (keeper(&driver), id)).collect()
        };
        let free = |native: &Native| {
            let session = &native.session;
            !carried.contains(&(session.provider.clone(), session.head.id.clone()))
        };
        Ok(natives.into_iter().filter(free).collect())
    }

    /// The conversation that a typed reference means. `claude:ID` names one of an agent's own.
    pub async fn find_any(
        &self,
        reference: &SessionRef,
        standpoint: &Standpoint,
    ) -> Result<Conversation, EngineError> {
        if matches!(reference, SessionRef::Latest) {
            let here = Filter {
                project: Some(standpoint.project.key.clone()),
                ..Filter::default()
            };
            let newest = self
                .conversations(&here, 1, Freshness::Fresh)
                .await?
                .rows
                .into_iter()
                .next();
            return newest.ok_or_else(|| EngineError::NoMatch("latest".into()));
        }
        let text = match self.find_own(reference, standpoint).await {
            Ok(session) => {
                let status = self.status(&session).await?;
                return Ok(Conversation::Session(Box::new(session), status));
            }
            Err(EngineError::NoMatch(text)) => text,
            Err(EngineError::OnlyNative(id)) => id.to_string(),
            Err(error) => return Err(error),
        };
        let mut natives = self.lookup_native(&text).await?;
        match natives.len() {
            0 if matches!(reference, SessionRef::Number(_)) => {
                Err(self.why_not(&text).await.unwrap_or(EngineError::Gone(text)))
            }
            0 if self.was_there(&text) => Err(self
                .why_not(&text)
                .await
                .unwrap_or(EngineError::Deleted(text))),
            0 => Err(EngineError::NoMatch(text)),
            1 => Ok(Conversation::Native(Box::new(natives.remove(0)))),
            _ => Err(EngineError::Ambiguous {
                text,
                candidates: natives.iter().map(Fitting::from).collect(),
            }),
        }
    }

    /// Why the file of a native session that was there before is no conversation now, if the file still is there.
    async fn why_not(&self, text: &str) -> Option<EngineError> {
        let text = text.to_owned();
        let why = self.with_catalog(move |catalog| catalog.why_not(&text));
        why.await.map(EngineError::from)
    }

    /// Whether the index remembers a native session of this name that is not there any more.
    fn was_there(&self, text: &str) -> bool {
        let (provider, id) = match text.split_once(':') {
            Some((provider, id)) => (ProviderId::parse(provider).ok(), id),
            None => (None, text),
        };
        let Ok(id) = NativeId::parse(id) else {
            return false;
        };
        let readers = self.catalog.providers();
        let readers = readers.filter_map(|name| ProviderId::parse(name).ok());
        let providers: Vec<_> = provider.map_or_else(|| readers.collect(), |one| vec![one]);
        self.index.as_ref().is_some_and(|index| {
            let known = |provider: &ProviderId| matches!(index.row(provider, &id), Ok(Some(_)));
            providers.iter().any(known)
        })
    }

    /// The native sessions that a text may mean.
    pub(crate) async fn lookup_native(&self, text: &str) -> Result<Vec<Native>, EngineError> {
        let text = text.to_owned();
        let found = self.with_catalog(move |catalog| catalog.lookup(&text));
        let found = found.await;
        let mut unreadable = found.unreadable.into_iter();
        match unreadable.next() {
            // It is there, as far as its name tells.
            Some((_, error)) if found.sessions.is_empty() => Err(error.into()),
            _ => Ok(placed(found.sessions)),
        }
    }

    /// Reads a native session through, and keeps only where its turns are.
    pub fn survey(&self, native: &NativeSession) -> Result<Survey, EngineError> {
        let mut records = self.catalog.records(native, &Start::Beginning)?;
        let outlined = outline(records.as_mut())?;
        Ok(Survey {
            title: outlined.title().cloned(),
            compactions: outlined.compactions(),
            skipped: records.skipped(),
            turns: outlined.into_turns(),
        })
    }

    /// Tells the turns of a survey, from one of them on, with what was said: one at a time, so that even a huge
    /// session is never in memory.
    pub fn replay(
        &self,
        native: &NativeSession,
        survey: &Survey,
        from: usize,
        tell: &mut dyn FnMut(usize, NativeTurn) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        let mut records = self.catalog.records(native, &Start::Beginning)?;
        Ok(replay(records.as_mut(), &survey.turns, from, tell)?)
    }

    /// The last turns of a native session, however long it is, and whether those are all.
    pub fn recent(
        &self,
        native: &NativeSession,
        turns: usize,
    ) -> Result<(Vec<NativeTurn>, bool), EngineError> {
        Ok(self.catalog.recent(native, turns)?)
    }

    /// Reading many small files would hold up everything else in this process.
    pub(crate) async fn with_catalog<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Catalog) -> T + Send + 'static,
    ) -> T {
        let catalog = self.catalog.clone();
        match tokio::task::spawn_blocking(move || work(&catalog)).await {
            Ok(outcome) => outcome,
            // The task is never cancelled, so it can only have panicked.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

/// Sessions with the projects they belong to. Many share a directory, which is looked at once.
fn placed(sessions: Vec<NativeSession>) -> Vec<Native> {
    let mut projects: HashMap<String, String> = HashMap::new();
    let place = |session: NativeSession| {
        let project = session.head.cwd.as_ref().map(|cwd| {
            let key = projects.entry(cwd.clone());
            let key = key.or_insert_with(|| project_key(Path::new(cwd)).display().to_string());
            key.clone()
        });
        Native {
            session,
            project,
            known: None,
        }
    };
    sessions.into_iter().map(place).collect()
}

fn causes(natives: &Natives) -> Vec<(ProviderId, String)> {
    let cause = |(provider, error): &(ProviderId, segue_catalog::ReadError)| {
        let why = std::error::Error::source(error).map(|why| format!(": {why}"));
        (
            provider.clone(),
            format!("{error}{}", why.unwrap_or_default()),
        )
    };
    natives.unreadable.iter().map(cause).collect()
}

/// Who keeps the native sessions of an agent: `acp:NAME` is `NAME`, spoken to over its protocol.
pub(crate) fn keeper(provider: &ProviderId) -> ProviderId {
    let name = provider.as_str().strip_prefix("acp:");
    let keeper = name.and_then(|name| ProviderId::parse(name).ok());
    keeper.unwrap_or_else(|| provider.clone())
}

/// What an agent is called when it is spoken to over its protocol.
fn spoken_to(keeper: &ProviderId) -> Option<ProviderId> {
    ProviderId::parse(&format!("acp:{keeper}")).ok()
}
