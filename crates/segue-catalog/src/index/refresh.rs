//! Refresh of the index: reads the sources that have changed, several at a time, and no others.

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
use segue_core::id::ProviderId;

use self::bring::{Bringing, fetch};
use self::copies::take_copy;
use self::walk::{Walked, known};
use super::write::Writer;
use super::{Index, IndexError, schema};
use crate::{Catalog, ReadError, Reader};

/// Work that a refresh has done.
#[derive(Debug, Default)]
pub struct Work {
    /// Number of sources that were found.
    pub places: usize,
    /// Number of sources that were read, completely or in part.
    pub read: usize,
    /// Number of bytes that were read.
    pub bytes: u64,
    /// Number of rows that were changed.
    pub rows: u64,
    /// Number of sources that no longer exist.
    pub gone: usize,
    /// Read errors, each with its agent.
    pub unreadable: Vec<(ProviderId, ReadError)>,
}

/// Outcome of a refresh.
#[derive(Debug)]
pub enum Refreshed {
    /// The index is up to date with the sources that were found.
    Done(Work),
    /// The index was locked for longer than the caller waits. It is in the state in which the other process left it.
    Busy,
}

/// Progress of a refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Number of sources that were read.
    pub done: usize,
    /// Number of sources that are to be read.
    pub all: usize,
}

/// Interval between two attempts to acquire the lock.
const RETRY: Duration = Duration::from_millis(10);
/// Maximum number of changes for which words are merged while they are written.
const MANY: usize = 200;

impl Index {
    /// Updates the index with everything that agents have written so far. Waits up to `patience` if another process is
    /// writing to it.
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
        // The process that had the lock may have done this work, or may have done it for older sources.
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

    /// Acquires the lock for writing to the index. `None` if another process still has it after `patience`.
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

    /// Checks the index for damage once per boot, because a machine that was switched off during a write may have left
    /// any content. The lock file contains the id of the last boot.
    fn check_once_a_boot(&self, lock: &mut File) -> Result<(), IndexError> {
        // Without a boot id, damage is detected only when it causes an error.
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
        // With many changes, FTS5 merges words only after all are written.
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
