//! The older format: one JSON object with all messages.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use memchr::{memchr2, memrchr};

use super::messages::{GeminiChatConverter, title_event};
use super::schema::GeminiFileLine;
use crate::reader::borrowed_json::decode_lossy;
use crate::reader::line_reader::{MAX_LINE_BYTES, read_available};
use crate::{Mark, NativeRecord, ReadError, ReadStart, Records, SkippedContent};

const READ_BLOCK_BYTES: usize = 256 << 10;

/// An element of a document.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DocumentElement<'a> {
    /// A field of the object itself: its name in quotes, and its value.
    Field(&'a [u8], &'a [u8]),
    /// A message, or another value in the list of messages.
    Message(&'a [u8]),
}

/// Position in the structure of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DocumentPosition {
    BeforeObject,
    InFields,
    InMessages,
    AfterObject,
}

/// A splitter of a document into its fields and messages, with one of them in memory at a time.
///
/// It parses only quotes and brackets. The caller checks whether an element is valid JSON.
pub(super) struct DocumentSplitter<R> {
    input: R,
    buffer: Vec<u8>,
    /// Range of the buffer, from `from` to `to`, that is filled and was not returned yet.
    from: usize,
    to: usize,
    at_end: bool,
    position: DocumentPosition,
    max_length: usize,
    /// Number of messages that were too long.
    pub(super) oversized: u64,
    /// Whether the input ends in the middle of the document.
    pub(super) truncated: bool,
}

/// Result of the scan of a value.
enum ScanResult {
    /// A complete value of this length.
    Complete(usize),
    /// A value that was too long and was skipped.
    TooLong,
    /// A value in whose middle the input ends.
    Truncated,
}

/// State of the scan of a value.
#[derive(Default)]
struct ValueScan {
    length: usize,
    depth: u64,
    in_string: bool,
    /// Whether the value began with a bracket or a quote. A value without them ends before the next delimiter.
    is_delimited: bool,
}

impl DocumentSplitter<io::Empty> {
    /// Creates a splitter for the beginning of a document.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        Self {
            to: bytes.len(),
            buffer: bytes.to_vec(),
            at_end: true,
            ..Self::new(io::empty())
        }
    }
}

impl<R: Read> DocumentSplitter<R> {
    pub(super) fn new(input: R) -> Self {
        Self::with_max_length(input, MAX_LINE_BYTES)
    }

    fn with_max_length(input: R, max_length: usize) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            from: 0,
            to: 0,
            at_end: false,
            position: DocumentPosition::BeforeObject,
            max_length,
            oversized: 0,
            truncated: false,
        }
    }

    /// Returns the next element. `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<DocumentElement<'_>>> {
        loop {
            let Some(byte) = self.peek()? else {
                self.truncated |= matches!(
                    self.position,
                    DocumentPosition::InFields | DocumentPosition::InMessages
                );
                return Ok(None);
            };
            match (self.position, byte) {
                (DocumentPosition::AfterObject, _) => return Ok(None),
                (DocumentPosition::InFields, b'}') => self.position = DocumentPosition::AfterObject,
                (DocumentPosition::BeforeObject, b'{') | (DocumentPosition::InMessages, b']') => {
                    self.from += 1;
                    self.position = DocumentPosition::InFields;
                }
                (DocumentPosition::InFields, b'"') => {
                    if let Some((name, value)) = self.scan_field()? {
                        return Ok(Some(DocumentElement::Field(
                            self.slice(name),
                            self.slice(value),
                        )));
                    }
                }
                (DocumentPosition::InMessages, b'{' | b'[' | b'"') => match self.scan_value(0)? {
                    ScanResult::Complete(length) => {
                        let message = self.consume(length);
                        return Ok(Some(DocumentElement::Message(self.slice(message))));
                    }
                    ScanResult::TooLong => self.oversized += 1,
                    ScanResult::Truncated => self.truncated = true,
                },
                _ => self.from += 1,
            }
        }
    }

    /// Returns the name and the value of a field. `None` if the list of messages begins, or if the field can't be read.
    fn scan_field(&mut self) -> io::Result<Option<(Range<usize>, Range<usize>)>> {
        let ScanResult::Complete(name) = self.scan_value(0)? else {
            self.truncated |= self.at_end;
            return Ok(None);
        };
        // The bytes between a name and its value stay in the buffer, together with the name.
        let mut gap = name;
        let byte = loop {
            match self.peek_byte(gap)? {
                Some(byte) if byte.is_ascii_whitespace() || byte == b':' => gap += 1,
                Some(byte) => break byte,
                None => {
                    self.truncated = true;
                    self.consume(gap);
                    return Ok(None);
                }
            }
            if gap > name + 1024 {
                self.consume(gap);
                return Ok(None);
            }
        };
        if matches!(byte, b',' | b'}' | b']') {
            self.consume(gap);
            return Ok(None);
        }
        let is_messages = self
            .buffer
            .get(self.from..self.from + name)
            .is_some_and(|name| name == b"\"messages\"");
        if is_messages && byte == b'[' {
            self.consume(gap + 1);
            self.position = DocumentPosition::InMessages;
            return Ok(None);
        }
        match self.scan_value(gap)? {
            ScanResult::Complete(length) => {
                let range = self.consume(gap + length);
                Ok(Some((
                    range.start..range.start + name,
                    range.start + gap..range.end,
                )))
            }
            ScanResult::TooLong => Ok(None),
            ScanResult::Truncated => {
                self.truncated = true;
                Ok(None)
            }
        }
    }

    /// Finds the end of the value that begins `skip` bytes after the consumed bytes.
    fn scan_value(&mut self, skip: usize) -> io::Result<ScanResult> {
        let mut scan = ValueScan {
            length: skip,
            ..ValueScan::default()
        };
        let mut too_long = false;
        loop {
            let unscanned = self.buffer.get(self.from + scan.length..self.to);
            if scan.advance(unscanned.unwrap_or_default()) {
                if too_long {
                    self.consume(scan.length);
                    return Ok(ScanResult::TooLong);
                }
                return Ok(ScanResult::Complete(scan.length - skip));
            }
            if scan.length > self.max_length {
                too_long = true;
            }
            if too_long {
                let length = std::mem::take(&mut scan.length);
                self.consume(length.min(self.to - self.from));
            }
            if !self.fill()? {
                let remaining = self.to - self.from;
                self.consume(remaining);
                return Ok(ScanResult::Truncated);
            }
        }
    }

    /// Consumes `length` bytes and returns their range in the buffer.
    fn consume(&mut self, length: usize) -> Range<usize> {
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
            match self.peek_byte(0)? {
                Some(byte) if byte.is_ascii_whitespace() => self.from += 1,
                next_byte => return Ok(next_byte),
            }
        }
    }

    fn peek_byte(&mut self, ahead: usize) -> io::Result<Option<u8>> {
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
        let wanted = READ_BLOCK_BYTES.max((self.to * 2).next_power_of_two());
        if wanted != self.buffer.len() {
            self.buffer.resize(wanted, 0);
            self.buffer.shrink_to_fit();
        }
        let free_space = self.buffer.get_mut(self.to..).unwrap_or_default();
        let read = read_available(&mut self.input, free_space)?;
        self.to += read;
        self.at_end = read == 0;
        Ok(read > 0)
    }
}

impl ValueScan {
    /// Continues the scan with these bytes. Returns `true` if the value ends in them, and then sets its length.
    fn advance(&mut self, bytes: &[u8]) -> bool {
        let begin = self.length;
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.in_string {
                let remainder = bytes.get(at..).unwrap_or_default();
                match memchr2(b'"', b'\\', remainder) {
                    Some(end) if remainder.get(end) == Some(&b'"') => {
                        at += end + 1;
                        self.in_string = false;
                        if self.depth == 0 {
                            self.length = begin + at;
                            return true;
                        }
                    }
                    // An escaped character is not a quote. It may be in the next block.
                    Some(escape) if remainder.len() > escape + 1 => at += escape + 2,
                    Some(escape) => {
                        self.length = begin + at + escape;
                        return false;
                    }
                    None => at = bytes.len(),
                }
                continue;
            }
            match byte {
                b'"' => (self.in_string, self.is_delimited) = (true, true),
                b'{' | b'[' => {
                    self.depth += 1;
                    self.is_delimited = true;
                }
                b'}' | b']' if self.depth > 1 => self.depth -= 1,
                b'}' | b']' if self.depth == 1 => {
                    self.length = begin + at + 1;
                    return true;
                }
                b'}' | b']' | b',' | b' ' | b'\n' | b'\r' | b'\t'
                    if self.depth == 0 && !self.is_delimited && begin + at > 0 =>
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
    let mut remainder = bytes;
    while let Some((byte, before)) = remainder.split_last() {
        match byte {
            b'"' => {
                remainder = bytes_before_string(before);
                continue;
            }
            b'}' | b']' => depth += 1,
            b'{' | b'[' if depth > 1 => depth -= 1,
            b'{' | b'[' => {
                from = remainder.len();
                break;
            }
            b',' if depth == 1 => from = remainder.len(),
            _ => {}
        }
        remainder = before;
    }
    bytes.get(from..).unwrap_or_default()
}

/// Returns the bytes before a string, given all bytes before its closing quote. The string begins at the nearest quote
/// that is not escaped.
fn bytes_before_string(mut bytes: &[u8]) -> &[u8] {
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
    elements: DocumentSplitter<io::Take<File>>,
    converter: GeminiChatConverter,
    skipped: SkippedContent,
    /// Id of the newest message. `message_count` is the number of messages so far.
    last_id: Option<String>,
    message_count: u64,
    /// Title of the session, which is emitted at the end.
    summary: Option<String>,
}

impl DocumentRecords {
    /// Opens the records of a file after `start`.
    pub(super) fn open(path: &Path, start: &ReadStart) -> Result<Self, ReadError> {
        let failed = |error| ReadError::io(path, error);
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let mut records = Self {
            path: path.to_owned(),
            elements: DocumentSplitter::new(file.take(size)),
            converter: GeminiChatConverter::default(),
            skipped: SkippedContent::default(),
            last_id: None,
            message_count: 0,
            summary: None,
        };
        let ReadStart::After(mark) = start else {
            return Ok(records);
        };
        while let Some(record) = records.next()? {
            if record.mark == *mark {
                return Ok(records);
            }
        }
        Err(ReadError::mark_not_found(path, mark))
    }
}

impl Records for DocumentRecords {
    fn next(&mut self) -> Result<Option<NativeRecord>, ReadError> {
        loop {
            let element = self.elements.next();
            let element = element.map_err(|error| ReadError::io(&self.path, error))?;
            let message = match element {
                Some(DocumentElement::Message(message)) => message,
                Some(DocumentElement::Field(name, value)) => {
                    if name == b"\"summary\"" {
                        self.summary = serde_json::from_slice(value).ok();
                    }
                    continue;
                }
                None => {
                    let title = title_event(self.summary.take().as_deref());
                    let last_id = self.last_id.clone();
                    return Ok(title.zip(last_id).map(|(title, last_id)| NativeRecord {
                        mark: Mark::Id(last_id),
                        at: None,
                        events: vec![title],
                    }));
                }
            };
            self.message_count += 1;
            let text = decode_lossy(message);
            if matches!(text, std::borrow::Cow::Owned(_)) {
                self.skipped.repaired += 1;
            }
            let Ok(mut line) = serde_json::from_str::<GeminiFileLine<'_>>(&text) else {
                self.skipped.malformed += 1;
                continue;
            };
            let id = match &line.id {
                Some(id) => id.to_string(),
                None => format!("#{}", self.message_count),
            };
            line.id = Some(id.clone().into());
            let mut events = Vec::new();
            self.converter.emit_message(&line, &mut events);
            self.last_id = Some(id.clone());
            return Ok(Some(NativeRecord {
                mark: Mark::Id(id),
                at: line.time(),
                events,
            }));
        }
    }

    fn skipped(&self) -> SkippedContent {
        SkippedContent {
            oversized: self.elements.oversized,
            truncated: self.elements.truncated,
            ..self.skipped
        }
    }
}
