//! A conversation in several files.
//!
//! What a fork or a revert keeps of a conversation stays in the file it was written to; the new file only says
//! how far of it counts. Read one after the other, those parts are one text, and places in it are places in
//! that whole: a mark in the part that a fork has in common with its parent is the same mark in both.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::home::{self, Home};
use super::meta::{Meta, without_instructions};
use crate::lines::Lines;

/// More files than this are no conversation, but files that refer to each other without end.
const MOST_PARTS: usize = 200;
/// A first line that is longer tells nothing.
const LONGEST_META: u64 = 4 << 20;
/// What a packed file may ask for to be unpacked: 2 to the power of this, in bytes.
const LARGEST_WINDOW: u32 = 25;

/// The parts of a conversation, the oldest first.
pub(super) struct History {
    parts: VecDeque<Part>,
    /// Whether a part is not there.
    pub(super) orphaned: bool,
}

struct Part {
    path: PathBuf,
    /// How much of it counts, if not all of it.
    until: Option<u64>,
}

impl History {
    /// Looks for everything that a file goes on from.
    pub(super) fn of(home: &Home, path: &Path) -> io::Result<Self> {
        let first = first_line(path)?;
        Ok(Self::from_first_line(home, path, &first))
    }

    /// The same, if the file's first line is known already.
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

    /// The files, the oldest first.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|part| part.path.as_path())
    }

    /// Whether a part can only be read from its beginning.
    pub(super) fn is_packed(&self) -> bool {
        self.parts.iter().any(|part| home::is_packed(&part.path))
    }

    /// The whole, to be read from its beginning.
    pub(super) fn read(&self) -> io::Result<Box<dyn Read>> {
        let mut files = VecDeque::new();
        for part in &self.parts {
            let file = unpacked(&part.path)?;
            let length = match part.until {
                Some(until) => until,
                // What is written from now on is for the next read.
                None if !home::is_packed(&part.path) => std::fs::metadata(&part.path)?.len(),
                None => u64::MAX,
            };
            files.push_back(file.take(length));
        }
        Ok(Box::new(Joined(files)))
    }

    /// The whole, to be read from anywhere, and how long it is. Nothing of it may be packed.
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

/// A file as the text it holds.
fn unpacked(path: &Path) -> io::Result<Box<dyn Read>> {
    unpack(File::open(path)?, path)
}

/// The text that the file at `path` holds.
pub(super) fn unpack<'a>(file: impl Read + 'a, path: &Path) -> io::Result<Box<dyn Read + 'a>> {
    if !home::is_packed(path) {
        return Ok(Box::new(file));
    }
    let mut decoder = zstd::Decoder::with_buffer(BufReader::new(file))?;
    decoder.window_log_max(LARGEST_WINDOW)?;
    Ok(Box::new(Lenient(decoder)))
}

fn first_line(path: &Path) -> io::Result<Vec<u8>> {
    let mut lines = Lines::new(unpacked(path)?.take(LONGEST_META), 0);
    let line = lines.next()?.map(|line| without_instructions(line.bytes));
    Ok(line.unwrap_or_default())
}

/// How much of a file counts: up to a byte if that is the end of a line, else up to the record with a number.
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

/// A packed file that was cut off ends where it was cut.
struct Lenient<R>(R);

impl<R: Read> Read for Lenient<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self.0.read(room) {
            // The system's own complaints have a number; what has none is said of the content.
            Err(error) if error.raw_os_error().is_none() => Ok(0),
            other => other,
        }
    }
}

/// Texts, one after the other.
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

/// Parts of files as one text.
pub(super) struct Spliced {
    pieces: Vec<Piece>,
    at: u64,
}

/// Where the beginning of a file is in the whole.
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
