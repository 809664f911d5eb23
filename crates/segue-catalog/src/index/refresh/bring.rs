//! Reading what changed, on all cores, and bringing it into the index.

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

/// Text is committed once it has so many bytes: the larger the pieces, the less there is to merge.
const COMMIT: usize = 64 * 1024 * 1024;
/// What the readers may be ahead of the writer, in messages of about a megabyte at most.
const AHEAD: usize = 32;
/// What was changed so lately may be in the middle of being written.
const WRITTEN: SignedDuration = SignedDuration::from_secs(10);
/// Fewer changes than this are not worth another thread.
const FEW: usize = 8;

/// Reads what changed, on all cores, and has it taken here.
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
        // This thread is busy too: it writes.
        for _ in 0..cores.saturating_sub(1).clamp(1, 8) {
            let sender: SyncSender<(usize, Told)> = sender.clone();
            scope.spawn(move || {
                // Nobody listens any more once something went wrong there.
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

/// Brings what is read into the index.
///
/// Words are written as they come, and everything else when they are committed: FTS5 gathers words in memory and
/// writes them out whenever another statement may have to be taken back alone.
pub(super) struct Bringing<'a, 'db> {
    pub(super) writer: &'a mut Writer<'db>,
    pub(super) changes: &'a [Change],
    pub(super) now: Timestamp,
    /// The sessions of which some turns are written and others still to come.
    pub(super) growing: HashMap<usize, Growing>,
    /// What else there is to write.
    pub(super) rest: Vec<(usize, Rest)>,
    /// Whether nothing has to be looked at again that has not changed.
    pub(super) settled: bool,
    pub(super) work: &'a mut Work,
}

/// What there is to write of a source beside the words of a new session.
pub(super) enum Rest {
    Whole(Growing, Box<Placed>),
    Grown {
        placed: Box<Placed>,
        first: u32,
        turns: Vec<Passage>,
    },
    Nothing(Option<Growing>),
    Failed(Option<Growing>, String, bool),
    /// It is being written: it is looked at again the next time, and what is known of it stays.
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
                // What could not be read for now may be readable as it is.
                let for_now = matches!(error, ReadError::Io { .. });
                let unreadable = provider.map(|provider| (provider, error));
                self.work.unreadable.extend(unreadable);
                Rest::Failed(self.growing.remove(&index), why, for_now)
            }
        };
        self.rest.push((index, rest));
        self.work.read += 1;
        // Half a session must not be left behind by a kill.
        if self.writer.pending >= COMMIT && self.growing.is_empty() {
            self.commit()?;
        }
        Ok(())
    }

    /// Whether a file that holds no conversation now may well do so in a moment.
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
                // A fuller copy of it may have come to light in the meantime: then it is read as a whole the next time.
                if session.is_none() || writer.session(provider, id)? != session {
                    self.settled = false;
                    return Ok(());
                }
                writer.note(provider, found, held(id, Verdict::Session))?;
                if let Some(session) = session {
                    writer.append(session, &placed, state, first, &turns)?;
                }
            }
            // What was there before stays as it was: it may be in the middle of being written.
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
