//! Readers for files of lines, forwards and backwards, with one line in memory at a time.

use std::io::{self, Read, Seek, SeekFrom};

use memchr::{memchr, memrchr};

/// Maximum length of a line in bytes. A longer line is skipped, because no conversation has one and it must not fill
/// the memory.
pub(crate) const LONGEST: usize = 32 << 20;

const BLOCK: usize = 256 << 10;

/// A line without its line feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) bytes: &'a [u8],
    /// Offset in the file at which the line ends.
    pub(crate) end: u64,
    /// Whether a line feed follows. If not, another process may still be writing the line.
    pub(crate) whole: bool,
}

/// Lines of an input, in order.
pub(crate) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    /// Range of the buffer, from `from` to `to`, that is filled and was not returned yet.
    from: usize,
    to: usize,
    /// Offset of that range in the file.
    offset: u64,
    longest: usize,
    /// Number of lines that were too long.
    pub(crate) oversized: u64,
}

impl<R: Read> Lines<R> {
    /// Creates a reader. `offset` is the position of the input in its file.
    pub(crate) fn new(input: R, offset: u64) -> Self {
        Self::with_longest(input, offset, LONGEST)
    }

    fn with_longest(input: R, offset: u64, longest: usize) -> Self {
        Self {
            input,
            buffer: vec![0; BLOCK],
            from: 0,
            to: 0,
            offset,
            longest,
            oversized: 0,
        }
    }

    /// Returns the next line. `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut searched = 0;
        let mut skipping = false;
        loop {
            let fresh = self.buffer.get(self.from + searched..self.to);
            if let Some(at) = memchr(b'\n', fresh.unwrap_or_default()) {
                let length = searched + at;
                let begin = self.take(length + 1);
                if skipping || length > self.longest {
                    self.oversized += 1;
                    (skipping, searched) = (false, 0);
                    continue;
                }
                let end = self.offset - 1;
                return Ok(Some(self.line(begin, length, end, true)));
            }
            searched = self.to - self.from;
            if searched > self.longest {
                skipping = true;
            }
            if skipping {
                self.take(searched);
                searched = 0;
            }
            if self.fill()? == 0 {
                if skipping {
                    self.oversized += 1;
                    return Ok(None);
                }
                let length = self.to - self.from;
                if length == 0 {
                    return Ok(None);
                }
                let begin = self.take(length);
                return Ok(Some(self.line(begin, length, self.offset, false)));
            }
        }
    }

    /// Consumes `length` bytes and returns their position in the buffer.
    fn take(&mut self, length: usize) -> usize {
        let begin = self.from;
        self.from += length;
        self.offset += length as u64;
        begin
    }

    fn line(&self, begin: usize, length: usize, end: u64, whole: bool) -> Line<'_> {
        let bytes = self.buffer.get(begin..begin + length).unwrap_or_default();
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        Line { bytes, end, whole }
    }

    /// Reads more bytes, after making room for them in the buffer.
    fn fill(&mut self) -> io::Result<usize> {
        if self.from > 0 {
            self.buffer.copy_within(self.from..self.to, 0);
            self.to -= self.from;
            self.from = 0;
        }
        // A buffer that grew for a long line shrinks after that line.
        let wanted = if self.to * 2 > self.buffer.len() {
            self.buffer.len() * 2
        } else if self.to < BLOCK / 2 {
            BLOCK
        } else {
            self.buffer.len()
        };
        if wanted != self.buffer.len() {
            self.buffer.resize(wanted, 0);
            self.buffer.shrink_to_fit();
        }
        let room = self.buffer.get_mut(self.to..).unwrap_or_default();
        let read = read_some(&mut self.input, room)?;
        self.to += read;
        Ok(read)
    }
}

/// Reads the available bytes. Retries if a signal interrupts the read.
pub(crate) fn read_some(input: &mut impl Read, room: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Lines of a text, from its end to its beginning.
pub(crate) struct Backwards<R> {
    text: R,
    /// Bytes from offset `begin` on that were read and not returned yet.
    held: Vec<u8>,
    begin: u64,
    longest: usize,
}

impl<R: Read + Seek> Backwards<R> {
    /// Creates a reader that starts at the byte `end` and proceeds towards the beginning.
    pub(crate) fn new(text: R, end: u64) -> Self {
        Self {
            text,
            held: Vec::new(),
            begin: end,
            longest: LONGEST,
        }
    }

    /// Returns the previous line: its offset and its bytes, which are empty if the line is too long. `None` at the
    /// beginning.
    pub(crate) fn next(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        if self.held.last() == Some(&b'\n') {
            self.held.pop();
        }
        let mut searched = self.held.len();
        let mut too_long = false;
        loop {
            let unsearched = self.held.get(..searched).unwrap_or_default();
            if let Some(at) = memrchr(b'\n', unsearched) {
                let line = self.held.split_off(at + 1);
                let start = self.begin + self.held.len() as u64;
                return Ok(Some((start, if too_long { Vec::new() } else { line })));
            }
            if self.begin == 0 {
                let line = std::mem::take(&mut self.held);
                if too_long {
                    return Ok(Some((0, Vec::new())));
                }
                return Ok((!line.is_empty()).then_some((0, line)));
            }
            too_long |= self.held.len() > self.longest;
            if too_long {
                self.held.clear();
            }
            searched = self.fill()?;
            // The line feed at the end of the buffer ends the line that the caller requests.
            if searched == self.held.len() && self.held.last() == Some(&b'\n') && !too_long {
                self.held.pop();
                searched -= 1;
            }
        }
    }

    /// Reads the block before the bytes in `held` and returns its length.
    fn fill(&mut self) -> io::Result<usize> {
        let length = self.begin.min(BLOCK as u64);
        self.begin -= length;
        self.text.seek(SeekFrom::Start(self.begin))?;
        let mut block = Vec::with_capacity(BLOCK + self.held.len());
        (&mut self.text).take(length).read_to_end(&mut block)?;
        let read = block.len();
        block.append(&mut self.held);
        self.held = block;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn forwards(bytes: &[u8], longest: usize) -> (Vec<(Vec<u8>, u64, bool)>, u64) {
        // Short reads, so that lines cross the boundaries of reads.
        let mut lines = Lines::with_longest(Dribble(bytes, 7), 0, longest);
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push((line.bytes.to_vec(), line.end, line.whole));
        }
        (all, lines.oversized)
    }

    struct Dribble<'a>(&'a [u8], usize);

    impl Read for Dribble<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(room.len());
            self.0.read(room.get_mut(..length).unwrap_or_default())
        }
    }

    fn backwards(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let mut lines = Backwards::new(file, bytes.len() as u64);
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push(line);
        }
        all
    }

    #[test]
    fn lines_know_where_they_end_and_whether_they_are_whole() {
        let (lines, oversized) = forwards(b"ab\n\r\ncde", 100);
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
        let (lines, oversized) = forwards(&bytes, 4096);
        assert_eq!(lines, [(b"next".to_vec(), (1 << 20) + 5, true)]);
        assert_eq!(oversized, 2);
    }

    proptest! {
        #[test]
        fn lines_are_what_a_split_gives(bytes in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..400)) {
            let mut expected: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
            if expected.last().is_some_and(|last| last.is_empty()) {
                expected.pop();
            }
            let found = forwards(&bytes, 1000).0;
            prop_assert_eq!(found.len(), expected.len());
            for ((line, _, _), expected) in found.iter().zip(&expected) {
                prop_assert_eq!(line.as_slice(), expected.strip_suffix(b"\r").unwrap_or(expected));
            }
        }

        #[test]
        fn backwards_gives_the_same_lines_in_reverse(lines in prop::collection::vec("[a-z]{1,9}", 0..40), end in any::<bool>()) {
            let mut text = lines.join("\n");
            if end && !text.is_empty() {
                text.push('\n');
            }
            let found = backwards(text.as_bytes());
            let words: Vec<String> = found.iter().rev().map(|(_, line)| String::from_utf8(line.clone()).unwrap()).collect();
            prop_assert_eq!(&words, &lines);
            for (start, line) in found {
                let start = usize::try_from(start).unwrap();
                prop_assert_eq!(&text.as_bytes()[start..start + line.len()], line.as_slice());
            }
        }
    }

    #[test]
    fn backwards_goes_across_blocks() {
        let long = "z".repeat(BLOCK + 100);
        let text = format!("first\n{long}\nlast\n");
        let found = backwards(text.as_bytes());
        let lengths: Vec<usize> = found.iter().map(|(_, line)| line.len()).collect();
        assert_eq!(lengths, [4, long.len(), 5]);
        assert_eq!(found.last().unwrap().0, 0);
    }
}
