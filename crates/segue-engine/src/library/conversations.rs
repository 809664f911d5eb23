//! Native sessions and segue's own sessions: one list, and one form of reference.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::ops::ControlFlow;

use segue_catalog::{NativeSession, NativeTurn, ReadError, SkippedContent};
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

impl From<&NativeSession> for ConversationId {
    fn from(session: &NativeSession) -> Self {
        Self::Native(session.provider.clone(), session.head.id.clone())
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
        ConversationId::from(&self.session)
    }

    /// Returns the provider and the native id of the session.
    pub(crate) fn key(&self) -> (ProviderId, NativeId) {
        (self.session.provider.clone(), self.session.head.id.clone())
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
        self.unreadable.extend(unreadable);
        self.unreadable
            .retain(|(provider, _)| wanted.as_ref().is_none_or(|wanted| wanted == provider));
        self.unreadable.sort();
        self.unreadable.dedup();
    }

    /// Adds the conversations of another list without duplicates, and truncates the result to `limit`.
    pub fn merge(&mut self, other: Self, limit: u32) {
        let existing_ids: Vec<ConversationId> = self.rows.iter().map(Conversation::id).collect();
        let is_new = |row: &Conversation| !existing_ids.contains(&row.id());
        self.rows.extend(other.rows.into_iter().filter(is_new));
        self.has_more |= other.has_more;
        self.add_unreadable(&SessionFilter::default(), other.unreadable);
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
        let listing = self
            .context
            .store
            .list_sessions(filter, PageRequest::first(limit));
        let page = listing.await?;
        let mut rows = Vec::new();
        for session in page.sessions {
            rows.push(self.with_status(session).await?);
        }
        // Requests one row more than the limit, to learn whether more exist.
        let limit_plus_one = limit.saturating_add(1);
        let listing = self
            .list_unattached_natives(filter, limit_plus_one, freshness)
            .await?;
        rows.extend(native_rows(listing.natives));
        let mut conversations = ConversationList {
            rows,
            has_more: page.next.is_some(),
            unreadable: Vec::new(),
            index_error: listing.index_error,
        };
        conversations.add_unreadable(filter, listing.unreadable);
        conversations.sort_and_truncate(limit);
        Ok(conversations)
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
        let listing = self.context.natives.with_catalog(move |catalog| {
            let native_provider = wanted.provider.as_ref().map(storage_provider);
            let listed = catalog.list_sessions(native_provider.as_ref(), wanted.since);
            let mut natives = to_native_entries(listed.sessions);
            natives.retain(|native| {
                let updated_at = native.session.head.updated_at;
                wanted.since.is_none_or(|since| updated_at >= since)
                    && (wanted.project.is_none() || native.project == wanted.project)
            });
            (natives, format_unreadable(listed.unreadable))
        });
        listing.await
    }

    /// Adds native sessions from another source, except those that the list contains or that a session of segue uses.
    pub async fn add_unattached_natives(
        &self,
        conversations: &mut ConversationList,
        natives: Vec<NativeEntry>,
        limit: u32,
    ) -> Result<(), LibraryError> {
        let natives = self.filter_unattached(natives).await?;
        let additions = ConversationList {
            rows: native_rows(natives).collect(),
            ..ConversationList::default()
        };
        conversations.merge(additions, limit);
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
        let readable = self.context.natives.catalog.providers();
        let names: BTreeSet<&str> = agents.chain(readable).collect();
        names.into_iter().collect()
    }

    /// Returns those native sessions that no session of segue uses.
    pub(crate) async fn filter_unattached(
        &self,
        mut natives: Vec<NativeEntry>,
    ) -> Result<Vec<NativeEntry>, LibraryError> {
        let keys = natives.iter().map(NativeEntry::key);
        let attached = self.find_attached(keys.collect()).await?;
        natives.retain(|native| !attached.contains(&native.key()));
        Ok(natives)
    }

    /// Returns the keys of those native sessions that a session of segue uses.
    pub(crate) async fn find_attached(
        &self,
        mut keys: Vec<(ProviderId, NativeId)>,
    ) -> Result<HashSet<(ProviderId, NativeId)>, LibraryError> {
        if keys.is_empty() {
            return Ok(HashSet::new());
        }
        let over_acp = |(provider, id): &(ProviderId, NativeId)| {
            acp_provider(provider).map(|driver| (driver, id.clone()))
        };
        let acp_keys: Vec<_> = keys.iter().filter_map(over_acp).collect();
        keys.extend(acp_keys);
        let attached = self.context.store.attached_natives(&keys).await?;
        Ok(attached
            .into_iter()
            .map(|(driver, id)| (storage_provider(&driver), id))
            .collect())
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

fn native_rows(natives: Vec<NativeEntry>) -> impl Iterator<Item = Conversation> {
    let natives = natives.into_iter();
    natives.map(|native| Conversation::Native(Box::new(native)))
}

/// Formats the reasons why sessions of providers cannot be read.
pub(crate) fn format_unreadable(
    unreadable: Vec<(ProviderId, ReadError)>,
) -> Vec<(ProviderId, String)> {
    unreadable
        .into_iter()
        .map(|(provider, error)| (provider, error.format_error_chain()))
        .collect()
}
