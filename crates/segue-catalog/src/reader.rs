//! What every agent's sessions can do, and why a read fails.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::{Fold, Found, Head, Keeping, Mark, NativeTurn, Records, Start, Whereabouts};

/// A native session can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file can't be opened or read.
    #[error("cannot read {}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not a session of this agent.
    #[error("{} is not a session: {why}", path.display())]
    NotASession {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The record that reading was to start after is not there: the session was cut or written anew.
    #[error("{} has changed: the record at {mark} is not there any more", path.display())]
    MarkLost {
        /// Which.
        path: PathBuf,
        /// The mark.
        mark: Mark,
    },
}

impl ReadError {
    /// What it is about.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. }
            | Self::NotASession { path, .. }
            | Self::MarkLost { path, .. } => path,
        }
    }

    /// What went wrong, with its cause.
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

/// One agent's native sessions. Reads only.
pub trait Reader: Send + Sync {
    /// The agent.
    fn provider(&self) -> &'static str;

    /// Where its sessions are. Looks at names and sizes only.
    fn find(&self) -> Whereabouts;

    /// The head of a session, from the beginning and the end of its file.
    fn head(&self, found: &Found) -> Result<Head, ReadError>;

    /// Its records, one at a time.
    fn records(&self, found: &Found, start: &Start) -> Result<Box<dyn Records>, ReadError>;

    /// What its sessions consist of on the disk, for whom that is known.
    fn keeping(&self) -> Option<&dyn Keeping> {
        None
    }

    /// The last record that tells anything, found without reading the session as a whole; none where there is none.
    fn end(&self, found: &Found) -> Result<Option<Mark>, ReadError> {
        let (turns, _) = self.recent(found, 1)?;
        Ok(turns.into_iter().next_back().map(|turn| turn.until))
    }

    /// Its last turns, and whether those are all.
    fn recent(&self, found: &Found, turns: usize) -> Result<(Vec<NativeTurn>, bool), ReadError> {
        let last = last_turns(|| self.records(found, &Start::Beginning), turns)?;
        Ok((last.turns, last.before == 0))
    }
}

/// The whole conversation, in memory.
pub fn conversation(records: &mut dyn Records) -> Result<Fold, ReadError> {
    fold(records, Fold::whole())
}

/// Where each turn is and how it ended, without what was said.
pub fn outline(records: &mut dyn Records) -> Result<Fold, ReadError> {
    fold(records, Fold::outline())
}

fn fold(records: &mut dyn Records, mut fold: Fold) -> Result<Fold, ReadError> {
    while let Some(record) = records.next()? {
        fold.add(record);
    }
    Ok(fold)
}

/// Reads the turns of an outline again, from one of them on, with what was said. Each is told as soon as nothing
/// more will be said in it, so that only those under way are in memory. Stops when `tell` says so.
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

/// The last turns among some records, which can be read again, and how many came before them.
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

/// Some last turns.
pub(crate) struct Last {
    pub(crate) turns: Vec<NativeTurn>,
    /// How many came before them in what was read.
    pub(crate) before: usize,
    /// Whether reading began too late to know.
    pub(crate) unresolved: bool,
}

/// One turn of an outline, read again.
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

/// What went wrong, with its cause. What that was caused by in turn says the same in other words.
#[must_use]
pub fn in_full(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
