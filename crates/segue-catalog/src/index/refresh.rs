//! The index catches up with what agents have written since: what changed is read, several files at a time, and nothing
//! else.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension};
use segue_core::{NativeId, ProviderId};

use super::read::{Before, Passage, Placed, Projects, Told, read};
use super::write::{Growing, Noted, Verdict, Writer, nanoseconds, turn_id};
use super::{Index, IndexError, State, schema};
use crate::{Catalog, Found, Head, IdHint, NativeSession, ReadError, Reader, Whereabouts};

/// What a refresh had to do.
#[derive(Debug, Default)]
pub struct Work {
    /// How many places there are at which a session was found.
    pub places: usize,
    /// How many of them were read, as a whole or in part.
    pub read: usize,
    /// How many bytes of them.
    pub bytes: u64,
    /// How many rows were changed.
    pub rows: u64,
    /// How many sessions are not there any more.
    pub gone: usize,
    /// Of which agents something could not be read, and why.
    pub unreadable: Vec<(ProviderId, ReadError)>,
}

/// What came of a refresh.
#[derive(Debug)]
pub enum Refreshed {
    /// The index is as new as what was found.
    Done(Work),
    /// Somebody else was at it for longer than we wait: the index is as they left it.
    Busy,
}

/// How far a refresh is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// How many places were read.
    pub done: usize,
    /// How many are to be read.
    pub all: usize,
}

/// Text is committed once it has so many bytes: the larger the pieces, the less there is to merge.
const COMMIT: usize = 64 * 1024 * 1024;
/// How often a lock that somebody else holds is tried.
const RETRY: Duration = Duration::from_millis(10);
/// What the readers may be ahead of the writer, in messages of at most a few hundred kilobytes each.
const AHEAD: usize = 32;
/// More changes than this are many.
const MANY: usize = 200;
/// Fewer changes than this are not worth another thread.
const FEW: usize = 8;

impl Index {
    /// Catches up with what the agents have written. Waits so long if another process is at it.
    pub fn refresh(
        &self,
        catalog: &Catalog,
        patience: Duration,
        tell: &dyn Fn(Progress),
    ) -> Result<Refreshed, IndexError> {
        let walked = Walked::over(catalog);
        if self.saw(walked.print)? {
            return Ok(Refreshed::Done(walked.nothing_to_do()));
        }
        let Some(mut lock) = self.lock(patience)? else {
            return Ok(Refreshed::Busy);
        };
        self.check_once_a_boot(&mut lock)?;
        // Whoever held the lock may have done it, or done it for what was there then.
        let walked = Walked::over(catalog);
        if self.saw(walked.print)? {
            return Ok(Refreshed::Done(walked.nothing_to_do()));
        }
        match self.catch_up(catalog, &walked, tell) {
            Err(error) if error.is_damage() => {
                self.clear()?;
                self.catch_up(catalog, &walked, tell)
            }
            outcome => outcome,
        }
        .map(|mut work| {
            work.unreadable.extend(walked.unreadable);
            Refreshed::Done(work)
        })
    }

    /// The one that is held while the index is written.
    pub(super) fn lock(&self, patience: Duration) -> Result<Option<File>, IndexError> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(self.beside("lock"))
            .map_err(|error| IndexError::io(&self.path, error))?;
        let since = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(file)),
                Err(std::fs::TryLockError::WouldBlock) if since.elapsed() < patience => {
                    thread::sleep(RETRY);
                }
                Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
                Err(std::fs::TryLockError::Error(error)) => {
                    return Err(IndexError::io(&self.path, error));
                }
            }
        }
    }

    /// A machine that was switched off in the middle of a write may have left anything. The lock tells since when it has
    /// been running.
    fn check_once_a_boot(&self, lock: &mut File) -> Result<(), IndexError> {
        // Where nobody tells, damage is found when it is come across.
        let Ok(boot) = std::fs::read("/proc/sys/kernel/random/boot_id") else {
            return Ok(());
        };
        let mut known = Vec::new();
        let outcome = lock.read_to_end(&mut known).and_then(|_| {
            if known == boot {
                return Ok(());
            }
            if !known.is_empty() && !schema::is_sound(&self.path) {
                self.clear().map_err(std::io::Error::other)?;
            }
            lock.set_len(0)?;
            lock.rewind()?;
            lock.write_all(&boot)
        });
        outcome.map_err(|error| IndexError::io(&self.path, error))
    }

    fn saw(&self, print: i64) -> Result<bool, IndexError> {
        self.reading(|db| {
            let seen: Option<i64> = db
                .prepare_cached("SELECT value FROM seen WHERE what = 'walk'")?
                .query_row([], |row| row.get(0))
                .optional()?;
            Ok(seen == Some(print))
        })
        .or_else(|error| match error {
            IndexError::Missing => Ok(false),
            error if error.is_damage() => Ok(false),
            error => Err(error),
        })
    }

    fn catch_up(
        &self,
        catalog: &Catalog,
        walked: &Walked,
        tell: &dyn Fn(Progress),
    ) -> Result<Work, IndexError> {
        let db = schema::open_to_write(&self.path)?;
        let known = known(&db)?;
        let changes = walked.compare(catalog, known);
        let mut work = Work {
            places: walked.found.len(),
            gone: changes.gone.len(),
            ..Work::default()
        };
        let mut writer = Writer::new(&db)?;
        for &source in &changes.gone {
            writer.lose(source)?;
        }
        let readers: HashMap<&str, &dyn Reader> = catalog.readers().collect();
        let mut bringing = Bringing {
            writer: &mut writer,
            changes: &changes.changed,
            growing: HashMap::new(),
            rest: Vec::new(),
            settled: true,
            work: &mut work,
        };
        // Of many at a time, nothing is merged before all are there.
        schema::for_many(&db, changes.changed.len() > MANY)?;
        fetch(&readers, &changes.changed, |index, told| {
            bringing.take(index, told)?;
            tell(Progress {
                done: bringing.work.read,
                all: changes.changed.len(),
            });
            Ok(())
        })?;
        bringing.commit()?;
        let settled = bringing.settled;
        for copy in &changes.copies {
            take_copy(catalog, copy, &mut writer, &mut work)?;
        }
        if settled {
            writer.remember("walk", walked.print)?;
        }
        writer.remember("whole", 1)?;
        writer.commit()?;
        schema::for_many(&db, false)?;
        work.rows = writer.rows;
        Ok(work)
    }
}

/// Has a copy stand in for a session that is gone.
fn take_copy(
    catalog: &Catalog,
    copy: &Change,
    writer: &mut Writer<'_>,
    work: &mut Work,
) -> Result<(), IndexError> {
    let Change {
        provider, found, ..
    } = copy;
    let IdHint::Whole(id) = &found.id else {
        return Ok(());
    };
    let Ok(native_id) = NativeId::parse(id) else {
        return Ok(());
    };
    let name = provider.as_str();
    let note = |verdict, why| Noted {
        native_id: Some(id.as_str()),
        why,
        copy: true,
        ..Noted::found(verdict)
    };
    if let Some((session, live)) = writer.holding(name, id)? {
        if live {
            writer.note(name, found, note(Verdict::Twin, None))?;
        } else {
            let source = writer.note(name, found, note(Verdict::Session, None))?;
            writer.attach(session, source)?;
        }
        return Ok(());
    }
    let session = NativeSession {
        provider: provider.clone(),
        found: found.clone(),
        head: Head::new(native_id, found.modified),
    };
    let (reader, unpacked) = match catalog.at(&session) {
        Ok(at) => at,
        Err(error) => {
            writer.note(name, found, note(Verdict::Failed, Some(&error.in_full())))?;
            work.unreadable.push((provider.clone(), error));
            return Ok(());
        }
    };
    let mut growing = writer.grow();
    let mut outcome = Ok(());
    let mut last = None;
    read(
        reader.as_ref(),
        &unpacked,
        None,
        &Projects::default(),
        &mut |told| {
            if let Told::Turns(turns) | Told::Whole { turns, .. } = &told
                && outcome.is_ok()
            {
                outcome = writer.add(&mut growing, turns);
            }
            last = Some(told);
        },
    );
    outcome?;
    work.read += 1;
    let Some(Told::Whole { placed, .. }) = last else {
        writer.drop_turns(growing.id, 0)?;
        writer.note(name, found, note(Verdict::Other, None))?;
        return Ok(());
    };
    work.bytes += placed.bytes;
    writer.title(growing.id, &placed)?;
    let source = writer.note(name, found, note(Verdict::Session, None))?;
    writer.replace(name, &growing, &placed, Some(source), State::Archived)?;
    Ok(())
}

/// What was there when we looked.
pub(super) struct Walked {
    found: Vec<(ProviderId, Found)>,
    /// Which of them are copies in the archive.
    copies: HashSet<PathBuf>,
    /// Of which agents something could not be looked at, so that what is missing may be there.
    unreadable: Vec<(ProviderId, ReadError)>,
    /// What tells this from any other state.
    print: i64,
}

impl Walked {
    fn over(catalog: &Catalog) -> Self {
        let mut walked = Self {
            found: Vec::new(),
            copies: HashSet::new(),
            unreadable: Vec::new(),
            print: 0,
        };
        for (provider, there) in catalog.walk() {
            let Whereabouts { found, unreadable } = there;
            let named = |error| (provider.clone(), error);
            walked.unreadable.extend(unreadable.into_iter().map(named));
            let found = found.into_iter().map(|found| (provider.clone(), found));
            walked.found.extend(found);
        }
        let copies = catalog.copies();
        walked
            .copies
            .extend(copies.iter().map(|(_, found)| found.path.clone()));
        walked.found.extend(copies);
        // In whatever order they were come across.
        for (provider, found) in &walked.found {
            let mut hasher = DefaultHasher::new();
            (provider.as_str(), &found.path, found.part()).hash(&mut hasher);
            (found.size, found.modified.as_nanosecond(), found.archived).hash(&mut hasher);
            walked.print = walked.print.wrapping_add(hasher.finish().cast_signed());
        }
        walked
    }

    fn nothing_to_do(self) -> Work {
        Work {
            places: self.found.len(),
            unreadable: self.unreadable,
            ..Work::default()
        }
    }

    fn compare(&self, catalog: &Catalog, mut known: HashMap<Key, Known>) -> Changes {
        let mut changed = Vec::new();
        let mut twins: Vec<(&ProviderId, &Found, Known)> = Vec::new();
        for (provider, found) in &self.found {
            let before = known.remove(&Key::of(provider.as_str(), found));
            match before {
                Some(before) if before.is_like(found) => {
                    if before.verdict == Verdict::Twin as i64 {
                        twins.push((provider, found, before));
                    }
                }
                before => changed.push(Change {
                    provider: provider.clone(),
                    found: found.clone(),
                    before: before.and_then(Known::into_before),
                }),
            }
        }
        // What could not be looked at is not gone, nor what is in another home than the one that was looked at.
        let is_gone = |(key, known): &(Key, Known)| {
            let unreadable = |(provider, _): &(ProviderId, _)| provider.as_str() == key.provider;
            let elsewhere = |provider: &ProviderId| {
                let home = catalog.home_of(provider);
                home.is_some_and(|home| !key.path.starts_with(home))
            };
            known.copy
                || !self.unreadable.iter().any(unreadable)
                    && !ProviderId::parse(&key.provider).is_ok_and(|provider| elsewhere(&provider))
        };
        let gone: Vec<(Key, Known)> = known.into_iter().filter(is_gone).collect();
        for (provider, found, twin) in twins {
            let orphaned = |(key, gone): &&(Key, Known)| {
                key.provider == provider.as_str() && gone.native_id == twin.native_id
            };
            // Whoever found out before may have been killed on the way.
            if !twin.held || gone.iter().any(|gone| orphaned(&gone)) {
                changed.push(Change {
                    provider: provider.clone(),
                    found: found.clone(),
                    before: None,
                });
            }
        }
        // The newest last, so that ids grow with time.
        changed.sort_by_key(|change| change.found.modified);
        let is_copy = |change: &Change| self.copies.contains(&change.found.path);
        let (copies, changed) = changed.into_iter().partition(is_copy);
        Changes {
            changed,
            copies,
            gone: gone.iter().map(|(_, known)| known.source).collect(),
        }
    }
}

struct Changes {
    changed: Vec<Change>,
    /// The same for copies in the archive, which only matter where a session is gone.
    copies: Vec<Change>,
    gone: Vec<i64>,
}

/// A place at which something else is than before.
struct Change {
    provider: ProviderId,
    found: Found,
    /// What was read there before, and the row it went into.
    before: Option<(i64, Before)>,
}

/// A place.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    provider: String,
    path: PathBuf,
    part: String,
}

impl Key {
    fn of(provider: &str, found: &Found) -> Self {
        Self {
            provider: provider.to_owned(),
            path: found.path.clone(),
            part: found.part().to_owned(),
        }
    }
}

/// What is known of a place.
struct Known {
    source: i64,
    size: u64,
    modified: i64,
    verdict: i64,
    archived: Option<bool>,
    native_id: Option<String>,
    session: Option<i64>,
    turns: u32,
    after: Option<String>,
    copy: bool,
    /// Whether there is a place that the session of this name is at.
    held: bool,
}

impl Known {
    fn is_like(&self, found: &Found) -> bool {
        self.size == found.size
            && self.modified == nanoseconds(found.modified)
            && self
                .archived
                .is_none_or(|archived| archived == found.archived)
    }

    fn into_before(self) -> Option<(i64, Before)> {
        let before = Before {
            turns: self.turns,
            after: self.after.and_then(|mark| mark.parse().ok()),
            size: self.size,
        };
        Some((self.session?, before))
    }
}

fn known(db: &Connection) -> rusqlite::Result<HashMap<Key, Known>> {
    let mut rows = db.prepare(
        "SELECT source.id, source.provider, path, part, size, modified, verdict, source.native_id,
             session.id, session.turns, session.state,
             (SELECT after FROM turn WHERE turn.id = (session.id << 20) + session.turns), copy,
             EXISTS (SELECT 1 FROM session AS held WHERE held.provider = source.provider
                 AND held.native_id = source.native_id AND held.source IS NOT NULL)
         FROM source LEFT JOIN session ON session.source = source.id",
    )?;
    let rows = rows.query_map([], |row| {
        let key = Key {
            provider: row.get(1)?,
            path: OsString::from_vec(row.get(2)?).into(),
            part: row.get(3)?,
        };
        let state: Option<i64> = row.get(10)?;
        let known = Known {
            source: row.get(0)?,
            size: row.get(4)?,
            modified: row.get(5)?,
            verdict: row.get(6)?,
            native_id: row.get(7)?,
            session: row.get(8)?,
            turns: row.get::<_, Option<u32>>(9)?.unwrap_or(0),
            archived: state.map(|state| state == State::Archived.code()),
            after: row.get(11)?,
            copy: row.get(12)?,
            held: row.get(13)?,
        };
        Ok((key, known))
    })?;
    rows.collect()
}

/// Reads what changed, on all cores, and has it taken here.
fn fetch(
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
struct Bringing<'a, 'db> {
    writer: &'a mut Writer<'db>,
    changes: &'a [Change],
    /// The sessions of which some turns are written and others still to come.
    growing: HashMap<usize, Growing>,
    /// What else there is to write.
    rest: Vec<(usize, Rest)>,
    /// Whether nothing has to be looked at again that has not changed.
    settled: bool,
    work: &'a mut Work,
}

/// What there is to write of a source beside the words of a new session.
enum Rest {
    Whole(Growing, Box<Placed>),
    Grown {
        placed: Box<Placed>,
        first: u32,
        turns: Vec<Passage>,
    },
    Nothing(Option<Growing>),
    Failed(Option<Growing>, String, bool),
}

impl Bringing<'_, '_> {
    fn take(&mut self, index: usize, told: Told) -> Result<(), IndexError> {
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

    fn commit(&mut self) -> Result<(), IndexError> {
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

/// The id of the last turn, for those who ask the database for it.
const _: () = assert!(turn_id(1, 0) == 1 << 20);
