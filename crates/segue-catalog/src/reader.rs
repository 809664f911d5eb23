//! Interface to the sessions of one agent, and the errors of reading them.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::{Fold, Found, Head, Keeping, Mark, NativeTurn, Records, Start, Whereabouts};

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
    #[error("{} is not a session: {why}", path.display())]
    NotASession {
        /// Path of the file.
        path: PathBuf,
        /// Reason for which it is not a session.
        why: String,
    },
    /// The record after which reading should start no longer exists, because the session was truncated or rewritten.
    #[error("{} has changed: the record at {mark} is not there any more", path.display())]
    MarkLost {
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
            | Self::MarkLost { path, .. } => path,
        }
    }

    /// Returns the message with its cause.
    #[must_use]
    pub fn in_full(&self) -> String {
        in_full(self)
    }

    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn not_a_session(path: &Path, why: impl Into<String>) -> Self {
        Self::NotASession {
            path: path.to_owned(),
            why: why.into(),
        }
    }

    pub(crate) fn lost(path: &Path, mark: &Mark) -> Self {
        Self::MarkLost {
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
    fn find(&self) -> Whereabouts;

    /// Reads the head of a session from the beginning and the end of its file.
    fn head(&self, found: &Found) -> Result<Head, ReadError>;

    /// Opens the records of a session after `start`.
    fn records(&self, found: &Found, start: &Start) -> Result<Box<dyn Records>, ReadError>;

    /// Returns access to the artifacts of the sessions. `None` if segue does not support that for this agent.
    fn keeping(&self) -> Option<&dyn Keeping> {
        None
    }

    /// Returns the mark of the last meaningful record. `None` if there is none. Readers override this function if their
    /// format permits a search that does not read the complete session.
    fn end(&self, found: &Found) -> Result<Option<Mark>, ReadError> {
        let (turns, _) = self.recent(found, 1)?;
        Ok(turns.into_iter().next_back().map(|turn| turn.until))
    }

    /// Returns the last turns of a session, and `true` if these are all its turns.
    fn recent(&self, found: &Found, turns: usize) -> Result<(Vec<NativeTurn>, bool), ReadError> {
        let last = last_turns(|| self.records(found, &Start::Beginning), turns)?;
        Ok((last.turns, last.before == 0))
    }
}

/// Reads a complete conversation into memory.
pub fn conversation(records: &mut dyn Records) -> Result<Fold, ReadError> {
    fold(records, Fold::whole())
}

/// Reads the position and the state of each turn, without messages.
pub fn outline(records: &mut dyn Records) -> Result<Fold, ReadError> {
    fold(records, Fold::outline())
}

fn fold(records: &mut dyn Records, mut fold: Fold) -> Result<Fold, ReadError> {
    while let Some(record) = records.next()? {
        fold.add(record);
    }
    Ok(fold)
}

/// Reads the turns of an outline a second time, from the index `from` on, with their messages. Passes each turn to
/// `tell` as soon as no later record affects it, so that only unfinished turns are in memory. Stops if `tell` returns a
/// break.
pub fn replay(
    records: &mut dyn Records,
    outlined: &[NativeTurn],
    from: usize,
    tell: &mut dyn FnMut(usize, NativeTurn) -> ControlFlow<()>,
) -> Result<(), ReadError> {
    let mut fold = Fold::again(outlined, from);
    let mut rest = outlined.iter().enumerate().skip(from).peekable();
    while rest.peek().is_some() {
        let Some(record) = records.next()? else {
            return Ok(());
        };
        fold.add(record);
        while let Some(&(index, turn)) = rest.peek()
            && let Some(turn) = fold.finished(index, turn)
        {
            rest.next();
            if tell(index, turn).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns the last turns, and the number of turns before them. Opens the records twice.
pub(crate) fn last_turns(
    open: impl Fn() -> Result<Box<dyn Records>, ReadError>,
    turns: usize,
) -> Result<Last, ReadError> {
    let outlined = outline(open()?.as_mut())?;
    let from = outlined.turns().len().saturating_sub(turns);
    let mut last = Vec::new();
    let mut tell = |_, turn| {
        last.push(turn);
        ControlFlow::Continue(())
    };
    replay(open()?.as_mut(), outlined.turns(), from, &mut tell)?;
    Ok(Last {
        turns: last,
        before: from,
        unresolved: outlined.is_unresolved(),
    })
}

/// The last turns of a session.
pub(crate) struct Last {
    pub(crate) turns: Vec<NativeTurn>,
    /// Number of turns before them in the records that were read.
    pub(crate) before: usize,
    /// Whether a record refers to a missing one, because reading began too late.
    pub(crate) unresolved: bool,
}

/// Reads a turn of an outline with its messages.
#[cfg(test)]
pub(crate) fn turn(
    reader: &dyn Reader,
    found: &Found,
    outlined: &NativeTurn,
) -> Result<NativeTurn, ReadError> {
    let records = || reader.records(found, &Start::Beginning);
    let all = outline(records()?.as_mut())?.into_turns();
    let index = all.iter().position(|turn| turn == outlined);
    let mut read = None;
    let mut tell = |_, turn| {
        read = Some(turn);
        ControlFlow::Break(())
    };
    replay(
        records()?.as_mut(),
        &all,
        index.unwrap_or(all.len()),
        &mut tell,
    )?;
    Ok(read.unwrap_or_else(|| outlined.clone()))
}

/// Returns the message of an error with its cause. Omits deeper causes, because they repeat the first one in other
/// words.
#[must_use]
pub fn in_full(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
