//! What the index takes from one native session: its head, and the words of its turns.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use segue_core::Usage;

use super::texts::{Bounded, Texts};
use crate::head::{head_of, nothing_said};
use crate::record::Back;
use crate::{
    Event, Fold, Found, Head, Kind, Mark, NativeTurn, ReadError, Reader, Record, Records, Skipped,
    Start, outline, project_key, replay,
};

/// A turn, as far as the index keeps it.
#[derive(Debug, Clone, Default)]
pub(super) struct Passage {
    pub(super) at: Option<Timestamp>,
    pub(super) after: Option<Mark>,
    pub(super) messages: u32,
    pub(super) usage: Usage,
    pub(super) model: Option<String>,
    /// As the full-text index takes them.
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

/// What was read of a session before.
#[derive(Debug, Clone)]
pub(super) struct Before {
    /// How many turns it had.
    pub(super) turns: u32,
    /// Where its last turn begins.
    pub(super) after: Option<Mark>,
    /// How large it was.
    pub(super) size: u64,
}

/// What a source tells, piece by piece.
pub(super) enum Told {
    /// The next turns of a session that is read as a whole, and still goes on.
    Turns(Vec<Passage>),
    /// The last of its turns, or all of them.
    Whole {
        placed: Box<Placed>,
        turns: Vec<Passage>,
    },
    /// What has become of its last turn, and the turns after it.
    Grown {
        placed: Box<Placed>,
        first: u32,
        turns: Vec<Passage>,
    },
    /// It is no conversation.
    Other,
    /// It can't be read now.
    Failed(ReadError),
}

/// A head, and the project it belongs to.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) head: Head,
    pub(super) project: Option<String>,
    /// How much of the source was read.
    pub(super) bytes: u64,
}

/// The projects of directories that were looked at before.
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

/// What tells the project of a directory from others.
pub(super) fn project_of(cwd: &str) -> Option<String> {
    project_key(Path::new(cwd)).to_str().map(str::to_owned)
}

/// A session larger than this is not held in memory but read twice.
const LARGE: u64 = 16 * 1024 * 1024;
/// Turns are handed on once they have so many bytes.
const ENOUGH: usize = 1024 * 1024;

/// Reads a source: all of it, or what is new in it.
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
        // A file that ends in the middle, and has less than it had, is being written anew.
        if skipped.torn && before.is_some_and(|before| all < before.turns) {
            let why = "it ends in the middle, and has less than it had";
            return Err(ReadError::not_a_session(&found.path, why));
        }
        placed.bytes = found.size;
        Ok(Told::Whole { placed, turns })
    });
    tell(match outcome {
        Ok(told) => told,
        // Whatever never was a session is not ours to complain about.
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

/// Tells all turns, but for the last ones, which are given back with how many there are in all and what could not be
/// read.
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

/// The last turn that was known and those after it, and how much was read for them; none if more has changed than
/// that.
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

/// So many records of a turn are read to show a piece of it; what comes later in one that long is not looked at.
const LOOK: usize = 20_000;

/// The words of the turn that begins after a mark.
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

/// Records from the beginning of a turn on. That this turn itself once was a rewind has been taken into account.
struct Continued {
    records: Bounded,
    begun: bool,
    /// Whether the conversation began anew, so that what came before no longer counts.
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
