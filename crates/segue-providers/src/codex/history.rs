//! Conversations in several files.
//!
//! A fork or a revert does not copy the records that it shares with an older file. The new file only states how much of
//! the older file is valid. Read in order, these parts form one text, and positions are positions in that text: a mark
//! in the records that a fork shares with its parent is the same mark in both.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::home::{self, CodexHome};
use super::session_meta::{CodexFileMeta, strip_instructions};
use crate::compression::Decompressor;
use crate::reader::line_reader::LineReader;

/// Maximum number of files of a conversation. A longer chain consists of files that refer to each other endlessly.
const MAX_HISTORY_SEGMENTS: usize = 200;
/// Maximum length of a first line in bytes. A longer one is ignored.
const MAX_META_LINE_BYTES: u64 = 4 << 20;
/// Maximum window of a compressed file, which is the memory that reading it takes.
const MAX_WINDOW_BYTES: u64 = 1 << 25;

/// Parts of a conversation, the oldest first.
pub(super) struct CodexHistory {
    segments: VecDeque<HistorySegment>,
    /// Whether a part is missing.
    pub(super) orphaned: bool,
}

struct HistorySegment {
    path: PathBuf,
    /// Number of bytes that are valid. `None` if all are.
    valid_bytes: Option<u64>,
}

impl CodexHistory {
    /// Finds all files that a file continues.
    pub(super) fn resolve(home: &CodexHome, path: &Path) -> io::Result<Self> {
        let first = read_first_line(path)?;
        Ok(Self::from_first_line(home, path, &first))
    }

    /// Finds all files that a file continues, given the first line of the file.
    pub(super) fn from_first_line(home: &CodexHome, path: &Path, first: &[u8]) -> Self {
        let mut history = Self {
            segments: VecDeque::new(),
            orphaned: false,
        };
        history.segments.push_front(HistorySegment {
            path: path.to_owned(),
            valid_bytes: None,
        });
        let mut base = CodexFileMeta::parse(first).and_then(|meta| meta.base());
        while let Some(next) = base {
            let Some(base_path) = home.find_file(&next.file_id, path).filter(|candidate| {
                let is_listed = |segment: &HistorySegment| segment.path == *candidate;
                history.segments.len() < MAX_HISTORY_SEGMENTS
                    && !history.segments.iter().any(is_listed)
            }) else {
                history.orphaned = true;
                break;
            };
            let read = read_first_line(&base_path).and_then(|first| {
                let valid_bytes = find_valid_bytes(&base_path, next.end_byte, next.end_ordinal)?;
                Ok((first, valid_bytes))
            });
            let Ok((first, valid_bytes)) = read else {
                history.orphaned = true;
                break;
            };
            history.segments.push_front(HistorySegment {
                path: base_path,
                valid_bytes: Some(valid_bytes),
            });
            base = CodexFileMeta::parse(&first).and_then(|meta| meta.base());
        }
        history
    }

    /// Returns the paths of the files, the oldest first.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.segments.iter().map(|segment| segment.path.as_path())
    }

    /// Returns `true` if a part is compressed, so that it can only be read from its beginning.
    pub(super) fn is_compressed(&self) -> bool {
        self.segments
            .iter()
            .any(|segment| home::is_compressed(&segment.path))
    }

    /// Opens the complete text, to be read from its beginning.
    pub(super) fn open_sequential(&self) -> io::Result<Box<dyn Read>> {
        let mut files = VecDeque::new();
        for segment in &self.segments {
            let file = open_decompressed(&segment.path)?;
            let length = match segment.valid_bytes {
                Some(valid_bytes) => valid_bytes,
                // Bytes that are appended from now on belong to the next read.
                None if !home::is_compressed(&segment.path) => {
                    std::fs::metadata(&segment.path)?.len()
                }
                None => u64::MAX,
            };
            files.push_back(file.take(length));
        }
        Ok(Box::new(ConcatReader(files)))
    }

    /// Opens the complete text, to be read from any position, and returns its length. No part may be compressed.
    pub(super) fn open_seekable(&self) -> io::Result<(SplicedReader, u64)> {
        let mut segments = Vec::new();
        let mut end = 0;
        for segment in &self.segments {
            let file = File::open(&segment.path)?;
            let size = file.metadata()?.len();
            let begin = end;
            end += segment
                .valid_bytes
                .map_or(size, |valid_bytes| valid_bytes.min(size));
            segments.push(OpenSegment { file, begin, end });
        }
        Ok((
            SplicedReader {
                segments,
                position: 0,
            },
            end,
        ))
    }
}

/// Opens a file and decompresses it if necessary.
fn open_decompressed(path: &Path) -> io::Result<Box<dyn Read>> {
    Ok(decompress(File::open(path)?, path))
}

/// Returns the content of the file at `path`, decompressed if necessary.
pub(super) fn decompress<'a>(file: impl Read + 'a, path: &Path) -> Box<dyn Read + 'a> {
    if !home::is_compressed(path) {
        return Box::new(file);
    }
    let content = Decompressor::new(BufReader::new(file), MAX_WINDOW_BYTES);
    Box::new(TruncationTolerantReader(content))
}

fn read_first_line(path: &Path) -> io::Result<Vec<u8>> {
    let mut lines = LineReader::new(open_decompressed(path)?.take(MAX_META_LINE_BYTES), 0);
    let line = lines.next()?.map(|line| strip_instructions(line.bytes));
    Ok(line.unwrap_or_default())
}

/// Returns the number of valid bytes of a file: `end_byte` if a line ends at that offset, or else the bytes before the
/// record `end_ordinal`.
fn find_valid_bytes(
    path: &Path,
    end_byte: Option<u64>,
    end_ordinal: Option<u64>,
) -> io::Result<u64> {
    if let Some(end) = end_byte {
        if home::is_compressed(path) {
            return Ok(end);
        }
        let mut last = [0];
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(end.saturating_sub(1)))?;
        if file.read(&mut last)? == 1 && last == *b"\n" {
            return Ok(end);
        }
    }
    let Some(end_ordinal) = end_ordinal else {
        return Ok(u64::MAX);
    };
    let mut lines = LineReader::new(open_decompressed(path)?, 0);
    let mut valid_bytes = 0;
    while let Some(line) = lines.next()? {
        let ordinal = super::line_frame::parse_ordinal(line.bytes);
        if ordinal.is_some_and(|ordinal| ordinal >= end_ordinal) {
            break;
        }
        valid_bytes = line.end + u64::from(line.is_complete);
    }
    Ok(valid_bytes)
}

/// A reader that ends where a compressed file was truncated, instead of failing.
struct TruncationTolerantReader<R>(R);

impl<R: Read> Read for TruncationTolerantReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer) {
            // Errors of the operating system have a code. Errors without one concern the content.
            Err(error) if error.raw_os_error().is_none() => Ok(0),
            result => result,
        }
    }
}

/// A reader of several texts in sequence.
struct ConcatReader(VecDeque<io::Take<Box<dyn Read>>>);

impl Read for ConcatReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(first) = self.0.front_mut() {
            let read = first.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            self.0.pop_front();
        }
        Ok(0)
    }
}

/// Parts of files, as one text.
pub(super) struct SplicedReader {
    segments: Vec<OpenSegment>,
    position: u64,
}

/// A part of a file, and its position in the complete text.
struct OpenSegment {
    file: File,
    begin: u64,
    end: u64,
}

impl Read for SplicedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let at = self.position;
        let Some(segment) = self.segments.iter_mut().find(|segment| segment.end > at) else {
            return Ok(0);
        };
        segment.file.seek(SeekFrom::Start(at - segment.begin))?;
        let read = (&mut segment.file).take(segment.end - at).read(buffer)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for SplicedReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let end = self.segments.last().map_or(0, |segment| segment.end);
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(offset) => end.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
