//! Native sessions and segue's own sessions: one list, and one form of reference.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use segue_catalog::{
    Catalog, NativeSession, NativeTurn, Natives, Skipped, Start, outline, project_key, replay,
};
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::session::{Session, SessionRef, SessionStatus, Title};
use segue_store::{Filter, Page};

use crate::{Engine, EngineError, Fitting, Freshness, Known, Standpoint, Target};

/// Id of a conversation, which segue or an agent stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConversationId {
    /// A session of segue.
    Session(SessionId),
    /// A native session that segue has not adopted.
    Native(ProviderId, NativeId),
}

impl ConversationId {
    /// Returns the name of the program that stores the conversation: `segue` or the agent.
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
    /// Native session, as the catalog found it.
    pub session: NativeSession,
    /// Key of the project; `None` if the agent recorded no working directory.
    pub project: Option<String>,
    /// Details from the index; `None` if the session was read from its files.
    pub known: Option<Box<Known>>,
}

impl Native {
    /// Returns the id of the native session.
    #[must_use]
    pub fn id(&self) -> ConversationId {
        ConversationId::Native(self.session.provider.clone(), self.session.head.id.clone())
    }
}

/// A conversation: a session of segue, or a native session that segue has not adopted.
#[derive(Debug, Clone)]
pub enum Conversation {
    /// A session of segue, with its status.
    Session(Box<Session>, SessionStatus),
    /// A native session.
    Native(Box<Native>),
}

impl Conversation {
    /// Returns the id of the conversation.
    #[must_use]
    pub fn id(&self) -> ConversationId {
        match self {
            Self::Session(session, _) => ConversationId::Session(session.id.clone()),
            Self::Native(native) => native.id(),
        }
    }

    /// Returns the key of the conversation's project; `None` if it is unknown.
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

/// Outline of a native session, without the messages.
#[derive(Debug)]
pub struct Survey {
    /// Current title; `None` if no record sets one.
    pub title: Option<Title>,
    /// Turns, without their messages.
    pub turns: Vec<NativeTurn>,
    /// Number of times that the agent compacted its own context.
    pub compactions: u32,
    /// Records that could not be read.
    pub skipped: Skipped,
}

/// A list of conversations.
#[derive(Debug, Default)]
pub struct Conversations {
    /// Conversations, newest first.
    pub rows: Vec<Conversation>,
    /// Whether more conversations match.
    pub more: bool,
    /// Providers with sessions that could not be read, each with the reason.
    pub unreadable: Vec<(ProviderId, String)>,
    /// Reason why the index could not be used; `None` if it was used or not needed.
    pub without_index: Option<String>,
}

impl Conversations {
    /// Adds providers with sessions that could not be read, as far as they match the filter.
    pub fn lack(&mut self, filter: &Filter, unreadable: Vec<(ProviderId, String)>) {
        let wanted = filter.provider.as_ref().map(keeper);
        let fits = |provider: &ProviderId| wanted.as_ref().is_none_or(|wanted| wanted == provider);
        let unreadable = unreadable.into_iter();
        self.unreadable
            .extend(unreadable.filter(|(provider, _)| fits(provider)));
        self.unreadable.sort();
        self.unreadable.dedup();
    }

    /// Adds the conversations of another list without duplicates, and truncates the result to `limit`.
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

    /// Sorts the conversations, newest first, and truncates them to `limit`.
    pub fn sort(&mut self, limit: u32) {
        self.rows
            .sort_by_key(|row| std::cmp::Reverse(row.updated_at()));
        self.more |= self.rows.len() > limit as usize;
        self.rows.truncate(limit as usize);
    }
}

impl Engine {
    /// Lists the newest conversations that match a filter. A native session that a session of segue uses is listed only
    /// as that session.
    pub async fn conversations(
        &self,
        filter: &Filter,
        limit: u32,
        freshness: Freshness,
    ) -> Result<Conversations, EngineError> {
        let (own, more) = self.list(filter, Page::first(limit)).await?;
        // Requests one row more than the limit, to learn whether more exist.
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

    /// Returns the native sessions that match a filter and that no session of segue uses.
    pub(crate) async fn natives(
        &self,
        filter: &Filter,
    ) -> Result<(Vec<Native>, Vec<(ProviderId, String)>), EngineError> {
        let (natives, unreadable) = self.all_natives(filter).await;
        Ok((self.not_carried(natives).await?, unreadable))
    }

    /// Returns the native sessions that match a filter, and the providers with sessions that could not be read.
    pub(crate) async fn all_natives(
        &self,
        filter: &Filter,
    ) -> (Vec<Native>, Vec<(ProviderId, String)>) {
        // Only segue stores purposes and tags, so no native session matches a filter on these.
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

    /// Adds native sessions from another source, except those that the list contains or that a session of segue uses.
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

    /// Returns `true` if segue can drive the provider or read its sessions.
    #[must_use]
    pub fn knows(&self, provider: &ProviderId) -> bool {
        self.known_providers().contains(&provider.as_str())
    }

    /// Returns the providers that segue can drive, in order of preference.
    #[must_use]
    pub fn drivable(&self) -> Vec<&ProviderId> {
        self.agents.iter().map(|agent| agent.provider()).collect()
    }

    /// Returns the names of the providers that segue can drive or read, sorted.
    #[must_use]
    pub fn known_providers(&self) -> Vec<&str> {
        let agents = self.agents.iter().map(|agent| agent.provider().as_str());
        let mut names: Vec<&str> = agents.chain(self.catalog.providers()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns `true` if segue can read the session files of this provider.
    pub(crate) fn reads(&self, provider: &ProviderId) -> bool {
        let keeper = keeper(provider);
        self.catalog
            .providers()
            .any(|known| known == keeper.as_str())
    }

    /// Returns the provider that can resume the native sessions of `keeper`; `None` if the engine has no such agent.
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

    /// Finds the conversation that a typed reference names. `claude:ID` names a native session.
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

    /// Returns the reason why the file of a native session contains no conversation any more; `None` if the file does
    /// not exist.
    async fn why_not(&self, text: &str) -> Option<EngineError> {
        let text = text.to_owned();
        let why = self.with_catalog(move |catalog| catalog.why_not(&text));
        why.await.map(EngineError::from)
    }

    /// Returns `true` if the index contains a native session with this id, which the caller could not find.
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

    /// Finds the native sessions that a text may name. Fails if only unreadable ones match.
    pub(crate) async fn lookup_native(&self, text: &str) -> Result<Vec<Native>, EngineError> {
        let text = text.to_owned();
        let found = self.with_catalog(move |catalog| catalog.lookup(&text));
        let found = found.await;
        let mut unreadable = found.unreadable.into_iter();
        match unreadable.next() {
            // A file with this name exists, but cannot be read.
            Some((_, error)) if found.sessions.is_empty() => Err(error.into()),
            _ => Ok(placed(found.sessions)),
        }
    }

    /// Reads a complete native session, and returns its outline.
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

    /// Passes the turns of a survey with their messages to `tell`, starting at index `from`. Reads one turn at a time,
    /// so that even a huge session is never completely in memory.
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

    /// Returns the last turns of a native session of any length, and `true` if those are all turns.
    pub fn recent(
        &self,
        native: &NativeSession,
        turns: usize,
    ) -> Result<(Vec<NativeTurn>, bool), EngineError> {
        Ok(self.catalog.recent(native, turns)?)
    }

    /// Runs `work` on a blocking thread, because reading many small files would block all other tasks of this process.
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

/// Adds the project to each session. Many sessions share a directory, which is examined once.
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

/// Returns the provider that stores the native sessions of an agent: for `acp:NAME`, which runs `NAME` over ACP, it is
/// `NAME`.
pub(crate) fn keeper(provider: &ProviderId) -> ProviderId {
    let name = provider.as_str().strip_prefix("acp:");
    let keeper = name.and_then(|name| ProviderId::parse(name).ok());
    keeper.unwrap_or_else(|| provider.clone())
}

/// Returns the provider that runs an agent over ACP.
fn spoken_to(keeper: &ProviderId) -> Option<ProviderId> {
    ProviderId::parse(&format!("acp:{keeper}")).ok()
}
