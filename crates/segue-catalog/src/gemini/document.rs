//! The older format: one JSON object with all messages.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use memchr::{memchr2, memrchr};

use super::chat::{Chat, titled};
use super::line::Line;
use crate::json::lossy;
use crate::lines::{LONGEST, read_some};
use crate::{Mark, ReadError, Record, Records, Skipped, Start};

const BLOCK: usize = 256 << 10;

/// An element of a document.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A field of the object itself: its name in quotes, and its value.
    Field(&'a [u8], &'a [u8]),
    /// A message, or another value in the list of messages.
    Message(&'a [u8]),
}

/// Position in the structure of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Before,
    Fields,
    Messages,
    After,
}

/// A splitter of a document into its fields and messages, with one of them in memory at a time.
///
/// It parses only quotes and brackets. The caller checks whether an element is valid JSON.
pub(super) struct Pieces<R> {
    input: R,
    buffer: Vec<u8>,
    /// Range of the buffer, from `from` to `to`, that is filled and was not returned yet.
    from: usize,
    to: usize,
    at_end: bool,
    place: Place,
    longest: usize,
    /// Number of messages that were too long.
    pub(super) oversized: u64,
    /// Whether the input ends in the middle of the document.
    pub(super) torn: bool,
}

/// Result of the scan of a value.
enum Scanned {
    /// A complete value of this length.
    Whole(usize),
    /// A value that was too long and was skipped.
    TooLong,
    /// A value in whose middle the input ends.
    Torn,
}

/// State of the scan of a value.
#[derive(Default)]
struct Scan {
    length: usize,
    depth: u64,
    in_string: bool,
    /// Whether the value began with a bracket or a quote. A value without them ends before the next delimiter.
    closed: bool,
}

impl Pieces<io::Empty> {
    /// Creates a splitter for the beginning of a document.
    pub(super) fn over(bytes: &[u8]) -> Self {
        Self {
            to: bytes.len(),
            buffer: bytes.to_vec(),
            at_end: true,
            ..Self::new(io::empty())
        }
    }
}

impl<R: Read> Pieces<R> {
    pub(super) fn new(input: R) -> Self {
        Self::with_longest(input, LONGEST)
    }

    fn with_longest(input: R, longest: usize) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            from: 0,
            to: 0,
            at_end: false,
            place: Place::Before,
            longest,
            oversized: 0,
            torn: false,
        }
    }

    /// Returns the next element. `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        loop {
            let Some(byte) = self.peek()? else {
                self.torn |= matches!(self.place, Place::Fields | Place::Messages);
                return Ok(None);
            };
            match (self.place, byte) {
                (Place::After, _) => return Ok(None),
                (Place::Fields, b'}') => self.place = Place::After,
                (Place::Before, b'{') | (Place::Messages, b']') => {
                    self.from += 1;
                    self.place = Place::Fields;
                }
                (Place::Fields, b'"') => {
                    if let Some((name, value)) = self.field()? {
                        return Ok(Some(Piece::Field(self.slice(name), self.slice(value))));
                    }
                }
                (Place::Messages, b'{' | b'[' | b'"') => match self.value(0)? {
                    Scanned::Whole(length) => {
                        let message = self.take(length);
                        return Ok(Some(Piece::Message(self.slice(message))));
                    }
                    Scanned::TooLong => self.oversized += 1,
                    Scanned::Torn => self.torn = true,
                },
                _ => self.from += 1,
            }
        }
    }

    /// Returns the name and the value of a field. `None` if the list of messages begins, or if the field can't be read.
    fn field(&mut self) -> io::Result<Option<(Range<usize>, Range<usize>)>> {
        let Scanned::Whole(name) = self.value(0)? else {
            self.torn |= self.at_end;
            return Ok(None);
        };
        // The bytes between a name and its value stay in the buffer, together with the name.
        let mut gap = name;
        let byte = loop {
            match self.byte(gap)? {
                Some(byte) if byte.is_ascii_whitespace() || byte == b':' => gap += 1,
                Some(byte) => break byte,
                None => {
                    self.torn = true;
                    self.take(gap);
                    return Ok(None);
                }
            }
            if gap > name + 1024 {
                self.take(gap);
                return Ok(None);
            }
        };
        if matches!(byte, b',' | b'}' | b']') {
            self.take(gap);
            return Ok(None);
        }
        let is_messages = self
            .buffer
            .get(self.from..self.from + name)
            .is_some_and(|name| name == b"\"messages\"");
        if is_messages && byte == b'[' {
            self.take(gap + 1);
            self.place = Place::Messages;
            return Ok(None);
        }
        match self.value(gap)? {
            Scanned::Whole(length) => {
                let all = self.take(gap + length);
                Ok(Some((
                    all.start..all.start + name,
                    all.start + gap..all.end,
                )))
            }
            Scanned::TooLong => Ok(None),
            Scanned::Torn => {
                self.torn = true;
                Ok(None)
            }
        }
    }

    /// Finds the end of the value that begins `skip` bytes after the consumed bytes.
    fn value(&mut self, skip: usize) -> io::Result<Scanned> {
        let mut scan = Scan {
            length: skip,
            ..Scan::default()
        };
        let mut too_long = false;
        loop {
            let fresh = self.buffer.get(self.from + scan.length..self.to);
            if scan.run(fresh.unwrap_or_default()) {
                if too_long {
                    self.take(scan.length);
                    return Ok(Scanned::TooLong);
                }
                return Ok(Scanned::Whole(scan.length - skip));
            }
            if scan.length > self.longest {
                too_long = true;
            }
            if too_long {
                let length = std::mem::take(&mut scan.length);
                self.take(length.min(self.to - self.from));
            }
            if !self.fill()? {
                let rest = self.to - self.from;
                self.take(rest);
                return Ok(Scanned::Torn);
            }
        }
    }

    /// Consumes `length` bytes and returns their range in the buffer.
    fn take(&mut self, length: usize) -> Range<usize> {
        let begin = self.from;
        self.from = (self.from + length).min(self.to);
        begin..self.from
    }

    fn slice(&self, range: Range<usize>) -> &[u8] {
        self.buffer.get(range).unwrap_or_default()
    }

    /// Returns the next byte that is not whitespace.
    fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.byte(0)? {
                Some(byte) if byte.is_ascii_whitespace() => self.from += 1,
                other => return Ok(other),
            }
        }
    }

    fn byte(&mut self, ahead: usize) -> io::Result<Option<u8>> {
        while self.from + ahead >= self.to {
            if !self.fill()? {
                return Ok(None);
            }
        }
        Ok(self.buffer.get(self.from + ahead).copied())
    }

    /// Reads more bytes, after making room for them in the buffer. Returns `false` at the end of the input.
    fn fill(&mut self) -> io::Result<bool> {
        if self.at_end {
            return Ok(false);
        }
        self.buffer.copy_within(self.from..self.to, 0);
        self.to -= self.from;
        self.from = 0;
        // A buffer that grew for a long message shrinks after that message.
        let wanted = BLOCK.max((self.to * 2).next_power_of_two());
        if wanted != self.buffer.len() {
            self.buffer.resize(wanted, 0);
            self.buffer.shrink_to_fit();
        }
        let room = self.buffer.get_mut(self.to..).unwrap_or_default();
        let read = read_some(&mut self.input, room)?;
        self.to += read;
        self.at_end = read == 0;
        Ok(read > 0)
    }
}

impl Scan {
    /// Continues the scan with these bytes. Returns `true` if the value ends in them, and then sets its length.
    fn run(&mut self, bytes: &[u8]) -> bool {
        let begin = self.length;
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.in_string {
                let rest = bytes.get(at..).unwrap_or_default();
                match memchr2(b'"', b'\\', rest) {
                    Some(end) if rest.get(end) == Some(&b'"') => {
                        at += end + 1;
                        self.in_string = false;
                        if self.depth == 0 {
                            self.length = begin + at;
                            return true;
                        }
                    }
                    // An escaped character is no quote. It may be in the next block.
                    Some(escape) if rest.len() > escape + 1 => at += escape + 2,
                    Some(escape) => {
                        self.length = begin + at + escape;
                        return false;
                    }
                    None => at = bytes.len(),
                }
                continue;
            }
            match byte {
                b'"' => (self.in_string, self.closed) = (true, true),
                b'{' | b'[' => {
                    self.depth += 1;
                    self.closed = true;
                }
                b'}' | b']' if self.depth > 1 => self.depth -= 1,
                b'}' | b']' if self.depth == 1 => {
                    self.length = begin + at + 1;
                    return true;
                }
                b'}' | b']' | b',' | b' ' | b'\n' | b'\r' | b'\t'
                    if self.depth == 0 && !self.closed && begin + at > 0 =>
                {
                    self.length = begin + at;
                    return true;
                }
                _ => {}
            }
            at += 1;
        }
        self.length = begin + at;
        false
    }
}

/// Returns the fields at the end of a document of which only the end is available.
///
/// Scans backwards, because no bracket is open at the end of a document.
pub(super) fn last_fields(bytes: &[u8]) -> &[u8] {
    let mut depth = 0_u64;
    let mut from = bytes.len();
    let mut rest = bytes;
    while let Some((byte, before)) = rest.split_last() {
        match byte {
            b'"' => {
                rest = before_string(before);
                continue;
            }
            b'}' | b']' => depth += 1,
            b'{' | b'[' if depth > 1 => depth -= 1,
            b'{' | b'[' => {
                from = rest.len();
                break;
            }
            b',' if depth == 1 => from = rest.len(),
            _ => {}
        }
        rest = before;
    }
    bytes.get(from..).unwrap_or_default()
}

/// Returns the bytes before a string, given all bytes before its closing quote. The string begins at the nearest quote
/// that is not escaped.
fn before_string(mut bytes: &[u8]) -> &[u8] {
    while let Some(quote) = memrchr(b'"', bytes) {
        bytes = bytes.get(..quote).unwrap_or_default();
        let escapes = bytes.iter().rev().take_while(|byte| **byte == b'\\');
        if escapes.count() % 2 == 0 {
            return bytes;
        }
    }
    &[]
}

/// Records of a document.
pub(super) struct DocumentRecords {
    path: PathBuf,
    pieces: Pieces<io::Take<File>>,
    chat: Chat,
    skipped: Skipped,
    /// Id of the newest message. `count` is the number of messages so far.
    last: Option<String>,
    count: u64,
    /// Title of the session, which is emitted at the end.
    summary: Option<String>,
}

impl DocumentRecords {
    /// Opens the records of a file after `start`.
    pub(super) fn open(path: &Path, start: &Start) -> Result<Self, ReadError> {
        let failed = |error| ReadError::io(path, error);
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let mut records = Self {
            path: path.to_owned(),
            pieces: Pieces::new(file.take(size)),
            chat: Chat::default(),
            skipped: Skipped::default(),
            last: None,
            count: 0,
            summary: None,
        };
        let Start::After(mark) = start else {
            return Ok(records);
        };
        while let Some(record) = records.next()? {
            if record.mark == *mark {
                return Ok(records);
            }
        }
        Err(ReadError::lost(path, mark))
    }
}

impl Records for DocumentRecords {
    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            let piece = self.pieces.next();
            let piece = piece.map_err(|error| ReadError::io(&self.path, error))?;
            let message = match piece {
                Some(Piece::Message(message)) => message,
                Some(Piece::Field(name, value)) => {
                    if name == b"\"summary\"" {
                        self.summary = serde_json::from_slice(value).ok();
                    }
                    continue;
                }
                None => {
                    let title = titled(self.summary.take().as_deref());
                    let last = self.last.clone();
                    return Ok(title.zip(last).map(|(title, last)| Record {
                        mark: Mark::Id(last),
                        at: None,
                        events: vec![title],
                    }));
                }
            };
            self.count += 1;
            let text = lossy(message);
            if matches!(text, std::borrow::Cow::Owned(_)) {
                self.skipped.mended += 1;
            }
            let Ok(mut line) = serde_json::from_str::<Line<'_>>(&text) else {
                self.skipped.malformed += 1;
                continue;
            };
            let id = match &line.id {
                Some(id) => id.to_string(),
                None => format!("#{}", self.count),
            };
            line.id = Some(id.clone().into());
            let mut events = Vec::new();
            self.chat.message(&line, &mut events);
            self.last = Some(id.clone());
            return Ok(Some(Record {
                mark: Mark::Id(id),
                at: line.at(),
                events,
            }));
        }
    }

    fn skipped(&self) -> Skipped {
        Skipped {
            oversized: self.pieces.oversized,
            torn: self.pieces.torn,
            ..self.skipped
        }
    }
}
