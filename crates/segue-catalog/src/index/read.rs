//! Reading of a native session for the index: its head, and the words of its turns.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use segue_core::session::Usage;

use super::texts::{Bounded, Texts};
use crate::head::{head_of, nothing_said};
use crate::record::Back;
use crate::{
    Event, Fold, Found, Head, Kind, Mark, NativeTurn, ReadError, Reader, Record, Records, Skipped,
    Start, outline, project_key, replay,
};

/// A turn, as the index stores it.
#[derive(Debug, Clone, Default)]
pub(super) struct Passage {
    pub(super) at: Option<Timestamp>,
    pub(super) after: Option<Mark>,
    pub(super) messages: u32,
    pub(super) usage: Usage,
    pub(super) model: Option<String>,
    /// Words of the turn, in the form of the full-text index.
    pub(super) texts: Texts,
}

impl From<NativeTurn> for Passage {
    fn from(turn: NativeTurn) -> Self {
        Self {
            at: turn.ended_at.or(turn.started_at),
            messages: turn.said,
            usage: turn.usage,
            model: turn.model,
            texts: Texts::of(&turn.messages).spaced(),
            after: turn.after,
        }
    }
}

/// State of a session at its previous read.
#[derive(Debug, Clone)]
pub(super) struct Before {
    /// Number of its turns.
    pub(super) turns: u32,
    /// Mark after which its last turn begins.
    pub(super) after: Option<Mark>,
    /// Size of its source in bytes.
    pub(super) size: u64,
}

/// Result of reading a source, which may consist of several of these values.
pub(super) enum Told {
    /// The next turns of a session that is read completely. More turns follow.
    Turns(Vec<Passage>),
    /// The last, or all, turns of a session that was read completely.
    Whole {
        placed: Box<Placed>,
        turns: Vec<Passage>,
    },
    /// The changed last turn of a session, and the turns after it.
    Grown {
        placed: Box<Placed>,
        first: u32,
        turns: Vec<Passage>,
    },
    /// A source that is no conversation.
    Other,
    /// A source that can't be read now.
    Failed(ReadError),
}

/// A head, and the project to which it belongs.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) head: Head,
    pub(super) project: Option<String>,
    /// Number of bytes of the source that were read.
    pub(super) bytes: u64,
}

/// Cache of the projects of directories.
#[derive(Default)]
pub(super) struct Projects(Mutex<HashMap<String, Option<String>>>);

impl Projects {
    fn of(&self, cwd: &str) -> Option<String> {
        let known = |projects: &Self| {
            let known = projects.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(cwd).cloned()
        };
        known(self).unwrap_or_else(|| {
            let key = project_of(cwd);
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(cwd.to_owned(), key.clone());
            key
        })
    }
}

/// Returns the key of the project of a directory.
pub(super) fn project_of(cwd: &str) -> Option<String> {
    project_key(Path::new(cwd)).to_str().map(str::to_owned)
}

/// Maximum size in bytes of a session that is read into memory. A larger one is read twice instead.
const LARGE: u64 = 16 * 1024 * 1024;
/// Number of bytes after which turns are passed on.
const ENOUGH: usize = 1024 * 1024;

/// Reads a source: completely, or only its new turns.
pub(super) fn read(
    reader: &dyn Reader,
    found: &Found,
    before: Option<&Before>,
    projects: &Projects,
    tell: &mut dyn FnMut(Told),
) {
    let outcome = head(reader, found, projects).and_then(|placed| {
        let Some(mut placed) = placed else {
            return Ok(Told::Other);
        };
        if let Some(before) = before
            && let Some((turns, bytes)) = grown(reader, found, before)?
        {
            placed.bytes = bytes;
            let first = before.turns.max(1);
            return Ok(Told::Grown {
                placed,
                first,
                turns,
            });
        }
        let (turns, all, skipped) = whole(reader, found, &mut |turns| tell(Told::Turns(turns)))?;
        // A file that ends in the middle, and has fewer turns than before, is being rewritten.
        if skipped.torn && before.is_some_and(|before| all < before.turns) {
            let why = "it ends in the middle, and has less than it had";
            return Err(ReadError::not_a_session(&found.path, why));
        }
        placed.bytes = found.size;
        Ok(Told::Whole { placed, turns })
    });
    tell(match outcome {
        Ok(told) => told,
        // A file that never was a session is no error.
        Err(ReadError::NotASession { .. }) if before.is_none() => Told::Other,
        Err(error) => Told::Failed(error),
    });
}

fn head(
    reader: &dyn Reader,
    found: &Found,
    projects: &Projects,
) -> Result<Option<Box<Placed>>, ReadError> {
    let head = head_of(reader, found)?;
    match head.kind {
        Kind::Conversation => {}
        Kind::Subagent => return Ok(None),
        Kind::Empty => return Err(nothing_said(found)),
    }
    let project = head.cwd.as_deref().and_then(|cwd| projects.of(cwd));
    Ok(Some(Box::new(Placed {
        head,
        project,
        bytes: 0,
    })))
}

/// Passes all turns to `tell`, except for the last ones. Returns these, the number of all turns, and the counts of
/// content that could not be read.
fn whole(
    reader: &dyn Reader,
    found: &Found,
    tell: &mut dyn FnMut(Vec<Passage>),
) -> Result<(Vec<Passage>, u32, Skipped), ReadError> {
    let open = || reader.records(found, &Start::Beginning);
    let mut passages = Vec::new();
    let mut bytes = 0;
    let mut all = 0;
    let mut add = |turn: NativeTurn| {
        all += 1;
        let passage = Passage::from(turn);
        bytes += passage.texts.columns().map(str::len).iter().sum::<usize>();
        if bytes >= ENOUGH {
            tell(std::mem::take(&mut passages));
            bytes = 0;
        }
        passages.push(passage);
    };
    let skipped;
    if found.size > LARGE {
        let turns = outline(open()?.as_mut())?.into_turns();
        let mut records = Bounded(open()?);
        replay(&mut records, &turns, 0, &mut |_, turn| {
            add(turn);
            ControlFlow::Continue(())
        })?;
        skipped = records.skipped();
    } else {
        let mut fold = Fold::whole();
        let mut records = Bounded(open()?);
        while let Some(record) = records.next()? {
            fold.add(record);
        }
        skipped = records.skipped();
        fold.into_turns().into_iter().for_each(&mut add);
    }
    Ok((passages, all, skipped))
}

/// Returns the last known turn and those after it, and the number of bytes that were read for them. `None` if the
/// session must be read completely, because earlier turns have changed or too much is new.
fn grown(
    reader: &dyn Reader,
    found: &Found,
    before: &Before,
) -> Result<Option<(Vec<Passage>, u64)>, ReadError> {
    let Some(mark) = before.after.clone().filter(|_| found.size >= before.size) else {
        return Ok(None);
    };
    let from = match &mark {
        Mark::Line { end, .. } => *end,
        Mark::Id(_) => 0,
    };
    if found.size.saturating_sub(from) > LARGE {
        return Ok(None);
    }
    let records = match reader.records(found, &Start::After(mark.clone())) {
        Err(ReadError::MarkLost { .. }) => return Ok(None),
        records => records?,
    };
    let mut records = Continued {
        records: Bounded(records),
        begun: false,
        reset: false,
    };
    let mut fold = Fold::whole();
    while let Some(record) = records.next()? {
        fold.add(record);
    }
    if records.reset || fold.is_unresolved() || fold.turns().is_empty() {
        return Ok(None);
    }
    let mut turns: Vec<Passage> = fold.into_turns().into_iter().map(Passage::from).collect();
    if let Some(first) = turns.first_mut() {
        first.after.get_or_insert(mark);
    }
    Ok(Some((turns, found.size.saturating_sub(from))))
}

/// Maximum number of records of a turn that are read for a snippet. Later records of a longer turn are ignored.
const LOOK: usize = 20_000;

/// Reads the words of the turn that begins after a mark.
pub(crate) fn texts_after(
    reader: &dyn Reader,
    found: &Found,
    after: Option<&Mark>,
) -> Result<Texts, ReadError> {
    let start = after.map_or(Start::Beginning, |mark| Start::After(mark.clone()));
    let mut records = Bounded(reader.records(found, &start)?);
    let mut fold = Fold::whole();
    for _ in 0..LOOK {
        let Some(record) = records.next()? else { break };
        let prompts = |event: &Event| matches!(event, Event::Prompt(_));
        if fold.turns().len() == 1 && record.events.iter().any(prompts) {
            break;
        }
        fold.add(record);
    }
    let turn = fold.into_turns().into_iter().next();
    Ok(turn
        .map(|turn| Texts::of(&turn.messages))
        .unwrap_or_default())
}

/// Records from the beginning of a turn on. Omits a rewind at the beginning of that turn, because the index already
/// reflects it.
struct Continued {
    records: Bounded,
    begun: bool,
    /// Whether the conversation restarted, so that earlier turns no longer count.
    reset: bool,
}

impl Records for Continued {
    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        let Some(mut record) = self.records.next()? else {
            return Ok(None);
        };
        if !self.begun {
            record
                .events
                .retain(|event| !matches!(event, Event::Rewind(_)));
        }
        self.begun = true;
        let anew = |event: &Event| matches!(event, Event::Rewind(Back::ToTheBeginning));
        self.reset |= record.events.iter().any(anew);
        Ok(Some(record))
    }

    fn skipped(&self) -> Skipped {
        self.records.skipped()
    }
}
