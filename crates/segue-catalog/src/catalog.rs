//! Catalog of the native sessions of all agents.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use jiff::Timestamp;
use segue_core::id::{NativeId, ProviderId};

use crate::index::{self, SearchableText};
use crate::session_head::{no_conversation_error, read_session_head};
use crate::{
    Archive, ArchiveError, ArchiveOutcome, ArchivedSession, Mark, NativeSessionKind, NativeTurn,
    ReadError, ReadStart, Reader, Records, SessionArtifacts, SessionHead, SessionLocation,
    SessionScan, Trash, trash,
};

/// A native session with its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeSession {
    /// Agent to which the session belongs.
    pub provider: ProviderId,
    /// Location of the session on disk.
    pub location: SessionLocation,
    /// Metadata of the session.
    pub head: SessionHead,
}

/// Native sessions, and the errors of the search for them.
#[derive(Debug, Default)]
pub struct NativeSessionList {
    /// Conversations, newest first.
    pub sessions: Vec<NativeSession>,
    /// Read errors, each with its agent.
    pub unreadable: Vec<(ProviderId, ReadError)>,
}

/// The native sessions on this machine.
#[derive(Clone, Default)]
pub struct Catalog {
    readers: Vec<(ProviderId, Arc<dyn Reader>)>,
    archive: Option<Archive>,
}

impl Catalog {
    /// Creates a catalog of the sessions that these readers find. Ignores readers whose provider name is not valid.
    #[must_use]
    pub fn new(readers: Vec<Arc<dyn Reader>>) -> Self {
        let with_provider = |reader: Arc<dyn Reader>| {
            let provider = ProviderId::parse(reader.provider()).ok()?;
            Some((provider, reader))
        };
        Self {
            readers: readers.into_iter().filter_map(with_provider).collect(),
            archive: None,
        }
    }

    /// Adds an archive, so that the catalog includes sessions that only this archive has.
    #[must_use]
    pub fn with_archive(mut self, archive: Archive) -> Self {
        self.archive = Some(archive);
        self
    }

    /// Returns the names of the agents whose sessions can be read.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.readers.iter().map(|(name, _)| name.as_str())
    }

    /// Returns all conversations. `provider` restricts them to one agent, `since` to those with activity at or after
    /// that time.
    #[must_use]
    pub fn list_sessions(
        &self,
        provider: Option<&ProviderId>,
        since: Option<Timestamp>,
    ) -> NativeSessionList {
        // Files that were not written since then are not opened.
        self.collect_sessions(provider, "", |location| {
            since.is_none_or(|since| location.modified >= since)
        })
    }

    /// Returns the conversations whose id begins with `text`, or only the exact match if one exists. `claude:ID`
    /// restricts the search to one agent.
    #[must_use]
    pub fn lookup_id(&self, text: &str) -> NativeSessionList {
        let (provider, text) = self.split_provider(text);
        let mut natives =
            self.collect_sessions(provider, text, |location| location.id_hint.can_match(text));
        let sessions = &mut natives.sessions;
        sessions.retain(|session| session.head.id.as_str().starts_with(text));
        if sessions
            .iter()
            .any(|session| session.head.id.as_str() == text)
        {
            sessions.retain(|session| session.head.id.as_str() == text);
        }
        // A read error matters only if its file may be the session that the caller looks for.
        let mentions_id = |path: &Path| path.to_string_lossy().contains(text);
        natives
            .unreadable
            .retain(|(_, error)| mentions_id(error.path()));
        natives
    }

    /// Returns the error for a session whose file still exists but contains no conversation any more. `None` if no such
    /// file exists. `id_hint` is a complete id, optionally as `claude:ID`.
    #[must_use]
    pub fn find_read_error(&self, id: &str) -> Option<ReadError> {
        let (provider, id) = self.split_provider(id);
        let readers = self.readers.iter();
        let mut readers = readers.filter(|(name, _)| provider.is_none_or(|wanted| wanted == name));
        readers.find_map(|(_, reader)| {
            let locations = reader.scan_sessions().locations.into_iter();
            let mut locations = locations.filter(|found| found.id_hint.can_match(id));
            locations.find_map(
                |location| match read_session_head(reader.as_ref(), &location) {
                    Ok(head) if head.kind == NativeSessionKind::Empty => {
                        Some(no_conversation_error(&location))
                    }
                    Ok(_) => None,
                    Err(error) => Some(error),
                },
            )
        })
    }

    /// Splits a text such as `claude:ID` into agent and id. The agent is `None` if the text names no known agent.
    fn split_provider<'a>(&self, text: &'a str) -> (Option<&ProviderId>, &'a str) {
        let split = text
            .split_once(':')
            .and_then(|(name, id)| Some((self.find_provider(name)?, id)));
        split.map_or((None, text), |(name, id)| (Some(name), id))
    }

    /// Returns the readers, each with the name of its agent.
    pub(crate) fn readers(&self) -> impl Iterator<Item = (&str, &dyn Reader)> {
        let readers = self.readers.iter();
        readers.map(|(name, reader)| (name.as_str(), reader.as_ref()))
    }

    /// Finds the sessions of all agents, in parallel.
    pub(crate) fn scan_providers(&self) -> Vec<(ProviderId, SessionScan)> {
        map_in_parallel(&self.readers, 1, |(name, reader)| {
            (name.clone(), reader.scan_sessions())
        })
    }

    /// Returns the locations of archived copies, of agents for which the catalog has a reader.
    pub(crate) fn archived_locations(&self) -> Vec<(ProviderId, SessionLocation)> {
        let all = self.archive.as_ref().map(Archive::list_locations);
        let readable = |(provider, _): &(ProviderId, SessionLocation)| {
            self.find_provider(provider.as_str()).is_some()
        };
        all.into_iter().flatten().filter(readable).collect()
    }

    /// Returns the head that was saved when a session was copied. It may contain more than the copy, for example the
    /// working directory.
    pub(crate) fn archived_head(
        &self,
        provider: &ProviderId,
        id: &NativeId,
    ) -> Option<SessionHead> {
        let entry = self.archive.as_ref()?.find_entry(provider, id).ok()??;
        Some(entry.manifest.head)
    }

    /// Returns the agent of this name. `None` if the catalog has no reader for it.
    fn find_provider(&self, name: &str) -> Option<&ProviderId> {
        let mut names = self.readers.iter().map(|(provider, _)| provider);
        names.find(|provider| provider.as_str() == name)
    }

    /// Returns the archived sessions whose ids begin with `id_prefix`. Reads no other copies.
    fn list_archived(
        &self,
        provider: Option<&ProviderId>,
        id_prefix: &str,
    ) -> Vec<ArchivedSession> {
        let archive = self.archive.as_ref();
        archive.map_or_else(Vec::new, |archive| {
            archive.lookup_id_prefix(provider, id_prefix)
        })
    }

    fn collect_sessions(
        &self,
        provider: Option<&ProviderId>,
        id_prefix: &str,
        is_wanted: impl Fn(&SessionLocation) -> bool,
    ) -> NativeSessionList {
        let mut natives = NativeSessionList::default();
        let mut candidates = Vec::new();
        for (name, reader) in &self.readers {
            if provider.is_some_and(|provider| provider != name) {
                continue;
            }
            let scan = reader.scan_sessions();
            let unreadable = scan.unreadable.into_iter();
            natives
                .unreadable
                .extend(unreadable.map(|error| (name.clone(), error)));
            let locations = scan.locations.into_iter().filter(&is_wanted);
            candidates.extend(locations.map(|location| (name, reader.as_ref(), location)));
        }
        let heads = map_in_parallel(
            &candidates,
            MIN_FILES_PER_THREAD,
            |(_, reader, location)| read_session_head(*reader, location),
        );
        let mut by_id: HashMap<(&ProviderId, NativeId), NativeSession> = HashMap::new();
        for ((name, _, location), head) in candidates.into_iter().zip(heads) {
            match head {
                Ok(head) if head.kind == NativeSessionKind::Conversation => {
                    let session = NativeSession {
                        provider: name.clone(),
                        location,
                        head,
                    };
                    // An agent may write one conversation into two files, one of them almost empty. The larger file
                    // counts.
                    let key = (name, session.head.id.clone());
                    let is_at_least_as_large =
                        |existing: &NativeSession| existing.location.size >= session.location.size;
                    if !by_id.get(&key).is_some_and(is_at_least_as_large) {
                        by_id.insert(key, session);
                    }
                }
                // Other files in the agent's directories are not errors.
                Ok(_) | Err(ReadError::NotASession { .. }) => {}
                Err(error) => natives.unreadable.push((name.clone(), error)),
            }
        }
        for (provider, error) in &natives.unreadable {
            error.log(provider);
        }
        // Sessions that their agent deleted may still be in the archive.
        for entry in self.list_archived(provider, id_prefix) {
            let session = entry.native_session();
            let Some(name) = self.find_provider(session.provider.as_str()) else {
                continue;
            };
            let key = (name, session.head.id.clone());
            if is_wanted(&session.location) && !by_id.contains_key(&key) {
                by_id.insert(key, session);
            }
        }
        natives.sessions.extend(by_id.into_values());
        let newest_first = |session: &NativeSession| {
            let id = session.head.id.as_str().to_owned();
            (std::cmp::Reverse(session.head.updated_at), id)
        };
        natives.sessions.sort_by_cached_key(newest_first);
        natives
    }

    fn reader_for(&self, session: &NativeSession) -> Result<&Arc<dyn Reader>, ReadError> {
        let is_provider = |(name, _): &&(ProviderId, _)| *name == session.provider;
        match self.readers.iter().find(is_provider) {
            Some((_, reader)) => Ok(reader),
            None => Err(ReadError::not_a_session(
                &session.location.path,
                format!("reading `{}` sessions is not supported", session.provider),
            )),
        }
    }

    /// Returns the reader of a session and the location at which it can be read. Unpacks a session that only the
    /// archive has.
    pub(crate) fn resolve_location(
        &self,
        session: &NativeSession,
    ) -> Result<(Arc<dyn Reader>, SessionLocation), ReadError> {
        let reader = self.reader_for(session)?;
        let Some(archive) = self
            .archive
            .as_ref()
            .filter(|archive| archive.is_source_of(session))
        else {
            return Ok((Arc::clone(reader), session.location.clone()));
        };
        let entry = archive.find_entry(&session.provider, &session.head.id);
        let unpacked = entry.and_then(|entry| match entry {
            Some(entry) => archive.unpack(&entry, reader.as_ref()),
            None => Err(ArchiveError::NotFound(session.head.id.to_string())),
        });
        unpacked.map_err(|error| match error {
            ArchiveError::Read(error) => error,
            error => ReadError::io(&session.location.path, std::io::Error::other(error)),
        })
    }

    /// Opens the records of a session.
    pub fn open_records(
        &self,
        session: &NativeSession,
        start: &ReadStart,
    ) -> Result<Box<dyn Records>, ReadError> {
        let (reader, location) = self.resolve_location(session)?;
        reader.open_records(&location, start)
    }

    /// Returns the mark of the last meaningful record of a session. `None` if it has none.
    pub fn find_last_mark(&self, session: &NativeSession) -> Result<Option<Mark>, ReadError> {
        let (reader, location) = self.resolve_location(session)?;
        reader.find_last_mark(&location)
    }

    /// Reads the searchable text of the turn that begins after a mark, or of the first turn if there is no mark.
    pub fn read_turn_text(
        &self,
        session: &NativeSession,
        after: Option<&Mark>,
    ) -> Result<SearchableText, ReadError> {
        let (reader, location) = self.resolve_location(session)?;
        index::read_turn_text(reader.as_ref(), &location, after)
    }

    /// Returns the last turns of a session, and `true` if these are all its turns.
    pub fn read_recent_turns(
        &self,
        session: &NativeSession,
        turns: usize,
    ) -> Result<(Vec<NativeTurn>, bool), ReadError> {
        let (reader, location) = self.resolve_location(session)?;
        reader.read_recent_turns(&location, turns)
    }
}

/// Copies and removal.
impl Catalog {
    /// Returns `true` if only the archive has a session.
    #[must_use]
    pub fn is_only_archived(&self, session: &NativeSession) -> bool {
        let archive = self.archive.as_ref();
        archive.is_some_and(|archive| archive.is_source_of(session))
    }

    /// Returns the home directory of an agent. `None` if its sessions can't be copied.
    #[must_use]
    pub fn provider_home(&self, provider: &ProviderId) -> Option<&Path> {
        let is_provider = |(name, _): &&(ProviderId, _)| name == provider;
        let (_, reader) = self.readers.iter().find(is_provider)?;
        reader.storage().map(crate::SessionStorage::home)
    }

    /// Collects the artifacts of a session.
    pub fn collect_artifacts(
        &self,
        session: &NativeSession,
    ) -> Result<SessionArtifacts, ArchiveError> {
        let storage = trash::require_storage(self.reader_for(session)?.as_ref(), session)?;
        storage.collect_artifacts(&session.location, &session.head.id)
    }

    /// Copies a session into an archive.
    pub fn archive_session(
        &self,
        session: &NativeSession,
        archive: &Archive,
        at: Timestamp,
    ) -> Result<ArchiveOutcome, ArchiveError> {
        archive.save(session, self.reader_for(session)?.as_ref(), at)
    }

    /// Returns `true` if an archive has an up-to-date copy of a session.
    #[must_use]
    pub fn is_archived(&self, session: &NativeSession, archive: &Archive) -> bool {
        let reader = self.reader_for(session);
        reader.is_ok_and(|reader| archive.has_current_copy(session, reader.as_ref()))
    }

    /// Copies a session into the trash. Does not remove the original.
    pub fn copy_to_trash(
        &self,
        session: &NativeSession,
        trash: &Trash,
        at: Timestamp,
    ) -> Result<ArchivedSession, ArchiveError> {
        trash.copy_session(session, self.reader_for(session)?.as_ref(), at)
    }

    /// Removes the files of a session. If there is a copy, fails if the files have changed since it was made.
    pub fn remove_session(
        &self,
        session: &NativeSession,
        copy: Option<&ArchivedSession>,
    ) -> Result<(), ArchiveError> {
        trash::remove_session_files(session, self.reader_for(session)?.as_ref(), copy)
    }
}

/// Minimum number of files per thread, because fewer files are read before a second thread has started.
const MIN_FILES_PER_THREAD: usize = 64;

/// Applies `work` to each item, on up to eight cores with at least `min_items` each. Returns the results in the order of
/// the items.
fn map_in_parallel<T: Sync, O: Send>(
    items: &[T],
    min_items: usize,
    work: impl Fn(&T) -> O + Sync,
) -> Vec<O> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let chunk_size = items.len().div_ceil(cores.clamp(1, 8)).max(min_items);
    let mut chunks = items.chunks(chunk_size);
    let Some(first) = chunks.next() else {
        return Vec::new();
    };
    thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = chunks
            .map(|chunk| scope.spawn(move || chunk.iter().map(work).collect::<Vec<O>>()))
            .collect();
        let mut results: Vec<O> = first.iter().map(work).collect();
        for handle in handles {
            match handle.join() {
                Ok(chunk_results) => results.extend(chunk_results),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_results_stay_in_order() {
        for length in [0, 1, MIN_FILES_PER_THREAD, MIN_FILES_PER_THREAD + 1, 1000] {
            let items: Vec<usize> = (0..length).collect();
            let doubled: Vec<usize> = items.iter().map(|item| item * 2).collect();
            let min_items = MIN_FILES_PER_THREAD;
            assert_eq!(map_in_parallel(&items, min_items, |item| item * 2), doubled);
        }
    }
}
