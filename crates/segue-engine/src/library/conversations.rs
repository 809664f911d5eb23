//! Native sessions and segue's own sessions: one list, and one form of reference.

use std::collections::HashSet;
use std::fmt;
use std::ops::ControlFlow;

use segue_catalog::{NativeSession, NativeSessionList, NativeTurn, SkippedContent};
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::session::{Session, SessionStatus, Title};
use segue_store::{PageRequest, SessionFilter};

use crate::library::Library;
use crate::native::{
    acp_provider, read_native_outline, read_native_turns, storage_provider, to_native_entries,
};
use crate::{AgentRegistry, Freshness, IndexedDetails, LibraryError, Target};

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
pub struct NativeEntry {
    /// Native session, as the catalog found it.
    pub session: NativeSession,
    /// Key of the project; `None` if the agent recorded no working directory.
    pub project: Option<String>,
    /// Details from the index; `None` if the session was read from its files.
    pub details: Option<Box<IndexedDetails>>,
}

impl NativeEntry {
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
    Native(Box<NativeEntry>),
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
pub struct NativeOutline {
    /// Current title; `None` if no record sets one.
    pub title: Option<Title>,
    /// Turns, without their messages.
    pub turns: Vec<NativeTurn>,
    /// Number of times that the agent compacted its own context.
    pub compactions: u32,
    /// Records that could not be read.
    pub skipped: SkippedContent,
}

/// A list of conversations.
#[derive(Debug, Default)]
pub struct ConversationList {
    /// Conversations, newest first.
    pub rows: Vec<Conversation>,
    /// Whether more conversations match.
    pub has_more: bool,
    /// Providers with sessions that could not be read, each with the reason.
    pub unreadable: Vec<(ProviderId, String)>,
    /// Reason why the index could not be used; `None` if it was used or not needed.
    pub index_error: Option<String>,
}

impl ConversationList {
    /// Adds providers with sessions that could not be read, as far as they match the filter.
    pub fn add_unreadable(
        &mut self,
        filter: &SessionFilter,
        unreadable: Vec<(ProviderId, String)>,
    ) {
        let wanted = filter.provider.as_ref().map(storage_provider);
        let fits = |provider: &ProviderId| wanted.as_ref().is_none_or(|wanted| wanted == provider);
        let unreadable = unreadable.into_iter();
        self.unreadable
            .extend(unreadable.filter(|(provider, _)| fits(provider)));
        self.unreadable.sort();
        self.unreadable.dedup();
    }

    /// Adds the conversations of another list without duplicates, and truncates the result to `limit`.
    pub fn merge(&mut self, other: Self, limit: u32) {
        let existing_ids: Vec<ConversationId> = self.rows.iter().map(Conversation::id).collect();
        let other_rows = other.rows.into_iter();
        self.rows
            .extend(other_rows.filter(|row| !existing_ids.contains(&row.id())));
        self.has_more |= other.has_more;
        self.unreadable.extend(other.unreadable);
        self.unreadable.sort();
        self.unreadable.dedup();
        self.index_error = self.index_error.take().or(other.index_error);
        self.sort_and_truncate(limit);
    }

    /// Sorts the conversations, newest first, and truncates them to `limit`.
    pub fn sort_and_truncate(&mut self, limit: u32) {
        self.rows
            .sort_by_key(|row| std::cmp::Reverse(row.updated_at()));
        self.has_more |= self.rows.len() > limit as usize;
        self.rows.truncate(limit as usize);
    }
}

impl Library {
    /// Lists the newest conversations that match a filter. A native session that a session of segue uses is listed only
    /// as that session.
    pub async fn list_conversations(
        &self,
        filter: &SessionFilter,
        limit: u32,
        freshness: Freshness,
    ) -> Result<ConversationList, LibraryError> {
        let (own, more) = self
            .list_sessions(filter, PageRequest::first(limit))
            .await?;
        // Requests one row more than the limit, to learn whether more exist.
        let limit_plus_one = limit.saturating_add(1);
        let indexed = self
            .list_indexed_natives(filter, limit_plus_one, freshness)
            .await?;
        let index_error = indexed.as_ref().err().cloned().flatten();
        let (natives, unreadable) = match indexed {
            Ok(indexed) => (indexed.natives, indexed.unreadable),
            Err(_) => self.list_unattached_natives(filter).await?,
        };
        let own = own
            .into_iter()
            .map(|(session, status)| Conversation::Session(Box::new(session), status));
        let natives = natives
            .into_iter()
            .map(|native| Conversation::Native(Box::new(native)));
        let mut conversations = ConversationList {
            rows: own.chain(natives).collect(),
            has_more: more.is_some(),
            unreadable: Vec::new(),
            index_error,
        };
        conversations.add_unreadable(filter, unreadable);
        conversations.sort_and_truncate(limit);
        Ok(conversations)
    }

    /// Returns the native sessions that match a filter and that no session of segue uses.
    pub(crate) async fn list_unattached_natives(
        &self,
        filter: &SessionFilter,
    ) -> Result<(Vec<NativeEntry>, Vec<(ProviderId, String)>), LibraryError> {
        let (natives, unreadable) = self.list_natives(filter).await;
        Ok((self.filter_unattached(natives).await?, unreadable))
    }

    /// Returns the native sessions that match a filter, and the providers with sessions that could not be read.
    pub(crate) async fn list_natives(
        &self,
        filter: &SessionFilter,
    ) -> (Vec<NativeEntry>, Vec<(ProviderId, String)>) {
        // Only segue stores purposes and tags, so no native session matches a filter on these.
        if filter.is_own_sessions_only() {
            return (Vec::new(), Vec::new());
        }
        let wanted = filter.clone();
        self.context
            .natives
            .with_catalog(move |catalog| {
                let native_provider = wanted.provider.as_ref().map(storage_provider);
                let listed = catalog.list_sessions(native_provider.as_ref(), wanted.since);
                let fits = |native: &NativeEntry| {
                    let head = &native.session.head;
                    let project = wanted.project.as_ref();
                    wanted.since.is_none_or(|since| head.updated_at >= since)
                        && project.is_none_or(|project| native.project.as_ref() == Some(project))
                };
                let unreadable = unreadable_reasons(&listed);
                let natives = to_native_entries(listed.sessions).into_iter().filter(fits);
                (natives.collect::<Vec<_>>(), unreadable)
            })
            .await
    }

    /// Adds native sessions from another source, except those that the list contains or that a session of segue uses.
    pub async fn add_unattached_natives(
        &self,
        conversations: &mut ConversationList,
        natives: Vec<NativeEntry>,
        limit: u32,
    ) -> Result<(), LibraryError> {
        let existing_ids: Vec<_> = conversations.rows.iter().map(Conversation::id).collect();
        for native in self.filter_unattached(natives).await? {
            if !existing_ids.contains(&native.id()) {
                let row = Conversation::Native(Box::new(native));
                conversations.rows.push(row);
            }
        }
        conversations.sort_and_truncate(limit);
        Ok(())
    }

    /// Returns the agents that the engine drives.
    #[must_use]
    pub fn agents(&self) -> &AgentRegistry {
        &self.context.agents
    }

    /// Returns `true` if segue can drive the provider or read its sessions.
    #[must_use]
    pub fn is_supported_provider(&self, provider: &ProviderId) -> bool {
        self.supported_providers().contains(&provider.as_str())
    }

    /// Returns the names of the providers that segue can drive or read, sorted.
    #[must_use]
    pub fn supported_providers(&self) -> Vec<&str> {
        let agents = self.context.agents.providers().map(ProviderId::as_str);
        let mut names: Vec<&str> = agents
            .chain(self.context.natives.catalog.providers())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    pub(crate) async fn filter_unattached(
        &self,
        natives: Vec<NativeEntry>,
    ) -> Result<Vec<NativeEntry>, LibraryError> {
        let mut keys = Vec::with_capacity(natives.len() * 2);
        for native in &natives {
            let NativeSession { provider, head, .. } = &native.session;
            keys.push((provider.clone(), head.id.clone()));
            keys.extend(acp_provider(provider).map(|driver| (driver, head.id.clone())));
        }
        let attached: HashSet<(ProviderId, NativeId)> = if keys.is_empty() {
            HashSet::new()
        } else {
            let pairs = self
                .context
                .store
                .attached_natives(&keys)
                .await?
                .into_iter();
            pairs
                .map(|(driver, id)| (storage_provider(&driver), id))
                .collect()
        };
        let is_unattached = |native: &NativeEntry| {
            let session = &native.session;
            !attached.contains(&(session.provider.clone(), session.head.id.clone()))
        };
        Ok(natives.into_iter().filter(is_unattached).collect())
    }

    /// Reads a complete native session, and returns its outline. Blocks the calling thread, as all readers of native
    /// sessions below do.
    pub fn read_outline(&self, native: &NativeSession) -> Result<NativeOutline, LibraryError> {
        Ok(read_native_outline(&self.context.natives.catalog, native)?)
    }

    /// Passes the turns of an outline with their messages to `on_turn`, starting at index `from`. Reads one turn at a
    /// time, so that even a huge session is never completely in memory.
    pub fn read_turns_from(
        &self,
        native: &NativeSession,
        outline: &NativeOutline,
        from: usize,
        on_turn: &mut dyn FnMut(usize, NativeTurn) -> ControlFlow<()>,
    ) -> Result<(), LibraryError> {
        let catalog = &self.context.natives.catalog;
        Ok(read_native_turns(catalog, native, outline, from, on_turn)?)
    }

    /// Returns the last turns of a native session of any length, and `true` if those are all turns.
    pub fn read_recent_native_turns(
        &self,
        native: &NativeSession,
        turns: usize,
    ) -> Result<(Vec<NativeTurn>, bool), LibraryError> {
        let catalog = &self.context.natives.catalog;
        Ok(catalog.read_recent_turns(native, turns)?)
    }
}

fn unreadable_reasons(natives: &NativeSessionList) -> Vec<(ProviderId, String)> {
    let reason_for = |(provider, error): &(ProviderId, segue_catalog::ReadError)| {
        let source = std::error::Error::source(error).map(|source| format!(": {source}"));
        (
            provider.clone(),
            format!("{error}{}", source.unwrap_or_default()),
        )
    };
    natives.unreadable.iter().map(reason_for).collect()
}
