//! Catalog of the native sessions of all agents.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use jiff::Timestamp;
use segue_core::id::{NativeId, ProviderId};

use crate::head::{head_of, nothing_said};
use crate::index::{self, Texts};
use crate::{
    Archive, Belongings, Entry, Found, Head, KeepError, Kind, Mark, NativeTurn, ReadError, Reader,
    Records, Saved, Start, Trash, Whereabouts, trash,
};

/// A native session with its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeSession {
    /// Agent to which the session belongs.
    pub provider: ProviderId,
    /// Location of the session on disk.
    pub found: Found,
    /// Metadata of the session.
    pub head: Head,
}

/// Native sessions, and the errors of the search for them.
#[derive(Debug, Default)]
pub struct Natives {
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
        let named = |reader: Arc<dyn Reader>| {
            let provider = ProviderId::parse(reader.provider()).ok()?;
            Some((provider, reader))
        };
        Self {
            readers: readers.into_iter().filter_map(named).collect(),
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
    pub fn sessions(&self, provider: Option<&ProviderId>, since: Option<Timestamp>) -> Natives {
        // Files that were not written since then are not opened.
        self.gather(provider, "", |found| {
            since.is_none_or(|since| found.modified >= since)
        })
    }

    /// Returns the conversations whose id begins with `text`, or only the exact match if one exists. `claude:ID`
    /// restricts the search to one agent.
    #[must_use]
    pub fn lookup(&self, text: &str) -> Natives {
        let (provider, text) = self.named(text);
        let mut natives = self.gather(provider, text, |found| found.id.fits(text));
        let sessions = &mut natives.sessions;
        sessions.retain(|session| session.head.id.as_str().starts_with(text));
        if sessions
            .iter()
            .any(|session| session.head.id.as_str() == text)
        {
            sessions.retain(|session| session.head.id.as_str() == text);
        }
        // A read error matters only if its file may be the session that the caller looks for.
        let named = |path: &Path| path.to_string_lossy().contains(text);
        natives.unreadable.retain(|(_, error)| named(error.path()));
        natives
    }

    /// Returns the error for a session whose file still exists but contains no conversation any more. `None` if no such
    /// file exists. `id` is a complete id, optionally as `claude:ID`.
    #[must_use]
    pub fn why_not(&self, id: &str) -> Option<ReadError> {
        let (provider, id) = self.named(id);
        let readers = self.readers.iter();
        let mut readers = readers.filter(|(name, _)| provider.is_none_or(|one| one == name));
        readers.find_map(|(_, reader)| {
            let found = reader.find().found.into_iter();
            let mut found = found.filter(|found| found.id.fits(id));
            found.find_map(|found| match head_of(reader.as_ref(), &found) {
                Ok(head) if head.kind == Kind::Empty => Some(nothing_said(&found)),
                Ok(_) => None,
                Err(error) => Some(error),
            })
        })
    }

    /// Splits a text such as `claude:ID` into agent and id. The agent is `None` if the text names no known agent.
    fn named<'a>(&self, text: &'a str) -> (Option<&ProviderId>, &'a str) {
        let named = text
            .split_once(':')
            .and_then(|(name, rest)| Some((self.known(name)?, rest)));
        named.map_or((None, text), |(name, rest)| (Some(name), rest))
    }

    /// Returns the readers, each with the name of its agent.
    pub(crate) fn readers(&self) -> impl Iterator<Item = (&str, &dyn Reader)> {
        let readers = self.readers.iter();
        readers.map(|(name, reader)| (name.as_str(), reader.as_ref()))
    }

    /// Finds the sessions of all agents, in parallel.
    pub(crate) fn walk(&self) -> Vec<(ProviderId, Whereabouts)> {
        thread::scope(|scope| {
            let mut readers = self.readers.iter();
            let first = readers.next();
            let others: Vec<_> = readers
                .map(|(name, reader)| (name, scope.spawn(|| reader.find())))
                .collect();
            let mut walked = Vec::with_capacity(others.len() + 1);
            if let Some((name, reader)) = first {
                walked.push((name.clone(), reader.find()));
            }
            for (name, other) in others {
                match other.join() {
                    Ok(there) => walked.push((name.clone(), there)),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            walked
        })
    }

    /// Returns the locations of archived copies, of agents for which the catalog has a reader.
    pub(crate) fn copies(&self) -> Vec<(ProviderId, Found)> {
        let all = self.archive.as_ref().map(Archive::walk);
        let readable =
            |(provider, _): &(ProviderId, Found)| self.known(provider.as_str()).is_some();
        all.into_iter().flatten().filter(readable).collect()
    }

    /// Returns the head that was saved when a session was copied. It may contain more than the copy, for example the
    /// working directory.
    pub(crate) fn copied_head(&self, provider: &ProviderId, id: &NativeId) -> Option<Head> {
        let entry = self.archive.as_ref()?.entry(provider, id).ok()??;
        Some(entry.manifest.head)
    }

    /// Returns the agent of this name. `None` if the catalog has no reader for it.
    fn known(&self, name: &str) -> Option<&ProviderId> {
        let mut names = self.readers.iter().map(|(known, _)| known);
        names.find(|known| known.as_str() == name)
    }

    /// Returns the archived sessions whose ids begin with `begins`. Reads no other copies.
    fn archived(&self, provider: Option<&ProviderId>, begins: &str) -> Vec<Entry> {
        let archive = self.archive.as_ref();
        archive.map_or_else(Vec::new, |archive| archive.lookup(provider, begins))
    }

    fn gather(
        &self,
        provider: Option<&ProviderId>,
        begins: &str,
        wanted: impl Fn(&Found) -> bool,
    ) -> Natives {
        let mut natives = Natives::default();
        let mut there = Vec::new();
        for (name, reader) in &self.readers {
            if provider.is_some_and(|provider| provider != name) {
                continue;
            }
            let found = reader.find();
            let unreadable = found.unreadable.into_iter();
            natives
                .unreadable
                .extend(unreadable.map(|error| (name.clone(), error)));
            let found = found.found.into_iter().filter(&wanted);
            there.extend(found.map(|found| (name, reader.as_ref(), found)));
        }
        let heads = in_parallel(&there, |(_, reader, found)| head_of(*reader, found));
        let mut by_id: HashMap<(&ProviderId, NativeId), NativeSession> = HashMap::new();
        for ((name, _, found), head) in there.into_iter().zip(heads) {
            match head {
                Ok(head) if head.kind == Kind::Conversation => {
                    let session = NativeSession {
                        provider: name.clone(),
                        found,
                        head,
                    };
                    // An agent may write one conversation into two files, one of them almost empty. The larger file
                    // counts.
                    let key = (name, session.head.id.clone());
                    let fuller = |other: &NativeSession| other.found.size >= session.found.size;
                    if !by_id.get(&key).is_some_and(fuller) {
                        by_id.insert(key, session);
                    }
                }
                // Other files in the agent's directories are not errors.
                Ok(_) | Err(ReadError::NotASession { .. }) => {}
                Err(error) => natives.unreadable.push((name.clone(), error)),
            }
        }
        // Sessions that their agent deleted may still be in the archive.
        for entry in self.archived(provider, begins) {
            let session = entry.session();
            let Some(name) = self.known(session.provider.as_str()) else {
                continue;
            };
            let key = (name, session.head.id.clone());
            if wanted(&session.found) && !by_id.contains_key(&key) {
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

    fn reader(&self, session: &NativeSession) -> Result<&Arc<dyn Reader>, ReadError> {
        let of_it = |(name, _): &&(ProviderId, _)| *name == session.provider;
        match self.readers.iter().find(of_it) {
            Some((_, reader)) => Ok(reader),
            None => Err(ReadError::not_a_session(
                &session.found.path,
                format!("nobody here reads sessions of {}", session.provider),
            )),
        }
    }

    /// Returns the reader of a session and the location at which it can be read. Unpacks a session that only the
    /// archive has.
    pub(crate) fn at(
        &self,
        session: &NativeSession,
    ) -> Result<(Arc<dyn Reader>, Found), ReadError> {
        let reader = self.reader(session)?;
        let Some(archive) = self.archive.as_ref().filter(|archive| archive.has(session)) else {
            return Ok((Arc::clone(reader), session.found.clone()));
        };
        let entry = archive.entry(&session.provider, &session.head.id);
        let unpacked = entry.and_then(|entry| match entry {
            Some(entry) => archive.unpack(&entry, reader.as_ref()),
            None => Err(KeepError::Nothing(session.head.id.to_string())),
        });
        unpacked.map_err(|error| match error {
            KeepError::Read(error) => error,
            error => ReadError::io(&session.found.path, std::io::Error::other(error)),
        })
    }

    /// Opens the records of a session.
    pub fn records(
        &self,
        session: &NativeSession,
        start: &Start,
    ) -> Result<Box<dyn Records>, ReadError> {
        let (reader, found) = self.at(session)?;
        reader.records(&found, start)
    }

    /// Returns the mark of the last meaningful record of a session. `None` if it has none.
    pub fn end(&self, session: &NativeSession) -> Result<Option<Mark>, ReadError> {
        let (reader, found) = self.at(session)?;
        reader.end(&found)
    }

    /// Reads the searchable text of the turn that begins after a mark, or of the first turn if there is no mark.
    pub fn texts(&self, session: &NativeSession, after: Option<&Mark>) -> Result<Texts, ReadError> {
        let (reader, found) = self.at(session)?;
        index::texts_after(reader.as_ref(), &found, after)
    }

    /// Returns the last turns of a session, and `true` if these are all its turns.
    pub fn recent(
        &self,
        session: &NativeSession,
        turns: usize,
    ) -> Result<(Vec<NativeTurn>, bool), ReadError> {
        let (reader, found) = self.at(session)?;
        reader.recent(&found, turns)
    }
}

/// Copies and removal.
impl Catalog {
    /// Returns `true` if only the archive has a session.
    #[must_use]
    pub fn only_archived(&self, session: &NativeSession) -> bool {
        let archive = self.archive.as_ref();
        archive.is_some_and(|archive| archive.has(session))
    }

    /// Returns the home directory of an agent. `None` if its sessions can't be copied.
    #[must_use]
    pub fn home_of(&self, provider: &ProviderId) -> Option<&Path> {
        let of_it = |(name, _): &&(ProviderId, _)| name == provider;
        let (_, reader) = self.readers.iter().find(of_it)?;
        reader.keeping().map(crate::Keeping::home)
    }

    /// Collects the artifacts of a session.
    pub fn belongings(&self, session: &NativeSession) -> Result<Belongings, KeepError> {
        let keeping = trash::keeping(self.reader(session)?.as_ref(), session)?;
        keeping.belongings(&session.found, &session.head.id)
    }

    /// Copies a session into an archive.
    pub fn save(
        &self,
        session: &NativeSession,
        archive: &Archive,
        at: Timestamp,
    ) -> Result<Saved, KeepError> {
        archive.save(session, self.reader(session)?.as_ref(), at)
    }

    /// Returns `true` if an archive has an up-to-date copy of a session.
    #[must_use]
    pub fn is_saved(&self, session: &NativeSession, archive: &Archive) -> bool {
        let reader = self.reader(session);
        reader.is_ok_and(|reader| archive.contains(session, reader.as_ref()))
    }

    /// Copies a session into the trash. Does not remove the original.
    pub fn discard(
        &self,
        session: &NativeSession,
        trash: &Trash,
        at: Timestamp,
    ) -> Result<Entry, KeepError> {
        trash.copy(session, self.reader(session)?.as_ref(), at)
    }

    /// Removes the files of a session. If there is a copy, fails if the files have changed since it was made.
    pub fn remove(&self, session: &NativeSession, copied: Option<&Entry>) -> Result<(), KeepError> {
        trash::remove_files(session, self.reader(session)?.as_ref(), copied)
    }
}

/// Minimum number of files per thread, because fewer files are read before a second thread has started.
const FEW: usize = 64;

/// Applies `work` to each item, on up to eight cores. Returns the results in the order of the items.
fn in_parallel<T: Sync, O: Send>(items: &[T], work: impl Fn(&T) -> O + Sync) -> Vec<O> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let share = items.len().div_ceil(cores.clamp(1, 8)).max(FEW);
    let mut shares = items.chunks(share);
    let Some(first) = shares.next() else {
        return Vec::new();
    };
    thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = shares
            .map(|share| scope.spawn(move || share.iter().map(work).collect::<Vec<O>>()))
            .collect();
        let mut all: Vec<O> = first.iter().map(work).collect();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_in_parallel_stays_in_order() {
        for length in [0, 1, FEW, FEW + 1, 1000] {
            let items: Vec<usize> = (0..length).collect();
            let doubled: Vec<usize> = items.iter().map(|item| item * 2).collect();
            assert_eq!(in_parallel(&items, |item| item * 2), doubled);
        }
    }
}
