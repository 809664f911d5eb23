//! What every agent's sessions can do, and why a read fails.

use std::io;
use std::path::{Path, PathBuf};

use crate::{Fold, Found, Head, Mark, NativeTurn, Records, Start, Whereabouts};

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

    /// Its last turns, and whether those are all.
    fn recent(&self, found: &Found, turns: usize) -> Result<(Vec<NativeTurn>, bool), ReadError> {
        let mut all = conversation(self.records(found, &Start::Beginning)?.as_mut())?.into_turns();
        let skipped = all.len().saturating_sub(turns);
        all.drain(..skipped);
        Ok((all, skipped == 0))
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

/// One turn of an outline, with what was said.
pub fn turn(
    reader: &dyn Reader,
    found: &Found,
    outlined: &NativeTurn,
) -> Result<NativeTurn, ReadError> {
    let start = match &outlined.after {
        Some(mark) => Start::After(mark.clone()),
        None => Start::Beginning,
    };
    let mut records = reader.records(found, &start)?;
    let mut fold = Fold::whole();
    while let Some(record) = records.next()? {
        let last = record.mark == outlined.until;
        fold.add(record);
        if last {
            break;
        }
    }
    let nth = outlined.nth as usize;
    let mut turn = fold
        .into_turns()
        .into_iter()
        .nth(nth)
        .unwrap_or_else(|| outlined.clone());
    turn.state = outlined.state;
    turn.compacted = outlined.compacted;
    turn.after.clone_from(&outlined.after);
    // What a later rewind took from it.
    turn.messages.truncate(outlined.said as usize);
    turn.said = outlined.said;
    Ok(turn)
}
