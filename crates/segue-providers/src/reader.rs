//! Interface to the sessions of one agent, and the errors of reading them.

mod archive_error;
pub(crate) mod artifacts;
pub(crate) mod borrowed_json;
pub(crate) mod discovery;
pub(crate) mod line_format;
pub(crate) mod line_reader;
mod mark;
pub(crate) mod record;
mod request_usage;
pub mod retention;
pub(crate) mod session_head;
mod tail;
mod turn_builder;

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use segue_core::id::ProviderId;

pub use archive_error::ArchiveError;
pub use artifacts::{
    Artifact, ArtifactRole, SessionArtifacts, SessionStorage, list_directory, modification_time,
};
pub use discovery::{IdHint, SessionLocation, SessionScan};
pub use mark::{Mark, MarkError};
pub use record::{
    KeyedMessage, NativeRecord, ReadStart, RecordEvent, Records, RewindTarget, SkippedContent,
};
pub use request_usage::{NativeRequest, RequestCollector, RequestDeduplicator};
pub use session_head::{NativeSessionKind, SessionHead};
pub use tail::{TailTurns, read_tail};
pub use turn_builder::{NativeTurn, TurnBuilder};

/// An error of reading a native session.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file can't be opened or read.
    #[error("cannot read {}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The file is not a session of this agent.
    #[error("{} is not a session: {reason}", path.display())]
    NotASession {
        /// Path of the file.
        path: PathBuf,
        /// Reason for which it is not a session.
        reason: String,
    },
    /// The record after which reading should start no longer exists, because the session was truncated or rewritten.
    #[error("{} has changed: the record at {mark} no longer exists", path.display())]
    MarkNotFound {
        /// Path of the session.
        path: PathBuf,
        /// Mark of the missing record.
        mark: Mark,
    },
}

impl ReadError {
    /// Returns the path of the file or directory that the error is about.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. }
            | Self::NotASession { path, .. }
            | Self::MarkNotFound { path, .. } => path,
        }
    }

    /// Returns the message with its cause.
    #[must_use]
    pub fn format_error_chain(&self) -> String {
        format_error_chain(self)
    }

    /// Logs the error without its text, because the text may quote the session.
    pub fn log(&self, provider: &ProviderId) {
        let error_kind = match self {
            Self::Io { source, .. } => source.kind().to_string(),
            Self::NotASession { .. } => "not a session".to_owned(),
            Self::MarkNotFound { .. } => "mark not found".to_owned(),
        };
        let path = self.path().display();
        tracing::warn!(%provider, %path, error_kind, "session not read");
    }

    /// Creates the error for a file that can't be opened or read.
    #[must_use]
    pub fn io(path: &Path, source: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// Creates the error for a file that is not a session.
    pub fn not_a_session(path: &Path, reason: impl Into<String>) -> Self {
        Self::NotASession {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }

    pub(crate) fn mark_not_found(path: &Path, mark: &Mark) -> Self {
        Self::MarkNotFound {
            path: path.to_owned(),
            mark: mark.clone(),
        }
    }
}

/// Read-only access to the native sessions of one agent.
pub trait Reader: Send + Sync {
    /// Returns the name of the agent.
    fn provider(&self) -> &'static str;

    /// Finds the sessions. Reads only names and sizes.
    fn scan_sessions(&self) -> SessionScan;

    /// Reads the head of a session from the beginning and the end of its file.
    fn read_head(&self, location: &SessionLocation) -> Result<SessionHead, ReadError>;

    /// Opens the records of a session after `start`.
    fn open_records(
        &self,
        location: &SessionLocation,
        start: &ReadStart,
    ) -> Result<Box<dyn Records>, ReadError>;

    /// Returns access to the artifacts of the sessions. `None` if segue does not support that for this agent.
    fn storage(&self) -> Option<&dyn SessionStorage> {
        None
    }

    /// Returns the mark of the last meaningful record. `None` if there is none. Readers override this function if their
    /// format permits a search that does not read the complete session.
    fn find_last_mark(&self, location: &SessionLocation) -> Result<Option<Mark>, ReadError> {
        let (turns, _) = self.read_recent_turns(location, 1)?;
        Ok(turns.into_iter().next_back().map(|turn| turn.until))
    }

    /// Returns the last turns of a session, and `true` if these are all its turns.
    fn read_recent_turns(
        &self,
        location: &SessionLocation,
        turns: usize,
    ) -> Result<(Vec<NativeTurn>, bool), ReadError> {
        let last = read_last_turns(|| self.open_records(location, &ReadStart::Beginning), turns)?;
        Ok((last.turns, last.turns_before == 0))
    }
}

/// Reads a complete conversation into memory.
pub fn read_turns(records: &mut dyn Records) -> Result<TurnBuilder, ReadError> {
    build_turns(records, TurnBuilder::with_messages())
}

/// Reads the position and the state of each turn, without messages.
pub fn read_outline(records: &mut dyn Records) -> Result<TurnBuilder, ReadError> {
    build_turns(records, TurnBuilder::for_outline())
}

fn build_turns(
    records: &mut dyn Records,
    mut builder: TurnBuilder,
) -> Result<TurnBuilder, ReadError> {
    while let Some(record) = records.next()? {
        builder.add_record(record);
    }
    Ok(builder)
}

/// Reads the turns of an outline a second time, from the index `first_index` on, with their messages. Passes each turn
/// to `emit` as soon as no later record affects it, so that only unfinished turns are in memory. Stops if `emit`
/// returns a break.
pub fn read_turns_from(
    records: &mut dyn Records,
    outline: &[NativeTurn],
    first_index: usize,
    emit: &mut dyn FnMut(usize, NativeTurn) -> ControlFlow<()>,
) -> Result<(), ReadError> {
    let mut builder = TurnBuilder::for_second_pass(outline, first_index);
    let mut pending = outline.iter().enumerate().skip(first_index).peekable();
    while pending.peek().is_some() {
        let Some(record) = records.next()? else {
            return Ok(());
        };
        builder.add_record(record);
        while let Some(&(index, turn)) = pending.peek()
            && let Some(turn) = builder.take_finished_turn(index, turn)
        {
            pending.next();
            if emit(index, turn).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns the last turns, and the number of turns before them. Opens the records twice.
pub(crate) fn read_last_turns(
    open: impl Fn() -> Result<Box<dyn Records>, ReadError>,
    turns: usize,
) -> Result<LastTurns, ReadError> {
    let outline = read_outline(open()?.as_mut())?;
    let first_index = outline.turns().len().saturating_sub(turns);
    let mut last = Vec::new();
    let mut collect = |_, turn| {
        last.push(turn);
        ControlFlow::Continue(())
    };
    read_turns_from(open()?.as_mut(), outline.turns(), first_index, &mut collect)?;
    Ok(LastTurns {
        turns: last,
        turns_before: first_index,
        unresolved: outline.is_unresolved(),
    })
}

/// The last turns of a session.
pub(crate) struct LastTurns {
    pub(crate) turns: Vec<NativeTurn>,
    /// Number of turns before them in the records that were read.
    pub(crate) turns_before: usize,
    /// Whether a record refers to a missing one, because reading began too late.
    pub(crate) unresolved: bool,
}

/// Reads a turn of an outline with its messages.
#[cfg(test)]
pub(crate) fn read_turn(
    reader: &dyn Reader,
    location: &SessionLocation,
    outline: &NativeTurn,
) -> Result<NativeTurn, ReadError> {
    let records = || reader.open_records(location, &ReadStart::Beginning);
    let turns = read_outline(records()?.as_mut())?.into_turns();
    let index = turns.iter().position(|turn| turn == outline);
    let mut result = None;
    let mut collect = |_, turn| {
        result = Some(turn);
        ControlFlow::Break(())
    };
    read_turns_from(
        records()?.as_mut(),
        &turns,
        index.unwrap_or(turns.len()),
        &mut collect,
    )?;
    Ok(result.unwrap_or_else(|| outline.clone()))
}

/// Returns `true` if a text begins with one of `prefixes`, so that an agent wrote it and not the user. Each agent has its
/// own list, because the user may paste a text of one agent into another.
pub(crate) fn has_any_prefix(text: &str, prefixes: &[&str]) -> bool {
    let text = text.trim_start();
    prefixes.iter().any(|prefix| text.starts_with(prefix))
}

/// Returns the message of an error with its cause. Omits deeper causes, because they repeat the first one in other
/// words.
#[must_use]
pub fn format_error_chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
