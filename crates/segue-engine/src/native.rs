//! Native sessions: lookup, location, and detection of other programs that use them.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use segue_catalog::{
    Catalog, Mark, NativeSession, NativeTurn, ReadError, ReadStart, project_key, read_outline,
    read_tail, read_turns_from,
};
use segue_core::id::{NativeId, ProviderId};
use segue_providers::busy::{self, ProcessFilter, ProcessUsingSession};
use segue_providers::find_provider;
use tokio::sync::Mutex;

use crate::context::run_blocking;
use crate::{AccessError, ConversationId, NativeEntry, NativeOutline};

/// Access to the native sessions on this machine.
pub(crate) struct NativeSessions {
    pub(crate) catalog: Catalog,
    /// Cache of the last location at which each native session was found.
    locations: Mutex<HashMap<(ProviderId, NativeId), NativeSession>>,
}

/// Location of a native session.
pub(crate) enum NativeLocation {
    Found(Box<NativeSession>),
    Missing,
    /// A file that may contain the native session cannot be read.
    Unknown,
}

/// Reads a complete native session, and returns its outline.
pub(crate) fn read_native_outline(
    catalog: &Catalog,
    native: &NativeSession,
) -> Result<NativeOutline, ReadError> {
    let mut records = catalog.open_records(native, &ReadStart::Beginning)?;
    let outlined = read_outline(records.as_mut())?;
    Ok(NativeOutline {
        title: outlined.title().cloned(),
        compactions: outlined.compactions(),
        skipped: records.skipped(),
        turns: outlined.into_turns(),
    })
}

/// Passes the turns of an outline with their messages to `on_turn`, starting at index `from`. Reads one turn at a time,
/// so that even a huge session is never completely in memory.
pub(crate) fn read_native_turns(
    catalog: &Catalog,
    native: &NativeSession,
    outline: &NativeOutline,
    from: usize,
    on_turn: &mut dyn FnMut(usize, NativeTurn) -> ControlFlow<()>,
) -> Result<(), ReadError> {
    let mut records = catalog.open_records(native, &ReadStart::Beginning)?;
    read_turns_from(records.as_mut(), &outline.turns, from, on_turn)
}

/// Adds the project to each session. Many sessions share a directory, which is examined once.
pub(crate) fn to_native_entries(sessions: Vec<NativeSession>) -> Vec<NativeEntry> {
    let mut projects: HashMap<String, String> = HashMap::new();
    let to_entry = |session: NativeSession| {
        let project = session.head.cwd.as_ref().map(|cwd| {
            let key = projects.entry(cwd.clone());
            let key = key.or_insert_with(|| project_key(Path::new(cwd)).display().to_string());
            key.clone()
        });
        NativeEntry {
            session,
            project,
            details: None,
        }
    };
    sessions.into_iter().map(to_entry).collect()
}

/// Returns the provider that stores the native sessions of an agent: for `acp:NAME`, which runs `NAME` over ACP, it is
/// `NAME`.
pub(crate) fn storage_provider(provider: &ProviderId) -> ProviderId {
    let name = provider.as_str().strip_prefix("acp:");
    let native_provider = name.and_then(|name| ProviderId::parse(name).ok());
    native_provider.unwrap_or_else(|| provider.clone())
}

/// Returns the provider that runs an agent over ACP.
pub(crate) fn acp_provider(native_provider: &ProviderId) -> Option<ProviderId> {
    ProviderId::parse(&format!("acp:{native_provider}")).ok()
}

impl NativeSessions {
    pub(crate) fn new(catalog: Catalog) -> Self {
        Self {
            catalog,
            locations: Mutex::default(),
        }
    }

    /// Returns `true` if segue can read the session files of this provider.
    pub(crate) fn can_read_sessions(&self, provider: &ProviderId) -> bool {
        let native_provider = storage_provider(provider);
        self.catalog
            .providers()
            .any(|name| name == native_provider.as_str())
    }

    /// Finds the native sessions that a text may name. Fails if only unreadable ones match.
    pub(crate) async fn lookup_natives(&self, text: &str) -> Result<Vec<NativeEntry>, AccessError> {
        let text = text.to_owned();
        let lookup = self.with_catalog(move |catalog| catalog.lookup_id(&text));
        let listed = lookup.await;
        let mut unreadable = listed.unreadable.into_iter();
        match unreadable.next() {
            // A file with this name exists, but cannot be read.
            Some((_, error)) if listed.sessions.is_empty() => Err(error.into()),
            _ => Ok(to_native_entries(listed.sessions)),
        }
    }

    /// Finds a native session, in its agent's files or in the archive. Fails if only unreadable files match.
    pub(crate) async fn find_native(
        &self,
        provider: &ProviderId,
        id: &NativeId,
    ) -> Result<Option<NativeEntry>, AccessError> {
        let text = format!("{}:{id}", storage_provider(provider));
        let mut natives = self.lookup_natives(&text).await?.into_iter();
        Ok(natives.find(|native| native.session.head.id == *id))
    }

    /// Runs `work` on a blocking thread, because reading many small files would block all other tasks of this process.
    pub(crate) async fn with_catalog<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Catalog) -> T + Send + 'static,
    ) -> T {
        let catalog = self.catalog.clone();
        run_blocking(move || work(&catalog)).await
    }

    /// Returns a process that uses a native session without segue. `None` if there is no certain evidence of one.
    pub(crate) async fn find_foreign_process(
        &self,
        provider: &ProviderId,
        id: &NativeId,
    ) -> Option<ProcessUsingSession> {
        let agent = storage_provider(provider);
        let home = self.catalog.provider_home(&agent)?.to_owned();
        let key = (agent.clone(), id.clone());
        let cached = self.locations.lock().await.get(&key).cloned();
        let id = id.clone();
        let lookup = self.with_catalog(move |catalog| {
            let mut files: Vec<PathBuf> = Vec::new();
            let cached_path = cached.map(|native| native.location.path);
            let has_file_open = find_provider(agent.as_str())
                .is_some_and(|descriptor| descriptor.has_file_open_while_in_use);
            if !has_file_open {
                // The arguments of its processes show which session they use.
            } else if let Some(path) = cached_path.filter(|path| path.exists()) {
                files.push(path);
            } else {
                let mut sessions = catalog.lookup_id(&format!("{agent}:{id}")).sessions;
                sessions.retain(|session| session.head.id == id && !session.location.archived);
                files.extend(sessions.into_iter().map(|session| session.location.path));
            }
            busy::find_process_using_session(&id, &files, &home, ProcessFilter::Foreign)
        });
        lookup.await
    }

    /// Fails if another program uses a native session, because two programs that continue it would each write a
    /// different end.
    pub(crate) async fn ensure_no_foreign_process(
        &self,
        provider: &ProviderId,
        id: &NativeId,
    ) -> Result<(), AccessError> {
        match self.find_foreign_process(provider, id).await {
            Some(ProcessUsingSession { pid, program }) => Err(AccessError::InUse {
                id: ConversationId::Native(storage_provider(provider), id.clone()),
                pid,
                program,
            }),
            None => Ok(()),
        }
    }

    /// Returns `true` if the agent has a session, and not only the archive.
    pub(super) async fn is_live(&self, provider: &ProviderId, id: &NativeId) -> bool {
        let location = self.locate_native(provider, id, false).await;
        matches!(location, NativeLocation::Found(_))
    }

    /// Locates a native session. If `use_cache` is `true`, a cached location is returned without a search, which
    /// suffices if an agent of this engine uses the native session.
    pub(super) async fn locate_native(
        &self,
        provider: &ProviderId,
        id: &NativeId,
        use_cache: bool,
    ) -> NativeLocation {
        let key = (storage_provider(provider), id.clone());
        if use_cache && let Some(native) = self.locations.lock().await.get(&key) {
            return NativeLocation::Found(Box::new(native.clone()));
        }
        let text = format!("{}:{id}", key.0);
        let wanted = id.clone();
        let (found, unreadable) = self
            .with_catalog(move |catalog| {
                let mut natives = catalog.lookup_id(&text);
                natives
                    .sessions
                    .retain(|native| native.head.id == wanted && !catalog.is_only_archived(native));
                (natives.sessions.pop(), !natives.unreadable.is_empty())
            })
            .await;
        match found {
            Some(native) => {
                self.locations.lock().await.insert(key, native.clone());
                NativeLocation::Found(Box::new(native))
            }
            None if unreadable => NativeLocation::Unknown,
            None => NativeLocation::Missing,
        }
    }

    /// Returns the mark of the native record at which the last turn ended; `None` if it cannot be determined.
    pub(crate) async fn read_end_mark(
        &self,
        provider: &ProviderId,
        id: &NativeId,
    ) -> Option<String> {
        if !self.can_read_sessions(provider) {
            return None;
        }
        // The cached location is read first; a search follows only if the native session is no longer at that location.
        for use_cache in [true, false] {
            let NativeLocation::Found(native) = self.locate_native(provider, id, use_cache).await
            else {
                return None;
            };
            let end = self.with_catalog(move |catalog| catalog.find_last_mark(&native));
            if let Ok(Some(mark)) = end.await {
                return Some(mark.to_string());
            }
        }
        None
    }

    /// Returns `true` if the native session records that the agent compacted its own context after `mark`.
    pub(crate) async fn has_compacted_since(
        &self,
        provider: &ProviderId,
        id: &NativeId,
        mark: &str,
    ) -> bool {
        let Ok(mark) = mark.parse::<Mark>() else {
            return false;
        };
        let NativeLocation::Found(native) = self.locate_native(provider, id, true).await else {
            return false;
        };
        let tail = self.with_catalog(move |catalog| {
            let mut records = catalog
                .open_records(&native, &ReadStart::After(mark))
                .ok()?;
            read_tail(records.as_mut()).ok()
        });
        tail.await.is_some_and(|tail| tail.compacted)
    }
}
