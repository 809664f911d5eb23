//! Reading of a native session for the index: its head, and the words of its turns.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use segue_core::session::Usage;

use super::turn_text::{BoundedRecords, SearchableText};
use crate::session_head::{no_conversation_error, read_session_head};
use crate::{
    Mark, NativeRecord, NativeSessionKind, NativeTurn, ReadError, ReadStart, Reader, RecordEvent,
    Records, RewindTarget, SessionHead, SessionLocation, SkippedContent, TurnBuilder, project_key,
    read_outline, read_turns_from,
};

/// A turn, as the index stores it.
#[derive(Debug, Clone, Default)]
pub(super) struct IndexedTurn {
    pub(super) at: Option<Timestamp>,
    pub(super) after: Option<Mark>,
    pub(super) messages: u32,
    pub(super) usage: Usage,
    pub(super) model: Option<String>,
    /// Words of the turn, in the form of the full-text index.
    pub(super) text: SearchableText,
}

impl From<NativeTurn> for IndexedTurn {
    fn from(turn: NativeTurn) -> Self {
        Self {
            at: turn.ended_at.or(turn.started_at),
            messages: turn.message_count,
            usage: turn.usage,
            model: turn.model,
            text: SearchableText::from_messages(&turn.messages).into_fts_text(),
            after: turn.after,
        }
    }
}

/// State of a session at its previous read.
#[derive(Debug, Clone)]
pub(super) struct PreviousRead {
    /// Number of its turns.
    pub(super) turns: u32,
    /// Mark after which its last turn begins.
    pub(super) last_turn_mark: Option<Mark>,
    /// Size of its source in bytes.
    pub(super) size: u64,
}

/// Result of reading a source, which may consist of several of these values.
pub(super) enum SourceUpdate {
    /// The next turns of a session that is read completely. More turns follow.
    Turns(Vec<IndexedTurn>),
    /// The last, or all, turns of a session that was read completely.
    Complete {
        source_head: Box<SourceHead>,
        turns: Vec<IndexedTurn>,
    },
    /// The changed last turn of a session, and the turns after it.
    Appended {
        source_head: Box<SourceHead>,
        first_turn: u32,
        turns: Vec<IndexedTurn>,
    },
    /// A source that is not a conversation.
    NotAConversation,
    /// A source that can't be read now.
    Failed(ReadError),
}

/// A head, and the project to which it belongs.
#[derive(Debug)]
pub(super) struct SourceHead {
    pub(super) head: SessionHead,
    pub(super) project: Option<String>,
    /// Number of bytes of the source that were read.
    pub(super) bytes_read: u64,
}

/// Cache of the projects of directories.
#[derive(Default)]
pub(super) struct ProjectCache(Mutex<HashMap<String, Option<String>>>);

impl ProjectCache {
    fn resolve_project(&self, cwd: &str) -> Option<String> {
        let cached = |projects: &Self| {
            let cache = projects.0.lock().unwrap_or_else(PoisonError::into_inner);
            cache.get(cwd).cloned()
        };
        cached(self).unwrap_or_else(|| {
            let key = project_key_text(cwd);
            let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            cache.insert(cwd.to_owned(), key.clone());
            key
        })
    }
}

/// Returns the key of the project of a directory.
pub(super) fn project_key_text(cwd: &str) -> Option<String> {
    project_key(Path::new(cwd)).to_str().map(str::to_owned)
}

/// Maximum size in bytes of a session that is read into memory. A larger one is read twice instead.
const MAX_IN_MEMORY_BYTES: u64 = 16 * 1024 * 1024;
/// Number of bytes after which turns are passed on.
const TURN_BATCH_BYTES: usize = 1024 * 1024;

/// Reads a source: completely, or only its new turns.
pub(super) fn read_source(
    reader: &dyn Reader,
    location: &SessionLocation,
    previous: Option<&PreviousRead>,
    projects: &ProjectCache,
    emit: &mut dyn FnMut(SourceUpdate),
) {
    let outcome = read_source_head(reader, location, projects).and_then(|source_head| {
        let Some(mut source_head) = source_head else {
            return Ok(SourceUpdate::NotAConversation);
        };
        if let Some(previous) = previous
            && let Some((turns, bytes)) = read_appended_turns(reader, location, previous)?
        {
            source_head.bytes_read = bytes;
            let first_turn = previous.turns.max(1);
            return Ok(SourceUpdate::Appended {
                source_head,
                first_turn,
                turns,
            });
        }
        let (turns, turn_count, skipped) = read_all_turns(reader, location, &mut |turns| {
            emit(SourceUpdate::Turns(turns));
        })?;
        // A file that ends in the middle, and has fewer turns than before, is being rewritten.
        if skipped.truncated && previous.is_some_and(|previous| turn_count < previous.turns) {
            let reason = "it is truncated and has fewer turns than before";
            return Err(ReadError::not_a_session(&location.path, reason));
        }
        source_head.bytes_read = location.size;
        Ok(SourceUpdate::Complete { source_head, turns })
    });
    emit(match outcome {
        Ok(update) => update,
        // A file that never was a session is not an error.
        Err(ReadError::NotASession { .. }) if previous.is_none() => SourceUpdate::NotAConversation,
        Err(error) => SourceUpdate::Failed(error),
    });
}

fn read_source_head(
    reader: &dyn Reader,
    location: &SessionLocation,
    projects: &ProjectCache,
) -> Result<Option<Box<SourceHead>>, ReadError> {
    let head = read_session_head(reader, location)?;
    match head.kind {
        NativeSessionKind::Conversation => {}
        NativeSessionKind::Subagent => return Ok(None),
        NativeSessionKind::Empty => return Err(no_conversation_error(location)),
    }
    let project = head
        .cwd
        .as_deref()
        .and_then(|cwd| projects.resolve_project(cwd));
    Ok(Some(Box::new(SourceHead {
        head,
        project,
        bytes_read: 0,
    })))
}

/// Passes all turns to `emit`, except for the last ones. Returns these, the number of all turns, and the counts of
/// content that could not be read.
fn read_all_turns(
    reader: &dyn Reader,
    location: &SessionLocation,
    emit: &mut dyn FnMut(Vec<IndexedTurn>),
) -> Result<(Vec<IndexedTurn>, u32, SkippedContent), ReadError> {
    let open = || reader.open_records(location, &ReadStart::Beginning);
    let mut batch = Vec::new();
    let mut batch_bytes = 0;
    let mut turn_count = 0;
    let mut add = |turn: NativeTurn| {
        turn_count += 1;
        let indexed_turn = IndexedTurn::from(turn);
        batch_bytes += indexed_turn
            .text
            .columns()
            .map(str::len)
            .iter()
            .sum::<usize>();
        if batch_bytes >= TURN_BATCH_BYTES {
            emit(std::mem::take(&mut batch));
            batch_bytes = 0;
        }
        batch.push(indexed_turn);
    };
    let skipped;
    if location.size > MAX_IN_MEMORY_BYTES {
        let turns = read_outline(open()?.as_mut())?.into_turns();
        let mut records = BoundedRecords(open()?);
        read_turns_from(&mut records, &turns, 0, &mut |_, turn| {
            add(turn);
            ControlFlow::Continue(())
        })?;
        skipped = records.skipped();
    } else {
        let mut builder = TurnBuilder::with_messages();
        let mut records = BoundedRecords(open()?);
        while let Some(record) = records.next()? {
            builder.add_record(record);
        }
        skipped = records.skipped();
        builder.into_turns().into_iter().for_each(&mut add);
    }
    Ok((batch, turn_count, skipped))
}

/// Returns the last known turn and those after it, and the number of bytes that were read for them. `None` if the
/// session must be read completely, because earlier turns have changed or too much is new.
fn read_appended_turns(
    reader: &dyn Reader,
    location: &SessionLocation,
    previous: &PreviousRead,
) -> Result<Option<(Vec<IndexedTurn>, u64)>, ReadError> {
    let Some(mark) = previous
        .last_turn_mark
        .clone()
        .filter(|_| location.size >= previous.size)
    else {
        return Ok(None);
    };
    let start_offset = match &mark {
        Mark::Line { end, .. } => *end,
        Mark::Id(_) => 0,
    };
    if location.size.saturating_sub(start_offset) > MAX_IN_MEMORY_BYTES {
        return Ok(None);
    }
    let records = match reader.open_records(location, &ReadStart::After(mark.clone())) {
        Err(ReadError::MarkNotFound { .. }) => return Ok(None),
        records => records?,
    };
    let mut records = ContinuedRecords {
        records: BoundedRecords(records),
        has_begun: false,
        is_reset: false,
    };
    let mut builder = TurnBuilder::with_messages();
    while let Some(record) = records.next()? {
        builder.add_record(record);
    }
    if records.is_reset || builder.is_unresolved() || builder.turns().is_empty() {
        return Ok(None);
    }
    let mut turns: Vec<IndexedTurn> = builder
        .into_turns()
        .into_iter()
        .map(IndexedTurn::from)
        .collect();
    if let Some(first) = turns.first_mut() {
        first.after.get_or_insert(mark);
    }
    Ok(Some((turns, location.size.saturating_sub(start_offset))))
}

/// Maximum number of records of a turn that are read for a snippet. Later records of a longer turn are ignored.
const MAX_SNIPPET_RECORDS: usize = 20_000;

/// Reads the words of the turn that begins after a mark.
pub(crate) fn read_turn_text(
    reader: &dyn Reader,
    location: &SessionLocation,
    after: Option<&Mark>,
) -> Result<SearchableText, ReadError> {
    let start = after.map_or(ReadStart::Beginning, |mark| ReadStart::After(mark.clone()));
    let mut records = BoundedRecords(reader.open_records(location, &start)?);
    let mut builder = TurnBuilder::with_messages();
    for _ in 0..MAX_SNIPPET_RECORDS {
        let Some(record) = records.next()? else { break };
        let is_prompt = |event: &RecordEvent| matches!(event, RecordEvent::Prompt(_));
        if builder.turns().len() == 1 && record.events.iter().any(is_prompt) {
            break;
        }
        builder.add_record(record);
    }
    let turn = builder.into_turns().into_iter().next();
    Ok(turn
        .map(|turn| SearchableText::from_messages(&turn.messages))
        .unwrap_or_default())
}

/// Records from the beginning of a turn on. Omits a rewind at the beginning of that turn, because the index already
/// reflects it.
struct ContinuedRecords {
    records: BoundedRecords,
    has_begun: bool,
    /// Whether the conversation restarted, so that earlier turns no longer count.
    is_reset: bool,
}

impl Records for ContinuedRecords {
    fn next(&mut self) -> Result<Option<NativeRecord>, ReadError> {
        let Some(mut record) = self.records.next()? else {
            return Ok(None);
        };
        if !self.has_begun {
            record
                .events
                .retain(|event| !matches!(event, RecordEvent::Rewind(_)));
        }
        self.has_begun = true;
        let is_restart =
            |event: &RecordEvent| matches!(event, RecordEvent::Rewind(RewindTarget::Beginning));
        self.is_reset |= record.events.iter().any(is_restart);
        Ok(Some(record))
    }

    fn skipped(&self) -> SkippedContent {
        self.records.skipped()
    }
}
