//! Refresh of the index: reads the sources that have changed, several at a time, and no others.

mod archived_sources;
mod ingest;
mod scan;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::OptionalExtension;
use segue_core::id::ProviderId;

use self::archived_sources::index_archived_copy;
use self::ingest::{Ingest, read_changes};
use self::scan::{SourceScan, load_indexed_sources};
use super::writer::IndexWriter;
use super::{Index, IndexError, schema};
use crate::{Catalog, ReadError, Reader};

/// Work that a refresh has done.
#[derive(Debug, Default)]
pub struct RefreshStats {
    /// Number of sources that were found.
    pub sources: usize,
    /// Number of sources that were read, completely or in part.
    pub sources_read: usize,
    /// Number of bytes that were read.
    pub bytes_read: u64,
    /// Number of rows that were changed.
    pub rows_changed: u64,
    /// Number of sources that no longer exist.
    pub sources_missing: usize,
    /// Read errors, each with its agent.
    pub unreadable: Vec<(ProviderId, ReadError)>,
}

/// Outcome of a refresh.
#[derive(Debug)]
pub enum RefreshOutcome {
    /// The index is up to date with the sources that were found.
    Completed(RefreshStats),
    /// The index was locked for longer than the caller waits. It is in the state in which the other process left it.
    Busy,
}

/// Progress of a refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Number of sources that were read.
    pub done: usize,
    /// Number of sources that are to be read.
    pub total: usize,
}

/// Interval between two attempts to acquire the lock.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum number of changes for which words are merged while they are written.
const MAX_CHANGES_WITH_AUTOMERGE: usize = 200;

impl Index {
    /// Updates the index with everything that agents have written so far. Waits up to `timeout` if another process is
    /// writing to it.
    pub fn refresh(
        &self,
        catalog: &Catalog,
        now: Timestamp,
        timeout: Duration,
        on_progress: &dyn Fn(Progress),
    ) -> Result<RefreshOutcome, IndexError> {
        let started = Instant::now();
        let result = self.refresh_changed_sources(catalog, now, timeout, on_progress);
        log_refresh(&result, started.elapsed());
        result
    }

    fn refresh_changed_sources(
        &self,
        catalog: &Catalog,
        now: Timestamp,
        timeout: Duration,
        on_progress: &dyn Fn(Progress),
    ) -> Result<RefreshOutcome, IndexError> {
        let scan = SourceScan::from_catalog(catalog);
        if self.is_fingerprint_current(scan.fingerprint)? {
            return Ok(RefreshOutcome::Completed(scan.into_unchanged_stats()));
        }
        let Some(mut lock) = self.acquire_lock(timeout)? else {
            return Ok(RefreshOutcome::Busy);
        };
        self.check_once_per_boot(&mut lock)?;
        // The process that had the lock may have done this work, or may have done it for older sources.
        let scan = SourceScan::from_catalog(catalog);
        if self.is_fingerprint_current(scan.fingerprint)? {
            return Ok(RefreshOutcome::Completed(scan.into_unchanged_stats()));
        }
        match self.apply_changes(catalog, &scan, now, on_progress) {
            Err(error) if error.is_damage() => {
                self.clear()?;
                self.apply_changes(catalog, &scan, now, on_progress)
            }
            outcome => outcome,
        }
        .map(|mut stats| {
            stats.unreadable.extend(scan.unreadable);
            RefreshOutcome::Completed(stats)
        })
    }

    /// Acquires the lock for writing to the index. `None` if another process still has it after `timeout`.
    pub(super) fn acquire_lock(&self, timeout: Duration) -> Result<Option<File>, IndexError> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(self.sibling_path("lock"))
            .map_err(|error| IndexError::io(&self.path, error))?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(file)),
                Err(std::fs::TryLockError::WouldBlock) if started.elapsed() < timeout => {
                    thread::sleep(LOCK_RETRY_INTERVAL);
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
    fn check_once_per_boot(&self, lock: &mut File) -> Result<(), IndexError> {
        // Without a boot id, damage is detected only when it causes an error.
        let Ok(boot_id) = std::fs::read("/proc/sys/kernel/random/boot_id") else {
            return Ok(());
        };
        let mut saved_boot_id = Vec::new();
        let outcome = lock.read_to_end(&mut saved_boot_id).and_then(|_| {
            if saved_boot_id == boot_id {
                return Ok(());
            }
            if !saved_boot_id.is_empty() && !schema::is_intact(&self.path) {
                self.clear().map_err(std::io::Error::other)?;
            }
            lock.set_len(0)?;
            lock.rewind()?;
            lock.write_all(&boot_id)
        });
        outcome.map_err(|error| IndexError::io(&self.path, error))
    }

    fn is_fingerprint_current(&self, fingerprint: i64) -> Result<bool, IndexError> {
        self.read_with(|db| {
            let saved: Option<i64> = db
                .prepare_cached("SELECT value FROM seen WHERE what = 'walk'")?
                .query_row([], |row| row.get(0))
                .optional()?;
            Ok(saved == Some(fingerprint))
        })
        .or_else(|error| match error {
            IndexError::Missing => Ok(false),
            error if error.is_damage() => Ok(false),
            error => Err(error),
        })
    }

    fn apply_changes(
        &self,
        catalog: &Catalog,
        scan: &SourceScan,
        now: Timestamp,
        on_progress: &dyn Fn(Progress),
    ) -> Result<RefreshStats, IndexError> {
        let db = schema::open_for_writing(&self.path)?;
        let indexed_sources = load_indexed_sources(&db)?;
        let changes = scan.compare_with_index(catalog, indexed_sources);
        let mut stats = RefreshStats {
            sources: scan.locations.len(),
            sources_missing: changes.missing.len(),
            ..RefreshStats::default()
        };
        let mut writer = IndexWriter::new(&db)?;
        for &source in &changes.missing {
            writer.mark_source_missing(source)?;
        }
        let readers: HashMap<&str, &dyn Reader> = catalog.readers().collect();
        let mut ingest = Ingest {
            writer: &mut writer,
            changes: &changes.changed,
            now,
            partial_sessions: HashMap::new(),
            deferred: Vec::new(),
            is_final: true,
            stats: &mut stats,
        };
        // With many changes, FTS5 merges words only after all are written.
        schema::set_bulk_mode(&db, changes.changed.len() > MAX_CHANGES_WITH_AUTOMERGE)?;
        read_changes(&readers, &changes.changed, |index, update| {
            ingest.apply_update(index, update)?;
            on_progress(Progress {
                done: ingest.stats.sources_read,
                total: changes.changed.len(),
            });
            Ok(())
        })?;
        ingest.commit()?;
        let is_final = ingest.is_final;
        for copy in &changes.copies {
            index_archived_copy(catalog, copy, &mut writer, &mut stats)?;
        }
        if is_final {
            writer.save_value("walk", scan.fingerprint)?;
        }
        writer.save_value("whole", 1)?;
        writer.commit()?;
        schema::set_bulk_mode(&db, false)?;
        stats.rows_changed = writer.rows_changed;
        Ok(stats)
    }
}

fn log_refresh(result: &Result<RefreshOutcome, IndexError>, elapsed: Duration) {
    let elapsed_ms = elapsed.as_millis();
    match result {
        Ok(RefreshOutcome::Completed(stats)) => {
            for (provider, error) in &stats.unreadable {
                error.log(provider);
            }
            tracing::debug!(
                sources = stats.sources,
                sources_read = stats.sources_read,
                sources_missing = stats.sources_missing,
                unreadable = stats.unreadable.len(),
                bytes_read = stats.bytes_read,
                rows_changed = stats.rows_changed,
                elapsed_ms,
                "index refreshed"
            );
        }
        Ok(RefreshOutcome::Busy) => {
            tracing::info!(
                elapsed_ms,
                "index not refreshed: another process is writing to it"
            );
        }
        Err(error) => {
            let error_kind = match error {
                IndexError::Missing => "missing".to_owned(),
                IndexError::Newer => "newer format".to_owned(),
                IndexError::Io { source, .. } => source.kind().to_string(),
                IndexError::Sqlite(_) => "sqlite".to_owned(),
            };
            tracing::warn!(error_kind, elapsed_ms, "index not refreshed");
        }
    }
}
