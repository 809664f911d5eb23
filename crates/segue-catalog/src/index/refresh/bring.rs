//! Reading of changed sources on all cores, and writing them into the index.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread;

use jiff::{SignedDuration, Timestamp};

use super::Work;
use super::walk::Change;
use crate::index::read::{Passage, Placed, Projects, Told, read};
use crate::index::write::{Growing, Noted, Verdict, Writer};
use crate::index::{IndexError, State};
use crate::{ReadError, Reader};

/// Number of bytes of text after which a transaction is committed. The larger the transactions, the less FTS5 has to
/// merge.
const COMMIT: usize = 64 * 1024 * 1024;
/// Maximum number of results that readers may be ahead of the writer. A result has at most about a megabyte.
const AHEAD: usize = 32;
/// Age below which a source may still be incomplete, because another process is writing it.
const WRITTEN: SignedDuration = SignedDuration::from_secs(10);
/// Minimum number of changes for which further threads are started.
const FEW: usize = 8;

/// Reads the changed sources on all cores, and passes the results to `take` on this thread.
pub(super) fn fetch(
    readers: &HashMap<&str, &dyn Reader>,
    changes: &[Change],
    mut take: impl FnMut(usize, Told) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    let projects = Projects::default();
    let next = AtomicUsize::new(0);
    let one = |tell: &mut dyn FnMut(usize, Told)| {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(change) = changes.get(index) else {
            return false;
        };
        if let Some(reader) = readers.get(change.provider.as_str()) {
            let before = change.before.as_ref().map(|(_, before)| before);
            read(*reader, &change.found, before, &projects, &mut |told| {
                tell(index, told);
            });
        }
        true
    };
    if changes.len() < FEW {
        let mut outcome = Ok(());
        let mut keep = |index, told| {
            if outcome.is_ok() {
                outcome = take(index, told);
            }
        };
        while one(&mut keep) {}
        return outcome;
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(AHEAD);
        // The number excludes the core of this thread, which writes.
        for _ in 0..cores.saturating_sub(1).clamp(1, 8) {
            let sender: SyncSender<(usize, Told)> = sender.clone();
            scope.spawn(move || {
                // The receiver no longer exists after a write has failed.
                let mut heard = true;
                while heard && one(&mut |index, told| heard &= sender.send((index, told)).is_ok()) {
                }
            });
        }
        drop(sender);
        receiver
            .into_iter()
            .try_for_each(|(index, told)| take(index, told))
    })
}

/// A writer of results into the index.
///
/// It writes words immediately, and everything else before a commit, because FTS5 collects words in memory and writes
/// them whenever another statement may have to be rolled back alone.
pub(super) struct Bringing<'a, 'db> {
    pub(super) writer: &'a mut Writer<'db>,
    pub(super) changes: &'a [Change],
    pub(super) now: Timestamp,
    /// Sessions of which some turns are written and others are still missing.
    pub(super) growing: HashMap<usize, Growing>,
    /// Data that is written before the commit.
    pub(super) rest: Vec<(usize, Rest)>,
    /// Whether no source has to be read a second time without having changed.
    pub(super) settled: bool,
    pub(super) work: &'a mut Work,
}

/// Data of a source that is written in addition to the words of a new session.
pub(super) enum Rest {
    Whole(Growing, Box<Placed>),
    Grown {
        placed: Box<Placed>,
        first: u32,
        turns: Vec<Passage>,
    },
    Nothing(Option<Growing>),
    Failed(Option<Growing>, String, bool),
    /// A source that another process is writing. The next refresh reads it, and its indexed data stays unchanged.
    Later(Option<Growing>),
}

impl Bringing<'_, '_> {
    pub(super) fn take(&mut self, index: usize, told: Told) -> Result<(), IndexError> {
        let rest = match told {
            Told::Turns(turns) => {
                let growing = self.growing.remove(&index);
                let mut growing = growing.unwrap_or_else(|| self.writer.grow());
                self.writer.add(&mut growing, &turns)?;
                self.growing.insert(index, growing);
                return Ok(());
            }
            Told::Whole { placed, turns } => {
                let growing = self.growing.remove(&index);
                let mut growing = growing.unwrap_or_else(|| self.writer.grow());
                self.writer.add(&mut growing, &turns)?;
                self.writer.title(growing.id, &placed)?;
                self.work.bytes += placed.bytes;
                Rest::Whole(growing, placed)
            }
            Told::Grown {
                placed,
                first,
                turns,
            } => {
                self.work.bytes += placed.bytes;
                Rest::Grown {
                    placed,
                    first,
                    turns,
                }
            }
            Told::Other => Rest::Nothing(self.growing.remove(&index)),
            Told::Failed(error) if self.is_being_written(index, &error) => {
                Rest::Later(self.growing.remove(&index))
            }
            Told::Failed(error) => {
                let provider = self
                    .changes
                    .get(index)
                    .map(|change| change.provider.clone());
                let why = error.in_full();
                // A read that failed may succeed later without a change of the source.
                let for_now = matches!(error, ReadError::Io { .. });
                let unreadable = provider.map(|provider| (provider, error));
                self.work.unreadable.extend(unreadable);
                Rest::Failed(self.growing.remove(&index), why, for_now)
            }
        };
        self.rest.push((index, rest));
        self.work.read += 1;
        // A killed process must not leave a part of a session in the index.
        if self.writer.pending >= COMMIT && self.growing.is_empty() {
            self.commit()?;
        }
        Ok(())
    }

    /// Returns `true` if a file contains no conversation, but is so new that its agent may still be writing it.
    fn is_being_written(&self, index: usize, error: &ReadError) -> bool {
        let change = self.changes.get(index);
        let age = change.map(|change| self.now.duration_since(change.found.modified));
        matches!(error, ReadError::NotASession { .. }) && age.is_some_and(|age| age < WRITTEN)
    }

    pub(super) fn commit(&mut self) -> Result<(), IndexError> {
        for (index, rest) in std::mem::take(&mut self.rest) {
            if let Some(change) = self.changes.get(index) {
                self.settle(change, rest)?;
            }
        }
        Ok(self.writer.commit()?)
    }

    fn settle(&mut self, change: &Change, rest: Rest) -> Result<(), IndexError> {
        let Change {
            provider,
            found,
            before,
        } = change;
        let provider = provider.as_str();
        let state = if found.archived {
            State::Archived
        } else {
            State::Live
        };
        let writer = &mut *self.writer;
        let held = |id, verdict| Noted {
            native_id: Some(id),
            ..Noted::found(verdict)
        };
        match rest {
            Rest::Whole(growing, placed) => {
                let id = placed.head.id.as_str();
                let source = writer.note(provider, found, held(id, Verdict::Session))?;
                writer.displace(source, id)?;
                if writer.is_twin(provider, id, source, found.size)? {
                    writer.drop_turns(growing.id, 0)?;
                    writer.note(provider, found, held(id, Verdict::Twin))?;
                } else {
                    writer.replace(provider, &growing, &placed, Some(source), state)?;
                    writer.demote(provider, id, source)?;
                }
            }
            Rest::Grown {
                placed,
                first,
                turns,
            } => {
                let id = placed.head.id.as_str();
                let session = before.as_ref().map(|(session, _)| *session);
                // The session may have another source since then. In this case the next refresh reads it completely.
                if session.is_none() || writer.session(provider, id)? != session {
                    self.settled = false;
                    return Ok(());
                }
                writer.note(provider, found, held(id, Verdict::Session))?;
                if let Some(session) = session {
                    writer.append(session, &placed, state, first, &turns)?;
                }
            }
            // Indexed data stays unchanged, because the source may be incomplete.
            Rest::Nothing(growing) => {
                if let Some(growing) = growing {
                    writer.drop_turns(growing.id, 0)?;
                }
                writer.note(provider, found, Noted::found(Verdict::Other))?;
            }
            Rest::Later(growing) => {
                if let Some(growing) = growing {
                    writer.drop_turns(growing.id, 0)?;
                }
                self.settled = false;
            }
            Rest::Failed(growing, why, for_now) => {
                if let Some(growing) = growing {
                    writer.drop_turns(growing.id, 0)?;
                }
                let noted = Noted {
                    why: Some(&why),
                    settled: !for_now,
                    ..Noted::found(Verdict::Failed)
                };
                writer.note(provider, found, noted)?;
                self.settled &= !for_now;
            }
        }
        Ok(())
    }
}
