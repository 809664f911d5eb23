//! The native sessions of all agents as one list.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use jiff::Timestamp;
use segue_core::{NativeId, ProviderId};

use crate::head::{head_of, nothing_said};
use crate::index::{self, Texts};
use crate::{
    Archive, Belongings, Entry, Found, Head, KeepError, Kind, Mark, NativeTurn, ReadError, Reader,
    Records, Saved, Start, Trash, Whereabouts, trash,
};

/// A native session, and what its head tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeSession {
    /// The agent it belongs to.
    pub provider: ProviderId,
    /// Where it is.
    pub found: Found,
    /// What it is.
    pub head: Head,
}

/// Native sessions, and what could not be looked at on the way to them.
#[derive(Debug, Default)]
pub struct Natives {
    /// The conversations, newest first.
    pub sessions: Vec<NativeSession>,
    /// Of which agent something could not be read, and why.
    pub unreadable: Vec<(ProviderId, ReadError)>,
}

/// The native sessions on this machine.
#[derive(Clone, Default)]
pub struct Catalog {
    readers: Vec<(ProviderId, Arc<dyn Reader>)>,
    archive: Option<Archive>,
}

impl Catalog {
    /// A catalog of what these readers find.
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

    /// The same catalog, which also knows the sessions that only this archive has.
    #[must_use]
    pub fn with_archive(mut self, archive: Archive) -> Self {
        self.archive = Some(archive);
        self
    }

    /// The agents whose sessions can be read, by name.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.readers.iter().map(|(name, _)| name.as_str())
    }

    /// All conversations, or those of one agent, or those that something happened in since a moment.
    #[must_use]
    pub fn sessions(&self, provider: Option<&ProviderId>, since: Option<Timestamp>) -> Natives {
        // A file that was not written to since then need not be opened.
        self.gather(provider, "", |found| {
            since.is_none_or(|since| found.modified >= since)
        })
    }

    /// The conversations whose id begins with `text`; only the one whose whole id it is, if there is one.
    /// `claude:ID` looks at one agent only.
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
        // What can't be read matters only if it may be what is looked for.
        let named = |path: &Path| path.to_string_lossy().contains(text);
        natives.unreadable.retain(|(_, error)| named(error.path()));
        natives
    }

    /// Why the file of a session that was there before holds no conversation now, if there still is one. `id` is the
    /// whole id, also as `claude:ID`.
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

    /// The agent that a text names, if it does, and what it says of the id.
    fn named<'a>(&self, text: &'a str) -> (Option<&ProviderId>, &'a str) {
        let named = text
            .split_once(':')
            .and_then(|(name, rest)| Some((self.known(name)?, rest)));
        named.map_or((None, text), |(name, rest)| (Some(name), rest))
    }

    /// Who reads the sessions of which agent.
    pub(crate) fn readers(&self) -> impl Iterator<Item = (&str, &dyn Reader)> {
        let readers = self.readers.iter();
        readers.map(|(name, reader)| (name.as_str(), reader.as_ref()))
    }

    /// Where the sessions of all agents are, looked for at once.
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

    /// Where the copies of sessions are, for readers that are here.
    pub(crate) fn copies(&self) -> Vec<(ProviderId, Found)> {
        let all = self.archive.as_ref().map(Archive::walk);
        let readable =
            |(provider, _): &(ProviderId, Found)| self.known(provider.as_str()).is_some();
        all.into_iter().flatten().filter(readable).collect()
    }

    /// The head of a session when it was copied, which may tell more than the copy does: where it worked, for example.
    pub(crate) fn copied_head(&self, provider: &ProviderId, id: &NativeId) -> Option<Head> {
        let entry = self.archive.as_ref()?.entry(provider, id).ok()??;
        Some(entry.manifest.head)
    }

    /// The agent of this name.
    fn known(&self, name: &str) -> Option<&ProviderId> {
        let mut names = self.readers.iter().map(|(known, _)| known);
        names.find(|known| known.as_str() == name)
    }

    /// The copies of sessions whose ids begin so; the others are not read.
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
                    // An agent may have written one conversation into two files, of which one holds next to nothing.
                    let key = (name, session.head.id.clone());
                    let fuller = |other: &NativeSession| other.found.size >= session.found.size;
                    if !by_id.get(&key).is_some_and(fuller) {
                        by_id.insert(key, session);
                    }
                }
                // Whatever else lies around there is not ours to complain about.
                Ok(_) | Err(ReadError::NotASession { .. }) => {}
                Err(error) => natives.unreadable.push((name.clone(), error)),
            }
        }
        // What is gone at its agent's may still be in the archive.
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

    /// Who reads a session, and where it is for them: one that only the archive has is unpacked.
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

    /// The records of a session.
    pub fn records(
        &self,
        session: &NativeSession,
        start: &Start,
    ) -> Result<Box<dyn Records>, ReadError> {
        let (reader, found) = self.at(session)?;
        reader.records(&found, start)
    }

    /// The last record of a session that tells anything.
    pub fn end(&self, session: &NativeSession) -> Result<Option<Mark>, ReadError> {
        let (reader, found) = self.at(session)?;
        reader.end(&found)
    }

    /// What was said in the turn of a session that begins after a mark, as far as it can be searched for.
    pub fn texts(&self, session: &NativeSession, after: Option<&Mark>) -> Result<Texts, ReadError> {
        let (reader, found) = self.at(session)?;
        index::texts_after(reader.as_ref(), &found, after)
    }

    /// The last turns of a session, and whether those are all.
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
    /// Whether only the archive has a session.
    #[must_use]
    pub fn only_archived(&self, session: &NativeSession) -> bool {
        let archive = self.archive.as_ref();
        archive.is_some_and(|archive| archive.has(session))
    }

    /// The home of an agent whose sessions can be copied.
    #[must_use]
    pub fn home_of(&self, provider: &ProviderId) -> Option<&Path> {
        let of_it = |(name, _): &&(ProviderId, _)| name == provider;
        let (_, reader) = self.readers.iter().find(of_it)?;
        reader.keeping().map(crate::Keeping::home)
    }

    /// Everything that belongs to a session.
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

    /// Whether an archive has a session as it is now.
    #[must_use]
    pub fn is_saved(&self, session: &NativeSession, archive: &Archive) -> bool {
        let reader = self.reader(session);
        reader.is_ok_and(|reader| archive.contains(session, reader.as_ref()))
    }

    /// Copies a session into the trash.
    pub fn discard(
        &self,
        session: &NativeSession,
        trash: &Trash,
        at: Timestamp,
    ) -> Result<Entry, KeepError> {
        trash.copy(session, self.reader(session)?.as_ref(), at)
    }

    /// Removes the files of a session; if there is a copy, only if they still are what was copied.
    pub fn remove(&self, session: &NativeSession, copied: Option<&Entry>) -> Result<(), KeepError> {
        trash::remove_files(session, self.reader(session)?.as_ref(), copied)
    }
}

/// Fewer files than this are read before a second thread has started.
const FEW: usize = 64;

/// Does the same with each, on all cores; what came of it is in the same order.
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
