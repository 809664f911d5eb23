//! Interface of formats in which a session is a file of lines, and the operations that all these formats share.
//!
//! A `text` is any source of lines, for example a Codex session that continues in several files. Functions with a text
//! use the `path` only in errors.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use memchr::{memmem, memrchr};

use crate::reader::borrowed_json::decode_lossy;
use crate::reader::line_reader::{LineReader, ReverseLineReader};
use crate::reader::read_last_turns;
use crate::{
    Mark, NativeRecord, NativeTurn, ReadError, ReadStart, RecordEvent, Records, SkippedContent,
};

/// Error for a line that does not match the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MalformedLine;

impl From<serde_json::Error> for MalformedLine {
    fn from(_: serde_json::Error) -> Self {
        Self
    }
}

/// Time and events of a line.
#[derive(Debug, Default)]
pub(crate) struct LineEvents {
    pub(crate) at: Option<Timestamp>,
    pub(crate) events: Vec<RecordEvent>,
}

/// A format in which a session is a file of lines, each of them a JSON object.
///
/// Reading may begin at any prompt. An implementation may therefore use the lines that it has read, but must not depend
/// on the first lines of the file.
pub(crate) trait LineFormat: Default {
    /// Reads one line and adds its events to `line_events`. A line that has no meaning for segue adds none.
    fn parse_line(&mut self, line: &str, line_events: &mut LineEvents)
    -> Result<(), MalformedLine>;

    /// Applies the line after which reading begins, without emitting its events.
    fn apply_skipped_line(&mut self, line: &[u8]) {
        let _ = self.parse_line(&decode_lossy(line), &mut LineEvents::default());
    }

    /// Returns `true` if a line may begin a turn. The check is cheap: it may return `true` for other lines, but never
    /// returns `false` for a line that begins a turn.
    fn can_begin_turn(line: &[u8]) -> bool;

    /// Returns `true` if a line begins a turn, so that reading may begin at it.
    fn is_turn_start(line: &[u8]) -> bool {
        let mut line_events = LineEvents::default();
        let text = decode_lossy(line);
        let result = Self::default().parse_line(&text, &mut line_events);
        let is_prompt = |event: &RecordEvent| matches!(event, RecordEvent::Prompt(_));
        result.is_ok() && line_events.events.iter().any(is_prompt)
    }
}

/// Records of a file in the format `F`.
pub(crate) struct LineRecords<F> {
    path: PathBuf,
    lines: LineReader<Box<dyn Read>>,
    format: F,
    skipped: SkippedContent,
}

impl<F: LineFormat> LineRecords<F> {
    /// Opens the records of a file after `start`.
    pub(crate) fn open(path: &Path, start: &ReadStart) -> Result<Self, ReadError> {
        let (file, size) = open_with_size(path).map_err(|error| ReadError::io(path, error))?;
        Self::from_text(path, file, size, start)
    }

    /// Opens the records of a text of `size` bytes after `start`.
    pub(crate) fn from_text<R: Read + Seek + 'static>(
        path: &Path,
        mut text: R,
        size: u64,
        start: &ReadStart,
    ) -> Result<Self, ReadError> {
        let failed = |error| ReadError::io(path, error);
        let ReadStart::After(mark) = start else {
            return Self::from_offset(path, text, 0, size).map_err(failed);
        };
        let (begin, line) = find_line_of_mark(&mut text, size, mark)
            .map_err(failed)?
            .ok_or_else(|| ReadError::mark_not_found(path, mark))?;
        let mut records = Self::from_offset(path, text, begin, size).map_err(failed)?;
        records.format.apply_skipped_line(&line);
        Ok(records)
    }

    fn from_offset<R: Read + Seek + 'static>(
        path: &Path,
        mut text: R,
        begin: u64,
        size: u64,
    ) -> std::io::Result<Self> {
        text.seek(SeekFrom::Start(begin))?;
        // Bytes that are appended later belong to the next read. Otherwise this read would never end while another
        // process appends lines.
        let input = text.take(size.saturating_sub(begin));
        Ok(Self::from_input(path, Box::new(input), begin))
    }

    /// Creates the records of any input. `begin` is the offset of the input in the complete text.
    pub(crate) fn from_input(path: &Path, input: Box<dyn Read>, begin: u64) -> Self {
        Self {
            path: path.to_owned(),
            lines: LineReader::new(input, begin),
            format: F::default(),
            skipped: SkippedContent::default(),
        }
    }

    /// Skips the records up to a mark, in a text that can only be read from its beginning. Fails if the mark is not
    /// found.
    pub(crate) fn skip_to_mark(mut self, mark: &Mark) -> Result<Self, ReadError> {
        let Mark::Line { end, .. } = mark else {
            return Err(ReadError::mark_not_found(&self.path, mark));
        };
        loop {
            let line = self.lines.next();
            let line = line.map_err(|error| ReadError::io(&self.path, error))?;
            let Some(line) = line.filter(|line| line.end <= *end) else {
                return Err(ReadError::mark_not_found(&self.path, mark));
            };
            if Mark::for_line(line.end, line.bytes) == *mark {
                self.format.apply_skipped_line(line.bytes);
                return Ok(self);
            }
        }
    }

    /// Sets whether the beginning of the session is missing.
    pub(crate) fn with_orphaned(mut self, orphaned: bool) -> Self {
        self.skipped.orphaned = orphaned;
        self
    }
}

impl<F: LineFormat> Records for LineRecords<F> {
    fn next(&mut self) -> Result<Option<NativeRecord>, ReadError> {
        loop {
            let line = self
                .lines
                .next()
                .map_err(|error| ReadError::io(&self.path, error))?;
            let Some(line) = line else { return Ok(None) };
            if line.bytes.trim_ascii().is_empty() {
                continue;
            }
            let mut line_events = LineEvents::default();
            let result = match std::str::from_utf8(line.bytes) {
                Ok(text) => self.format.parse_line(text, &mut line_events),
                Err(_) if line.is_complete => {
                    self.skipped.repaired += 1;
                    let text = String::from_utf8_lossy(line.bytes);
                    self.format.parse_line(&text, &mut line_events)
                }
                Err(_) => Err(MalformedLine),
            };
            match result {
                Ok(()) if line_events.events.is_empty() => {}
                Ok(()) => {
                    return Ok(Some(NativeRecord {
                        mark: Mark::for_line(line.end, line.bytes),
                        at: line_events.at,
                        events: line_events.events,
                    }));
                }
                Err(MalformedLine) if line.is_complete => self.skipped.malformed += 1,
                Err(MalformedLine) => self.skipped.truncated = true,
            }
        }
    }

    fn skipped(&self) -> SkippedContent {
        SkippedContent {
            oversized: self.lines.oversized,
            ..self.skipped
        }
    }
}

fn open_with_size(path: &Path) -> std::io::Result<(File, u64)> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// Returns the offset after a mark and the line of the mark. `None` if that line no longer exists.
fn find_line_of_mark<R: Read + Seek>(
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
    let Some((start, line)) = ReverseLineReader::new(text, *end).next()? else {
        return Ok(None);
    };
    let is_same_line = start + line.len() as u64 == *end && line_mark(start, &line) == *mark;
    Ok(is_same_line.then_some((*end, line)))
}

fn line_mark(start: u64, line: &[u8]) -> Mark {
    let bytes = line.strip_suffix(b"\r").unwrap_or(line);
    Mark::for_line(start + line.len() as u64, bytes)
}

/// Returns the mark of the last record of a file. Searches from the end.
pub(crate) fn find_last_mark<F: LineFormat>(path: &Path) -> Result<Option<Mark>, ReadError> {
    let failed = |error| ReadError::io(path, error);
    let (text, size) = open_with_size(path).map_err(failed)?;
    find_last_mark_in_text::<F, _>(text, size).map_err(failed)
}

/// Returns the mark of the last record of a text of `size` bytes. Ignores an incomplete line, and titles, because a
/// title has no position in the conversation.
pub(crate) fn find_last_mark_in_text<F: LineFormat, R: Read + Seek>(
    text: R,
    size: u64,
) -> std::io::Result<Option<Mark>> {
    let mut lines = ReverseLineReader::new(text, size);
    while let Some((start, line)) = lines.next()? {
        let is_complete = start + (line.len() as u64) < size;
        let mut line_events = LineEvents::default();
        let result = F::default().parse_line(&decode_lossy(&line), &mut line_events);
        let is_title = |event: &RecordEvent| matches!(event, RecordEvent::TitleChanged { .. });
        if is_complete && result.is_ok() && !line_events.events.iter().all(is_title) {
            return Ok(Some(line_mark(start, &line)));
        }
    }
    Ok(None)
}

/// Returns the last `turn_count` turns of a file, and `true` if these are all its turns. Searches from the end.
pub(crate) fn read_recent_turns<F: LineFormat + 'static>(
    path: &Path,
    turn_count: usize,
) -> Result<(Vec<NativeTurn>, bool), ReadError> {
    read_recent_turns_from_text::<F, _>(path, || open_with_size(path), turn_count)
}

/// Returns the last `turn_count` turns of a text, and `true` if these are all its turns. Searches from the end. Calls
/// `open` several times; it returns the text and its size.
pub(crate) fn read_recent_turns_from_text<F: LineFormat + 'static, R: Read + Seek + 'static>(
    path: &Path,
    open: impl Fn() -> std::io::Result<(R, u64)>,
    turn_count: usize,
) -> Result<(Vec<NativeTurn>, bool), ReadError> {
    let failed = |error| ReadError::io(path, error);
    let (text, size) = open().map_err(failed)?;
    let mut lines = ReverseLineReader::new(text, size);
    // The search includes one turn more than requested, to find out whether there are more.
    let mut wanted_prompts = turn_count.saturating_add(1);
    let mut found_prompts = 0;
    loop {
        let mut begin = 0;
        while let Some((start, line)) = lines.next().map_err(failed)? {
            if F::can_begin_turn(&line) && F::is_turn_start(&line) {
                found_prompts += 1;
                if found_prompts >= wanted_prompts {
                    begin = start;
                    break;
                }
            }
        }
        let open_records = || {
            let (text, _) = open().map_err(failed)?;
            let records = LineRecords::<F>::from_offset(path, text, begin, size).map_err(failed)?;
            Ok(Box::new(records) as Box<dyn Records>)
        };
        let last = read_last_turns(open_records, turn_count)?;
        // The search continues if rewinds have removed too many of the turns, or if a record refers to one before
        // `begin`.
        let has_enough = last.turns.len() >= turn_count && !last.unresolved;
        if begin == 0 || has_enough {
            return Ok((last.turns, begin == 0 && last.turns_before == 0));
        }
        wanted_prompts = wanted_prompts.saturating_mul(2).max(found_prompts + 1);
    }
}

/// Returns the last `count` bytes of a file of `size` bytes. The first line of them is usually incomplete: it cannot be
/// parsed, but [`find_last_timestamp`] may find a time in it.
pub(crate) fn read_last_bytes<R: Read + Seek>(
    file: &mut R,
    size: u64,
    count: u64,
) -> std::io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(size.saturating_sub(count)))?;
    let mut tail = Vec::with_capacity(usize::try_from(count.min(size)).unwrap_or_default());
    file.take(count).read_to_end(&mut tail)?;
    Ok(tail)
}

/// Splits bytes into lines and omits empty lines. The bytes after the last line feed are a line only if `at_end` is
/// `true`, because otherwise the file continues and the line may be incomplete.
pub(crate) fn complete_lines(bytes: &[u8], at_end: bool) -> impl Iterator<Item = &[u8]> {
    let until = if at_end {
        bytes.len()
    } else {
        memrchr(b'\n', bytes).unwrap_or(0)
    };
    let mut remaining = bytes.get(..until).unwrap_or_default();
    let lines = std::iter::from_fn(move || {
        let end = memchr::memchr(b'\n', remaining).unwrap_or(remaining.len());
        let (line, after) = remaining
            .split_at_checked(end)
            .filter(|_| !remaining.is_empty())?;
        remaining = after.get(1..).unwrap_or_default();
        Some(line)
    });
    lines.filter(|line| !line.is_empty())
}

/// Returns `true` if bytes contain other bytes.
pub(crate) fn contains_bytes(bytes: &[u8], needle: &[u8]) -> bool {
    memmem::find(bytes, needle).is_some()
}

/// Returns the time after the last occurrence of a JSON key, for example `"timestamp":`. Does not parse the lines.
pub(crate) fn find_last_timestamp(bytes: &[u8], key: &[u8]) -> Option<Timestamp> {
    let key_offset = memmem::rfind(bytes, key)?;
    let value = bytes.get(key_offset + key.len()..)?.trim_ascii_start();
    let value = value.strip_prefix(b"\"")?;
    let time = value.get(..memchr::memchr(b'"', value)?)?;
    std::str::from_utf8(time).ok()?.parse().ok()
}
