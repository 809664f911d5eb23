//! Reading of changed sources on all cores, and writing them into the index.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread;

use jiff::{SignedDuration, Timestamp};

use super::RefreshStats;
use super::scan::SourceChange;
use crate::index::source_reader::{
    IndexedTurn, ProjectCache, SourceHead, SourceUpdate, read_source,
};
use crate::index::writer::{IndexWriter, PartialSession, SourceResult, SourceVerdict};
use crate::index::{IndexError, NativeStatus};
use crate::{ReadError, Reader, SessionLocation};

/// Number of bytes of text after which a transaction is committed. The larger the transactions, the less FTS5 has to
/// merge.
const COMMIT_BATCH_BYTES: usize = 64 * 1024 * 1024;
/// Maximum number of results that readers may be ahead of the writer. A result has at most about a megabyte.
const MAX_QUEUED_UPDATES: usize = 32;
/// Age below which a source may still be incomplete, because another process is writing it.
const RECENT_WRITE_AGE: SignedDuration = SignedDuration::from_secs(10);
/// Minimum number of changes for which further threads are started.
const MIN_PARALLEL_CHANGES: usize = 8;

/// Reads the changed sources on all cores, and passes the results to `apply` on this thread.
pub(super) fn read_changes(
    readers: &HashMap<&str, &dyn Reader>,
    changes: &[SourceChange],
    mut apply: impl FnMut(usize, SourceUpdate) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    let projects = ProjectCache::default();
    let next_index = AtomicUsize::new(0);
    let read_next = |emit: &mut dyn FnMut(usize, SourceUpdate)| {
        let index = next_index.fetch_add(1, Ordering::Relaxed);
        let Some(change) = changes.get(index) else {
            return false;
        };
        if let Some(reader) = readers.get(change.provider.as_str()) {
            let previous = change.previous.as_ref().map(|(_, previous)| previous);
            read_source(
                *reader,
                &change.location,
                previous,
                &projects,
                &mut |update| {
                    emit(index, update);
                },
            );
        }
        true
    };
    if changes.len() < MIN_PARALLEL_CHANGES {
        let mut outcome = Ok(());
        let mut apply_unless_failed = |index, update| {
            if outcome.is_ok() {
                outcome = apply(index, update);
            }
        };
        while read_next(&mut apply_unless_failed) {}
        return outcome;
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(MAX_QUEUED_UPDATES);
        // The number excludes the core of this thread, which writes.
        for _ in 0..cores.saturating_sub(1).clamp(1, 8) {
            let sender: SyncSender<(usize, SourceUpdate)> = sender.clone();
            scope.spawn(move || {
                // The receiver no longer exists after a write has failed.
                let mut is_connected = true;
                while is_connected
                    && read_next(&mut |index, update| {
                        is_connected &= sender.send((index, update)).is_ok();
                    })
                {}
            });
        }
        drop(sender);
        receiver
            .into_iter()
            .try_for_each(|(index, update)| apply(index, update))
    })
}

/// A writer of results into the index.
///
/// It writes words immediately, and everything else before a commit, because FTS5 collects words in memory and writes
/// them whenever another statement may have to be rolled back alone.
pub(super) struct Ingest<'a, 'db> {
    pub(super) writer: &'a mut IndexWriter<'db>,
    pub(super) changes: &'a [SourceChange],
    pub(super) now: Timestamp,
    /// Sessions of which some turns are written and others are still missing.
    pub(super) partial_sessions: HashMap<usize, PartialSession>,
    /// Data that is written before the commit.
    pub(super) deferred: Vec<(usize, DeferredWrite)>,
    /// Whether no source has to be read a second time without having changed.
    pub(super) is_final: bool,
    pub(super) stats: &'a mut RefreshStats,
}

/// Data of a source that is written in addition to the words of a new session.
pub(super) enum DeferredWrite {
    Complete(PartialSession, Box<SourceHead>),
    Appended {
        source_head: Box<SourceHead>,
        first_turn: u32,
        turns: Vec<IndexedTurn>,
    },
    NotAConversation(Option<PartialSession>),
    Failed(Option<PartialSession>, String, bool),
    /// A source that another process is writing. The next refresh reads it, and its indexed data stays unchanged.
    Postponed(Option<PartialSession>),
}

impl Ingest<'_, '_> {
    pub(super) fn apply_update(
        &mut self,
        index: usize,
        update: SourceUpdate,
    ) -> Result<(), IndexError> {
        let write = match update {
            SourceUpdate::Turns(turns) => {
                let partial = self.partial_sessions.remove(&index);
                let mut partial = partial.unwrap_or_else(|| self.writer.start_session());
                self.writer.add_turns(&mut partial, &turns)?;
                self.partial_sessions.insert(index, partial);
                return Ok(());
            }
            SourceUpdate::Complete { source_head, turns } => {
                let partial = self.partial_sessions.remove(&index);
                let mut partial = partial.unwrap_or_else(|| self.writer.start_session());
                self.writer.add_turns(&mut partial, &turns)?;
                self.writer.insert_title(partial.id, &source_head)?;
                self.stats.bytes_read += source_head.bytes_read;
                DeferredWrite::Complete(partial, source_head)
            }
            SourceUpdate::Appended {
                source_head,
                first_turn,
                turns,
            } => {
                self.stats.bytes_read += source_head.bytes_read;
                DeferredWrite::Appended {
                    source_head,
                    first_turn,
                    turns,
                }
            }
            SourceUpdate::NotAConversation => {
                DeferredWrite::NotAConversation(self.partial_sessions.remove(&index))
            }
            SourceUpdate::Failed(error) if self.is_being_written(index, &error) => {
                DeferredWrite::Postponed(self.partial_sessions.remove(&index))
            }
            SourceUpdate::Failed(error) => {
                let provider = self
                    .changes
                    .get(index)
                    .map(|change| change.provider.clone());
                let reason = error.format_error_chain();
                // A read that failed may succeed later without a change of the source.
                let is_temporary = matches!(error, ReadError::Io { .. });
                let unreadable = provider.map(|provider| (provider, error));
                self.stats.unreadable.extend(unreadable);
                DeferredWrite::Failed(self.partial_sessions.remove(&index), reason, is_temporary)
            }
        };
        self.deferred.push((index, write));
        self.stats.sources_read += 1;
        // A killed process must not leave a part of a session in the index.
        if self.writer.pending_bytes >= COMMIT_BATCH_BYTES && self.partial_sessions.is_empty() {
            self.commit()?;
        }
        Ok(())
    }

    /// Returns `true` if a file contains no conversation, but is so new that its agent may still be writing it.
    fn is_being_written(&self, index: usize, error: &ReadError) -> bool {
        let change = self.changes.get(index);
        let age = change.map(|change| self.now.duration_since(change.location.modified));
        matches!(error, ReadError::NotASession { .. })
            && age.is_some_and(|age| age < RECENT_WRITE_AGE)
    }

    pub(super) fn commit(&mut self) -> Result<(), IndexError> {
        for (index, write) in std::mem::take(&mut self.deferred) {
            if let Some(change) = self.changes.get(index) {
                self.apply_deferred_write(change, write)?;
            }
        }
        Ok(self.writer.commit()?)
    }

    fn apply_deferred_write(
        &mut self,
        change: &SourceChange,
        write: DeferredWrite,
    ) -> Result<(), IndexError> {
        let SourceChange {
            provider,
            location,
            previous,
        } = change;
        let provider = provider.as_str();
        let writer = &mut *self.writer;
        match write {
            DeferredWrite::Complete(partial, source_head) => {
                write_complete_session(writer, change, &partial, &source_head)?;
            }
            DeferredWrite::Appended {
                source_head,
                first_turn,
                turns,
            } => {
                let id = source_head.head.id.as_str();
                let session = previous.as_ref().map(|(session, _)| *session);
                // The session may have another source since then. In this case the next refresh reads it completely.
                if session.is_none() || writer.find_session(provider, id)? != session {
                    self.is_final = false;
                    return Ok(());
                }
                writer.save_source(
                    provider,
                    location,
                    result_with_id(id, SourceVerdict::Session),
                )?;
                if let Some(session) = session {
                    let status = native_status(location);
                    writer.replace_turns_from(session, &source_head, status, first_turn, &turns)?;
                }
            }
            // Indexed data stays unchanged, because the source may be incomplete.
            DeferredWrite::NotAConversation(partial) => {
                if let Some(partial) = partial {
                    writer.drop_turns(partial.id, 0)?;
                }
                writer.save_source(
                    provider,
                    location,
                    SourceResult::from_verdict(SourceVerdict::NotAConversation),
                )?;
            }
            DeferredWrite::Postponed(partial) => {
                if let Some(partial) = partial {
                    writer.drop_turns(partial.id, 0)?;
                }
                self.is_final = false;
            }
            DeferredWrite::Failed(partial, reason, is_temporary) => {
                if let Some(partial) = partial {
                    writer.drop_turns(partial.id, 0)?;
                }
                let result = SourceResult {
                    reason: Some(&reason),
                    is_final: !is_temporary,
                    ..SourceResult::from_verdict(SourceVerdict::Failed)
                };
                writer.save_source(provider, location, result)?;
                self.is_final &= !is_temporary;
            }
        }
        Ok(())
    }
}

/// Writes a session that was read completely, unless a better source of the same session exists.
fn write_complete_session(
    writer: &mut IndexWriter<'_>,
    change: &SourceChange,
    partial: &PartialSession,
    source_head: &SourceHead,
) -> Result<(), IndexError> {
    let (provider, location) = (change.provider.as_str(), &change.location);
    let id = source_head.head.id.as_str();
    let session_result = result_with_id(id, SourceVerdict::Session);
    let source = writer.save_source(provider, location, session_result)?;
    writer.mark_displaced_session(source, id)?;
    if writer.is_duplicate(provider, id, source, location.size)? {
        writer.drop_turns(partial.id, 0)?;
        let duplicate_result = result_with_id(id, SourceVerdict::Duplicate);
        writer.save_source(provider, location, duplicate_result)?;
    } else {
        let status = native_status(location);
        writer.replace_session(provider, partial, source_head, Some(source), status)?;
        writer.mark_duplicates(provider, id, source)?;
    }
    Ok(())
}

fn native_status(location: &SessionLocation) -> NativeStatus {
    if location.archived {
        NativeStatus::Archived
    } else {
        NativeStatus::Live
    }
}

fn result_with_id(id: &str, verdict: SourceVerdict) -> SourceResult<'_> {
    SourceResult {
        native_id: Some(id),
        ..SourceResult::from_verdict(verdict)
    }
}
