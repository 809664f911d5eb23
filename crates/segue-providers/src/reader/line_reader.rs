//! Readers for files of lines, forwards and backwards, with one line in memory at a time.

use std::io::{self, Read, Seek, SeekFrom};

use memchr::{memchr, memrchr};

/// Maximum length of a line in bytes. A longer line is skipped, because no conversation has one and it must not fill
/// the memory.
pub(crate) const MAX_LINE_BYTES: usize = 32 << 20;

const READ_BLOCK_BYTES: usize = 256 << 10;

/// A line without its line feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawLine<'a> {
    pub(crate) bytes: &'a [u8],
    /// Offset in the file at which the line ends.
    pub(crate) end: u64,
    /// Whether a line feed follows. If not, another process may still be writing the line.
    pub(crate) is_complete: bool,
}

/// Lines of an input, in order.
pub(crate) struct LineReader<R> {
    input: R,
    buffer: Vec<u8>,
    /// Range of the buffer, from `unread_start` to `unread_end`, that is filled and was not returned yet.
    unread_start: usize,
    unread_end: usize,
    /// Offset of that range in the file.
    offset: u64,
    max_line_bytes: usize,
    /// Number of lines that were too long.
    pub(crate) oversized: u64,
}

impl<R: Read> LineReader<R> {
    /// Creates a reader. `offset` is the position of the input in its file.
    pub(crate) fn new(input: R, offset: u64) -> Self {
        Self::with_max_line_bytes(input, offset, MAX_LINE_BYTES)
    }

    fn with_max_line_bytes(input: R, offset: u64, max_line_bytes: usize) -> Self {
        Self {
            input,
            buffer: vec![0; READ_BLOCK_BYTES],
            unread_start: 0,
            unread_end: 0,
            offset,
            max_line_bytes,
            oversized: 0,
        }
    }

    /// Returns the next line. `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<RawLine<'_>>> {
        let mut searched = 0;
        let mut skipping = false;
        loop {
            let unsearched = self
                .buffer
                .get(self.unread_start + searched..self.unread_end);
            if let Some(at) = memchr(b'\n', unsearched.unwrap_or_default()) {
                let length = searched + at;
                let begin = self.consume(length + 1);
                if skipping || length > self.max_line_bytes {
                    self.oversized += 1;
                    (skipping, searched) = (false, 0);
                    continue;
                }
                let end = self.offset - 1;
                return Ok(Some(self.line_at(begin, length, end, true)));
            }
            searched = self.unread_end - self.unread_start;
            if searched > self.max_line_bytes {
                skipping = true;
            }
            if skipping {
                self.consume(searched);
                searched = 0;
            }
            if self.fill_buffer()? == 0 {
                if skipping {
                    self.oversized += 1;
                    return Ok(None);
                }
                let length = self.unread_end - self.unread_start;
                if length == 0 {
                    return Ok(None);
                }
                let begin = self.consume(length);
                return Ok(Some(self.line_at(begin, length, self.offset, false)));
            }
        }
    }

    /// Consumes `length` bytes and returns their position in the buffer.
    fn consume(&mut self, length: usize) -> usize {
        let begin = self.unread_start;
        self.unread_start += length;
        self.offset += length as u64;
        begin
    }

    fn line_at(&self, begin: usize, length: usize, end: u64, is_complete: bool) -> RawLine<'_> {
        let bytes = self.buffer.get(begin..begin + length).unwrap_or_default();
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        RawLine {
            bytes,
            end,
            is_complete,
        }
    }

    /// Reads more bytes, after making room for them in the buffer.
    fn fill_buffer(&mut self) -> io::Result<usize> {
        if self.unread_start > 0 {
            self.buffer
                .copy_within(self.unread_start..self.unread_end, 0);
            self.unread_end -= self.unread_start;
            self.unread_start = 0;
        }
        // A buffer that grew for a long line shrinks after that line.
        let wanted = if self.unread_end * 2 > self.buffer.len() {
            self.buffer.len() * 2
        } else if self.unread_end < READ_BLOCK_BYTES / 2 {
            READ_BLOCK_BYTES
        } else {
            self.buffer.len()
        };
        if wanted != self.buffer.len() {
            self.buffer.resize(wanted, 0);
            self.buffer.shrink_to_fit();
        }
        let free_space = self.buffer.get_mut(self.unread_end..).unwrap_or_default();
        let read = read_available(&mut self.input, free_space)?;
        self.unread_end += read;
        Ok(read)
    }
}

/// Reads the available bytes. Retries if a signal interrupts the read.
pub(crate) fn read_available(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Lines of a text, from its end to its beginning.
pub(crate) struct ReverseLineReader<R> {
    input: R,
    /// Bytes from offset `buffer_offset` on that were read and not returned yet.
    buffer: Vec<u8>,
    buffer_offset: u64,
    max_line_bytes: usize,
}

impl<R: Read + Seek> ReverseLineReader<R> {
    /// Creates a reader that starts at the byte `end` and proceeds towards the beginning.
    pub(crate) fn new(input: R, end: u64) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            buffer_offset: end,
            max_line_bytes: MAX_LINE_BYTES,
        }
    }

    /// Returns the previous line: its offset and its bytes, which are empty if the line is too long. `None` at the
    /// beginning.
    pub(crate) fn next(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        }
        let mut searched = self.buffer.len();
        let mut too_long = false;
        loop {
            let unsearched = self.buffer.get(..searched).unwrap_or_default();
            if let Some(at) = memrchr(b'\n', unsearched) {
                let line = self.buffer.split_off(at + 1);
                let start = self.buffer_offset + self.buffer.len() as u64;
                return Ok(Some((start, if too_long { Vec::new() } else { line })));
            }
            if self.buffer_offset == 0 {
                let line = std::mem::take(&mut self.buffer);
                if too_long {
                    return Ok(Some((0, Vec::new())));
                }
                return Ok((!line.is_empty()).then_some((0, line)));
            }
            too_long |= self.buffer.len() > self.max_line_bytes;
            if too_long {
                self.buffer.clear();
            }
            searched = self.fill_buffer()?;
            // The line feed at the end of the buffer ends the line that the caller requests.
            if searched == self.buffer.len() && self.buffer.last() == Some(&b'\n') && !too_long {
                self.buffer.pop();
                searched -= 1;
            }
        }
    }

    /// Reads the block before the bytes in `buffer` and returns its length.
    fn fill_buffer(&mut self) -> io::Result<usize> {
        let length = self.buffer_offset.min(READ_BLOCK_BYTES as u64);
        self.buffer_offset -= length;
        self.input.seek(SeekFrom::Start(self.buffer_offset))?;
        let mut block = Vec::with_capacity(READ_BLOCK_BYTES + self.buffer.len());
        (&mut self.input).take(length).read_to_end(&mut block)?;
        let read = block.len();
        block.append(&mut self.buffer);
        self.buffer = block;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn read_forwards(bytes: &[u8], max_line_bytes: usize) -> (Vec<(Vec<u8>, u64, bool)>, u64) {
        // Short reads, so that lines cross the boundaries of reads.
        let mut lines = LineReader::with_max_line_bytes(ShortReader(bytes, 7), 0, max_line_bytes);
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push((line.bytes.to_vec(), line.end, line.is_complete));
        }
        (all, lines.oversized)
    }

    struct ShortReader<'a>(&'a [u8], usize);

    impl Read for ShortReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(buffer.len());
            self.0.read(buffer.get_mut(..length).unwrap_or_default())
        }
    }

    fn read_backwards(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let mut lines = ReverseLineReader::new(file, bytes.len() as u64);
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push(line);
        }
        all
    }

    #[test]
    fn lines_have_an_end_offset_and_a_completeness_flag() {
        let (lines, oversized) = read_forwards(b"ab\n\r\ncde", 100);
        assert_eq!(
            lines,
            [
                (b"ab".to_vec(), 2, true),
                (b"".to_vec(), 4, true),
                (b"cde".to_vec(), 8, false)
            ]
        );
        assert_eq!(oversized, 0);
    }

    #[test]
    fn a_line_that_is_too_long_is_counted_and_the_next_is_read() {
        let mut bytes = vec![b'x'; 1 << 20];
        bytes.extend_from_slice(b"\nnext\n");
        bytes.extend(vec![b'y'; 5000]);
        let (lines, oversized) = read_forwards(&bytes, 4096);
        assert_eq!(lines, [(b"next".to_vec(), (1 << 20) + 5, true)]);
        assert_eq!(oversized, 2);
    }

    proptest! {
        #[test]
        fn lines_match_a_split_at_line_feeds(bytes in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..400)) {
            let mut expected: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
            if expected.last().is_some_and(|last| last.is_empty()) {
                expected.pop();
            }
            let found = read_forwards(&bytes, 1000).0;
            prop_assert_eq!(found.len(), expected.len());
            for ((line, _, _), expected) in found.iter().zip(&expected) {
                prop_assert_eq!(line.as_slice(), expected.strip_suffix(b"\r").unwrap_or(expected));
            }
        }

        #[test]
        fn reading_backwards_returns_the_same_lines_in_reverse(lines in prop::collection::vec("[a-z]{1,9}", 0..40), end in any::<bool>()) {
            let mut text = lines.join("\n");
            if end && !text.is_empty() {
                text.push('\n');
            }
            let found = read_backwards(text.as_bytes());
            let words: Vec<String> = found.iter().rev().map(|(_, line)| String::from_utf8(line.clone()).unwrap()).collect();
            prop_assert_eq!(&words, &lines);
            for (start, line) in found {
                let start = usize::try_from(start).unwrap();
                prop_assert_eq!(&text.as_bytes()[start..start + line.len()], line.as_slice());
            }
        }
    }

    #[test]
    fn reading_backwards_crosses_blocks() {
        let long = "z".repeat(READ_BLOCK_BYTES + 100);
        let text = format!("first\n{long}\nlast\n");
        let found = read_backwards(text.as_bytes());
        let lengths: Vec<usize> = found.iter().map(|(_, line)| line.len()).collect();
        assert_eq!(lengths, [4, long.len(), 5]);
        assert_eq!(found.last().unwrap().0, 0);
    }
}
