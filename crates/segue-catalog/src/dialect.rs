//! What a format of lines has to say of itself, and what all such formats then can do.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use memchr::{memmem, memrchr};

use crate::json::lossy;
use crate::lines::{Backwards, Lines};
use crate::reader::last_turns;
use crate::{Event, Mark, NativeTurn, ReadError, Record, Records, Skipped, Start};

/// A line is not what the format has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

impl From<serde_json::Error> for Malformed {
    fn from(_: serde_json::Error) -> Self {
        Self
    }
}

/// What a line tells.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) at: Option<Timestamp>,
    pub(crate) events: Vec<Event>,
}

/// A format in which a session is a file of lines, each of them a JSON object.
///
/// Reading may begin at any prompt, so a dialect may remember what the last lines said, but must not need what
/// the first ones did.
pub(crate) trait Dialect: Default {
    /// Reads one line. A line that means nothing to us tells nothing.
    fn read(&mut self, line: &str, told: &mut Told) -> Result<(), Malformed>;

    /// Takes the line that reading begins after, which is not told again.
    fn remember(&mut self, line: &[u8]) {
        let _ = self.read(&lossy(line), &mut Told::default());
    }

    /// Whether a line can begin a turn: cheap, and mistaken in one direction only.
    fn may_prompt(line: &[u8]) -> bool;

    /// Whether reading may begin at a line, because a turn does.
    fn begins(line: &[u8]) -> bool {
        let mut told = Told::default();
        let text = lossy(line);
        let read = Self::default().read(&text, &mut told);
        let prompts = |event: &Event| matches!(event, Event::Prompt(_));
        read.is_ok() && told.events.iter().any(prompts)
    }
}

/// The records of a file in some dialect.
pub(crate) struct LineRecords<D> {
    path: PathBuf,
    lines: Lines<Box<dyn Read>>,
    dialect: D,
    skipped: Skipped,
}

impl<D: Dialect> LineRecords<D> {
    /// Reads a file from `start` on.
    pub(crate) fn open(path: &Path, start: &Start) -> Result<Self, ReadError> {
        let (file, size) = open(path).map_err(|error| ReadError::io(path, error))?;
        Self::within(path, file, size, start)
    }

    /// Reads a text of this size from `start` on.
    pub(crate) fn within<R: Read + Seek + 'static>(
        path: &Path,
        mut text: R,
        size: u64,
        start: &Start,
    ) -> Result<Self, ReadError> {
        let failed = |error| ReadError::io(path, error);
        let Start::After(mark) = start else {
            return Self::at(path, text, 0, size).map_err(failed);
        };
        let (begin, line) = find(&mut text, size, mark)
            .map_err(failed)?
            .ok_or_else(|| ReadError::lost(path, mark))?;
        let mut records = Self::at(path, text, begin, size).map_err(failed)?;
        records.dialect.remember(&line);
        Ok(records)
    }

    fn at<R: Read + Seek + 'static>(
        path: &Path,
        mut text: R,
        begin: u64,
        size: u64,
    ) -> std::io::Result<Self> {
        text.seek(SeekFrom::Start(begin))?;
        // What is written from now on is for the next read: a busy writer must not keep this one for ever.
        let input = text.take(size.saturating_sub(begin));
        Ok(Self::over(path, Box::new(input), begin))
    }

    /// Reads lines from anywhere; `begin` is where they are in the whole.
    pub(crate) fn over(path: &Path, input: Box<dyn Read>, begin: u64) -> Self {
        Self {
            path: path.to_owned(),
            lines: Lines::new(input, begin),
            dialect: D::default(),
            skipped: Skipped::default(),
        }
    }

    /// Reads on to a mark, in a text that can only be read from its beginning.
    pub(crate) fn pass(mut self, mark: &Mark) -> Result<Self, ReadError> {
        let Mark::Line { end, .. } = mark else {
            return Err(ReadError::lost(&self.path, mark));
        };
        loop {
            let line = self.lines.next();
            let line = line.map_err(|error| ReadError::io(&self.path, error))?;
            let Some(line) = line.filter(|line| line.end <= *end) else {
                return Err(ReadError::lost(&self.path, mark));
            };
            if Mark::line(line.end, line.bytes) == *mark {
                self.dialect.remember(line.bytes);
                return Ok(self);
            }
        }
    }

    /// Says that the beginning of the session is not there to be read.
    pub(crate) fn orphaned(mut self, orphaned: bool) -> Self {
        self.skipped.orphaned = orphaned;
        self
    }
}

impl<D: Dialect> Records for LineRecords<D> {
    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            let line = self
                .lines
                .next()
                .map_err(|error| ReadError::io(&self.path, error))?;
            let Some(line) = line else { return Ok(None) };
            if line.bytes.trim_ascii().is_empty() {
                continue;
            }
            let mut told = Told::default();
            let read = match std::str::from_utf8(line.bytes) {
                Ok(text) => self.dialect.read(text, &mut told),
                Err(_) if line.whole => {
                    self.skipped.mended += 1;
                    let text = String::from_utf8_lossy(line.bytes);
                    self.dialect.read(&text, &mut told)
                }
                Err(_) => Err(Malformed),
            };
            match read {
                Ok(()) if told.events.is_empty() => {}
                Ok(()) => {
                    return Ok(Some(Record {
                        mark: Mark::line(line.end, line.bytes),
                        at: told.at,
                        events: told.events,
                    }));
                }
                Err(Malformed) if line.whole => self.skipped.malformed += 1,
                Err(Malformed) => self.skipped.torn = true,
            }
        }
    }

    fn skipped(&self) -> Skipped {
        Skipped {
            oversized: self.lines.oversized,
            ..self.skipped
        }
    }
}

fn open(path: &Path) -> std::io::Result<(File, u64)> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// Where to go on after a mark, and the line it was made of; none if that is not there any more.
fn find<R: Read + Seek>(
    text: &mut R,
    size: u64,
    mark: &Mark,
) -> std::io::Result<Option<(u64, Vec<u8>)>> {
    let Mark::Line { end, .. } = mark else {
        return Ok(None);
    };
    if *end > size {
        return Ok(None);
    }
    let Some((start, line)) = Backwards::new(text, *end).next()? else {
        return Ok(None);
    };
    let there = start + line.len() as u64 == *end && mark_of(start, &line) == *mark;
    Ok(there.then_some((*end, line)))
}

fn mark_of(start: u64, line: &[u8]) -> Mark {
    let bytes = line.strip_suffix(b"\r").unwrap_or(line);
    Mark::line(start + line.len() as u64, bytes)
}

/// The last record of a file, found from its end.
pub(crate) fn end<D: Dialect>(path: &Path) -> Result<Option<Mark>, ReadError> {
    let failed = |error| ReadError::io(path, error);
    let (text, size) = open(path).map_err(failed)?;
    end_within::<D, _>(text, size).map_err(failed)
}

/// The last record of any text of this size. A line in the making is none yet, and a name does not tell where the
/// conversation is.
pub(crate) fn end_within<D: Dialect, R: Read + Seek>(
    text: R,
    size: u64,
) -> std::io::Result<Option<Mark>> {
    let mut lines = Backwards::new(text, size);
    while let Some((start, line)) = lines.next()? {
        let whole = start + (line.len() as u64) < size;
        let mut told = Told::default();
        let read = D::default().read(&lossy(&line), &mut told);
        let titles = |event: &Event| matches!(event, Event::Titled { .. });
        if whole && read.is_ok() && !told.events.iter().all(titles) {
            return Ok(Some(mark_of(start, &line)));
        }
    }
    Ok(None)
}

/// The last turns of a file, found from its end.
pub(crate) fn recent<D: Dialect + 'static>(
    path: &Path,
    turns: usize,
) -> Result<(Vec<NativeTurn>, bool), ReadError> {
    recent_within::<D, _>(path, || open(path), turns)
}

/// The last turns of any text that can be opened again.
pub(crate) fn recent_within<D: Dialect + 'static, R: Read + Seek + 'static>(
    path: &Path,
    open: impl Fn() -> std::io::Result<(R, u64)>,
    turns: usize,
) -> Result<(Vec<NativeTurn>, bool), ReadError> {
    let failed = |error| ReadError::io(path, error);
    let (text, size) = open().map_err(failed)?;
    let mut lines = Backwards::new(text, size);
    // One more than asked for, so that it is known whether there are more.
    let mut wanted = turns.saturating_add(1);
    let mut prompts = 0;
    loop {
        let mut begin = 0;
        while let Some((start, line)) = lines.next().map_err(failed)? {
            if D::may_prompt(&line) && D::begins(&line) {
                prompts += 1;
                if prompts >= wanted {
                    begin = start;
                    break;
                }
            }
        }
        let records = || {
            let (text, _) = open().map_err(failed)?;
            let records = LineRecords::<D>::at(path, text, begin, size).map_err(failed)?;
            Ok(Box::new(records) as Box<dyn Records>)
        };
        let last = last_turns(records, turns)?;
        // What was rewound is no turn any more, and a rewind may reach further back than we did.
        let enough = last.turns.len() >= turns && !last.unresolved;
        if begin == 0 || enough {
            return Ok((last.turns, begin == 0 && last.before == 0));
        }
        wanted = wanted.saturating_mul(2).max(prompts + 1);
    }
}

/// The end of a file. Its first line is rarely whole; it does not parse, but may hold the last time.
pub(crate) fn ending<R: Read + Seek>(
    file: &mut R,
    size: u64,
    bytes: u64,
) -> std::io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(size.saturating_sub(bytes)))?;
    let mut tail = Vec::with_capacity(usize::try_from(bytes.min(size)).unwrap_or_default());
    file.take(bytes).read_to_end(&mut tail)?;
    Ok(tail)
}

/// The lines of the beginning of a file; what follows the last line feed is one only at the end of the file.
pub(crate) fn whole_lines(bytes: &[u8], at_end: bool) -> impl Iterator<Item = &[u8]> {
    let until = if at_end {
        bytes.len()
    } else {
        memrchr(b'\n', bytes).unwrap_or(0)
    };
    let mut rest = bytes.get(..until).unwrap_or_default();
    let lines = std::iter::from_fn(move || {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let (line, after) = rest.split_at_checked(end).filter(|_| !rest.is_empty())?;
        rest = after.get(1..).unwrap_or_default();
        Some(line)
    });
    lines.filter(|line| !line.is_empty())
}

/// The last time that stands behind `name` in some lines, without reading them.
pub(crate) fn last_time(bytes: &[u8], name: &[u8]) -> Option<Timestamp> {
    let at = memmem::rfind(bytes, name)?;
    let rest = bytes.get(at + name.len()..)?.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"")?;
    let time = rest.get(..memchr::memchr(b'"', rest)?)?;
    std::str::from_utf8(time).ok()?.parse().ok()
}
