//! Interface of formats in which a session is a file of lines, and the operations that all these formats share.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use memchr::{memmem, memrchr};

use crate::json::lossy;
use crate::lines::{Backwards, Lines};
use crate::reader::last_turns;
use crate::{Event, Mark, NativeTurn, ReadError, Record, Records, Skipped, Start};

/// Error for a line that does not match the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

impl From<serde_json::Error> for Malformed {
    fn from(_: serde_json::Error) -> Self {
        Self
    }
}

/// Time and events of a line.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) at: Option<Timestamp>,
    pub(crate) events: Vec<Event>,
}

/// A format in which a session is a file of lines, each of them a JSON object.
///
/// Reading may begin at any prompt. An implementation may therefore remember recent lines, but must not depend on the
/// first lines.
pub(crate) trait Dialect: Default {
    /// Reads one line and adds its events to `told`. A line that has no meaning for segue adds none.
    fn read(&mut self, line: &str, told: &mut Told) -> Result<(), Malformed>;

    /// Applies the line after which reading begins, without emitting its events.
    fn remember(&mut self, line: &[u8]) {
        let _ = self.read(&lossy(line), &mut Told::default());
    }

    /// Returns `true` if a line may begin a turn. The check is cheap: it may return `true` for other lines, but never
    /// returns `false` for a line that begins a turn.
    fn may_prompt(line: &[u8]) -> bool;

    /// Returns `true` if a line begins a turn, so that reading may begin at it.
    fn begins(line: &[u8]) -> bool {
        let mut told = Told::default();
        let text = lossy(line);
        let read = Self::default().read(&text, &mut told);
        let prompts = |event: &Event| matches!(event, Event::Prompt(_));
        read.is_ok() && told.events.iter().any(prompts)
    }
}

/// Records of a file in the format `D`.
pub(crate) struct LineRecords<D> {
    path: PathBuf,
    lines: Lines<Box<dyn Read>>,
    dialect: D,
    skipped: Skipped,
}

impl<D: Dialect> LineRecords<D> {
    /// Opens the records of a file after `start`.
    pub(crate) fn open(path: &Path, start: &Start) -> Result<Self, ReadError> {
        let (file, size) = open(path).map_err(|error| ReadError::io(path, error))?;
        Self::within(path, file, size, start)
    }

    /// Opens the records of a text of `size` bytes after `start`.
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
        // Bytes that are appended from now on belong to the next read, because this read would never end while another
        // process keeps writing.
        let input = text.take(size.saturating_sub(begin));
        Ok(Self::over(path, Box::new(input), begin))
    }

    /// Reads records from any input. `begin` is the offset of the input in the complete text.
    pub(crate) fn over(path: &Path, input: Box<dyn Read>, begin: u64) -> Self {
        Self {
            path: path.to_owned(),
            lines: Lines::new(input, begin),
            dialect: D::default(),
            skipped: Skipped::default(),
        }
    }

    /// Skips the records up to a mark, in a text that can only be read from its beginning. Fails if the mark is not
    /// found.
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

    /// Sets whether the beginning of the session is missing.
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

/// Returns the offset after a mark and the line of the mark. `None` if that line no longer exists.
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

/// Returns the mark of the last record of a file. Searches from the end.
pub(crate) fn end<D: Dialect>(path: &Path) -> Result<Option<Mark>, ReadError> {
    let failed = |error| ReadError::io(path, error);
    let (text, size) = open(path).map_err(failed)?;
    end_within::<D, _>(text, size).map_err(failed)
}

/// Returns the mark of the last record of a text of `size` bytes. Ignores an incomplete line, and titles, because a
/// title has no position in the conversation.
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

/// Returns the last turns of a file, and `true` if these are all its turns. Searches from the end.
pub(crate) fn recent<D: Dialect + 'static>(
    path: &Path,
    turns: usize,
) -> Result<(Vec<NativeTurn>, bool), ReadError> {
    recent_within::<D, _>(path, || open(path), turns)
}

/// Returns the last turns of a text, and `true` if these are all its turns. `open` is called several times.
pub(crate) fn recent_within<D: Dialect + 'static, R: Read + Seek + 'static>(
    path: &Path,
    open: impl Fn() -> std::io::Result<(R, u64)>,
    turns: usize,
) -> Result<(Vec<NativeTurn>, bool), ReadError> {
    let failed = |error| ReadError::io(path, error);
    let (text, size) = open().map_err(failed)?;
    let mut lines = Backwards::new(text, size);
    // The search includes one turn more than requested, to find out whether there are more.
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
        // Rewound turns do not count, and a rewind may refer to a record before `begin`. In both cases the search
        // continues.
        let enough = last.turns.len() >= turns && !last.unresolved;
        if begin == 0 || enough {
            return Ok((last.turns, begin == 0 && last.before == 0));
        }
        wanted = wanted.saturating_mul(2).max(prompts + 1);
    }
}

/// Returns the last bytes of a file. Their first line is usually incomplete. It does not parse, but may contain the
/// last time.
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

/// Returns the lines of the beginning of a file. The bytes after the last line feed are a line only at the end of the
/// file.
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

/// Returns the last time that follows `name` in some lines, without parsing them.
pub(crate) fn last_time(bytes: &[u8], name: &[u8]) -> Option<Timestamp> {
    let at = memmem::rfind(bytes, name)?;
    let rest = bytes.get(at + name.len()..)?.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"")?;
    let time = rest.get(..memchr::memchr(b'"', rest)?)?;
    std::str::from_utf8(time).ok()?.parse().ok()
}
