//! The index catches up with what agents have written since: what changed is read, several files at a time, and nothing
//! else.

mod bring;
mod copies;
mod walk;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::OptionalExtension;
use segue_core::ProviderId;

use self::bring::{Bringing, fetch};
use self::copies::take_copy;
use self::walk::{Walked, known};
use super::write::Writer;
use super::{Index, IndexError, schema};
use crate::{Catalog, ReadError, Reader};

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

/// How often a lock that somebody else holds is tried.
const RETRY: Duration = Duration::from_millis(10);
/// More changes than this are many.
const MANY: usize = 200;

impl Index {
    /// Catches up with what the agents have written until now. Waits so long if another process is at it.
    pub fn refresh(
        &self,
        catalog: &Catalog,
        now: Timestamp,
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
        match self.catch_up(catalog, &walked, now, tell) {
            Err(error) if error.is_damage() => {
                self.clear()?;
                self.catch_up(catalog, &walked, now, tell)
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
        now: Timestamp,
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
            now,
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
