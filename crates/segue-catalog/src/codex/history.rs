//! Conversations in several files.
//!
//! A fork or a revert does not copy the records that it shares with an older file. The new file only states how much of
//! the older file is valid. Read in order, these parts form one text, and positions are positions in that text: a mark
//! in the records that a fork shares with its parent is the same mark in both.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::home::{self, Home};
use super::meta::{Meta, without_instructions};
use crate::compression::Decompressor;
use crate::lines::Lines;

/// Maximum number of files of a conversation. A longer chain consists of files that refer to each other endlessly.
const MOST_PARTS: usize = 200;
/// Maximum length of a first line in bytes. A longer one is ignored.
const LONGEST_META: u64 = 4 << 20;
/// Maximum window of a compressed file, which is the memory that reading it takes.
const MAX_WINDOW_BYTES: u64 = 1 << 25;

/// Parts of a conversation, the oldest first.
pub(super) struct History {
    parts: VecDeque<Part>,
    /// Whether a part is missing.
    pub(super) orphaned: bool,
}

struct Part {
    path: PathBuf,
    /// Number of bytes that are valid. `None` if all are.
    until: Option<u64>,
}

impl History {
    /// Finds all files that a file continues.
    pub(super) fn of(home: &Home, path: &Path) -> io::Result<Self> {
        let first = first_line(path)?;
        Ok(Self::from_first_line(home, path, &first))
    }

    /// Finds all files that a file continues, given the first line of the file.
    pub(super) fn from_first_line(home: &Home, path: &Path, first: &[u8]) -> Self {
        let mut history = Self {
            parts: VecDeque::new(),
            orphaned: false,
        };
        history.parts.push_front(Part {
            path: path.to_owned(),
            until: None,
        });
        let mut base = Meta::read(first).and_then(|meta| meta.base());
        while let Some(next) = base {
            let Some(part) = home.file_of(&next.file, path).filter(|found| {
                let known = |part: &Part| part.path == *found;
                history.parts.len() < MOST_PARTS && !history.parts.iter().any(known)
            }) else {
                history.orphaned = true;
                break;
            };
            let read = first_line(&part).and_then(|first| {
                let until = until(&part, next.end_byte, next.end_ordinal)?;
                Ok((first, until))
            });
            let Ok((first, until)) = read else {
                history.orphaned = true;
                break;
            };
            history.parts.push_front(Part {
                path: part,
                until: Some(until),
            });
            base = Meta::read(&first).and_then(|meta| meta.base());
        }
        history
    }

    /// Returns the paths of the files, the oldest first.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|part| part.path.as_path())
    }

    /// Returns `true` if a part is compressed, so that it can only be read from its beginning.
    pub(super) fn is_packed(&self) -> bool {
        self.parts.iter().any(|part| home::is_packed(&part.path))
    }

    /// Opens the complete text, to be read from its beginning.
    pub(super) fn read(&self) -> io::Result<Box<dyn Read>> {
        let mut files = VecDeque::new();
        for part in &self.parts {
            let file = unpacked(&part.path)?;
            let length = match part.until {
                Some(until) => until,
                // Bytes that are appended from now on belong to the next read.
                None if !home::is_packed(&part.path) => std::fs::metadata(&part.path)?.len(),
                None => u64::MAX,
            };
            files.push_back(file.take(length));
        }
        Ok(Box::new(Joined(files)))
    }

    /// Opens the complete text, to be read from any position, and returns its length. No part may be compressed.
    pub(super) fn open(&self) -> io::Result<(Spliced, u64)> {
        let mut pieces = Vec::new();
        let mut end = 0;
        for part in &self.parts {
            let file = File::open(&part.path)?;
            let size = file.metadata()?.len();
            let begin = end;
            end += part.until.map_or(size, |until| until.min(size));
            pieces.push(Piece { file, begin, end });
        }
        Ok((Spliced { pieces, at: 0 }, end))
    }
}

/// Opens a file and decompresses it if necessary.
fn unpacked(path: &Path) -> io::Result<Box<dyn Read>> {
    Ok(unpack(File::open(path)?, path))
}

/// Returns the content of the file at `path`, decompressed if necessary.
pub(super) fn unpack<'a>(file: impl Read + 'a, path: &Path) -> Box<dyn Read + 'a> {
    if !home::is_packed(path) {
        return Box::new(file);
    }
    let content = Decompressor::new(BufReader::new(file), MAX_WINDOW_BYTES);
    Box::new(Lenient(content))
}

fn first_line(path: &Path) -> io::Result<Vec<u8>> {
    let mut lines = Lines::new(unpacked(path)?.take(LONGEST_META), 0);
    let line = lines.next()?.map(|line| without_instructions(line.bytes));
    Ok(line.unwrap_or_default())
}

/// Returns the number of valid bytes of a file: `end_byte` if a line ends at that offset, or else the bytes before the
/// record `end_ordinal`.
fn until(path: &Path, end_byte: Option<u64>, end_ordinal: Option<u64>) -> io::Result<u64> {
    if let Some(end) = end_byte {
        if home::is_packed(path) {
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
    let mut lines = Lines::new(unpacked(path)?, 0);
    let mut until = 0;
    while let Some(line) = lines.next()? {
        let ordinal = super::frame::ordinal(line.bytes);
        if ordinal.is_some_and(|ordinal| ordinal >= end_ordinal) {
            break;
        }
        until = line.end + u64::from(line.whole);
    }
    Ok(until)
}

/// A reader that ends where a compressed file was truncated, instead of failing.
struct Lenient<R>(R);

impl<R: Read> Read for Lenient<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self.0.read(room) {
            // Errors of the operating system have a code. Errors without one concern the content.
            Err(error) if error.raw_os_error().is_none() => Ok(0),
            other => other,
        }
    }
}

/// A reader of several texts in sequence.
struct Joined(VecDeque<io::Take<Box<dyn Read>>>);

impl Read for Joined {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        while let Some(first) = self.0.front_mut() {
            let read = first.read(room)?;
            if read > 0 || room.is_empty() {
                return Ok(read);
            }
            self.0.pop_front();
        }
        Ok(0)
    }
}

/// Parts of files, as one text.
pub(super) struct Spliced {
    pieces: Vec<Piece>,
    at: u64,
}

/// A part of a file, and its position in the complete text.
struct Piece {
    file: File,
    begin: u64,
    end: u64,
}

impl Read for Spliced {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let at = self.at;
        let Some(piece) = self.pieces.iter_mut().find(|piece| piece.end > at) else {
            return Ok(0);
        };
        piece.file.seek(SeekFrom::Start(at - piece.begin))?;
        let read = (&mut piece.file).take(piece.end - at).read(room)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Spliced {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let end = self.pieces.last().map_or(0, |piece| piece.end);
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => end.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
