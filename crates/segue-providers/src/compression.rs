//! Zstandard compression, for archived files and for old sessions of Codex.

use std::io::{self, BufRead, Read, Write};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// Maximum number of bytes that are compressed at once, as one frame of the file.
const MAX_FRAME_BYTES: usize = 8 << 20;

/// A writer that compresses into another writer. [`Compressor::finish`] writes the last frame.
pub struct Compressor<W> {
    target: W,
    frame: Vec<u8>,
}

impl<W: Write> Compressor<W> {
    /// Creates a writer that compresses into `target`.
    pub fn new(target: W) -> Self {
        Self {
            target,
            frame: Vec::new(),
        }
    }

    /// Writes the bytes that are still in memory and returns the target.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_frame()?;
        Ok(self.target)
    }

    fn write_frame(&mut self) -> io::Result<()> {
        // The encoder panics if its source or target fails. Memory does not fail.
        let frame = compress_to_vec(self.frame.as_slice(), CompressionLevel::Fastest);
        self.frame.clear();
        self.target.write_all(&frame)
    }
}

impl<W: Write> Write for Compressor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.frame.len() >= MAX_FRAME_BYTES {
            self.write_frame()?;
        }
        let free_bytes = MAX_FRAME_BYTES - self.frame.len();
        let accepted = bytes.get(..free_bytes).unwrap_or(bytes);
        self.frame.extend_from_slice(accepted);
        Ok(accepted.len())
    }

    /// Does nothing: a frame is written when it is full, and the last one by [`Compressor::finish`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A reader that decompresses a file of any number of frames.
///
/// Fails with [`io::ErrorKind::InvalidData`] if the content is damaged, and with the error of the source if reading
/// fails.
pub struct Decompressor<R> {
    source: ErrorCapturingReader<R>,
    decoder: FrameDecoder,
    /// Whether the decoder is within a frame.
    is_open: bool,
}

impl<R: BufRead> Decompressor<R> {
    /// Returns a reader that accepts frames with a window of at most `max_window_bytes`.
    pub fn new(source: R, max_window_bytes: u64) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(max_window_bytes);
        Self {
            source: ErrorCapturingReader {
                inner: source,
                error: None,
            },
            decoder,
            is_open: false,
        }
    }

    /// Starts the next frame. Returns `false` at the end of the file.
    fn open_frame(&mut self) -> io::Result<bool> {
        while !self.source.inner.fill_buf()?.is_empty() {
            let opened = self.decoder.reset(&mut self.source);
            match opened {
                Ok(()) => {
                    self.is_open = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut content = (&mut self.source.inner).take(u64::from(length));
                    io::copy(&mut content, &mut io::sink())?;
                }
                Err(error) => return Err(self.io_error(error)),
            }
        }
        Ok(false)
    }

    /// Ends a frame and compares its checksum, if it has one.
    fn close_frame(&mut self) -> io::Result<()> {
        self.is_open = false;
        let expected = self.decoder.get_checksum_from_data();
        if expected.is_some() && expected != self.decoder.get_calculated_checksum() {
            let error = "the content does not match its checksum";
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        Ok(())
    }

    /// Returns the error of the source if it failed, else that of the decoder.
    fn io_error(&mut self, error: FrameDecoderError) -> io::Error {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, error);
        self.source.error.take().unwrap_or_else(invalid)
    }
}

impl<R: BufRead> Read for Decompressor<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_open && (buffer.is_empty() || !self.open_frame()?) {
                return Ok(0);
            }
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            if self.decoder.is_finished() {
                self.close_frame()?;
                continue;
            }
            let one_block = BlockDecodingStrategy::UptoBlocks(1);
            let decoded = self.decoder.decode_blocks(&mut self.source, one_block);
            decoded.map_err(|error| self.io_error(error))?;
        }
    }
}

/// A source that stores its own error, because the decoder reports that error as damaged content.
struct ErrorCapturingReader<R> {
    inner: R,
    error: Option<io::Error>,
}

impl<R: Read> Read for ErrorCapturingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.inner.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let kind = error.kind();
                    self.error = Some(error);
                    return Err(kind.into());
                }
                read => return read,
            }
        }
    }
}

/// Compresses bytes as one file.
#[cfg(test)]
pub(crate) fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut compressor = Compressor::new(Vec::new());
    compressor.write_all(bytes).unwrap();
    compressor.finish().unwrap()
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    const MAX_WINDOW_BYTES: u64 = 1 << 25;

    fn decompress(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        Decompressor::new(bytes, MAX_WINDOW_BYTES).read_to_end(&mut content)?;
        Ok(content)
    }

    fn long_text() -> Vec<u8> {
        let line =
            |number| format!("{{\"line\":{number},\"text\":\"the same words as before\"}}\n");
        (0..300_000)
            .flat_map(|number| line(number).into_bytes())
            .collect()
    }

    #[test]
    fn content_of_any_length_survives_compression() {
        let long = long_text();
        assert!(long.len() > MAX_FRAME_BYTES, "more than one frame");
        for content in [&b""[..], b"x", &long] {
            let compressed = compress(content);
            assert!(compressed.len() < content.len() / 4 || content.len() < 2);
            assert_eq!(decompress(&compressed).unwrap(), content);
        }
    }

    /// A frame that `zstd -3` of the reference implementation compressed, as in archives of segue 0.1.
    #[test]
    fn a_frame_of_the_reference_implementation_is_read() {
        const REFERENCE_FRAME: &[u8] = include_bytes!("compression/reference.zst");
        let lines = (0..2000).flat_map(|number| format!("line {number}\n").into_bytes());
        assert_eq!(
            decompress(REFERENCE_FRAME).unwrap(),
            lines.collect::<Vec<u8>>()
        );
    }

    #[test]
    fn a_skippable_frame_is_skipped() {
        let mut file = vec![0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        file.extend(compress(b"after it"));
        assert_eq!(decompress(&file).unwrap(), b"after it");
    }

    #[test]
    fn damaged_content_is_an_error() {
        let compressed = compress(&long_text());
        let mut changed = compressed.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 0x10;
        for file in [&b"no zstd at all"[..], &compressed[..middle], &changed] {
            let error = decompress(file).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        }
    }

    #[test]
    fn content_before_damage_is_read() {
        let long = long_text();
        let compressed = compress(&long);
        let mut content = Vec::new();
        let truncated = &compressed[..compressed.len() - 10];
        let outcome = Decompressor::new(truncated, MAX_WINDOW_BYTES).read_to_end(&mut content);
        outcome.unwrap_err();
        assert!(content.len() > MAX_FRAME_BYTES && long.starts_with(&content));
    }

    #[test]
    fn an_error_of_the_source_retains_its_os_error_number() {
        struct BrokenDisk;
        impl Read for BrokenDisk {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::from_raw_os_error(5))
            }
        }
        let file = compress(&long_text());
        let source = BufReader::new(file[..1000].chain(BrokenDisk));
        let mut reader = Decompressor::new(source, MAX_WINDOW_BYTES);
        let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(5));
    }

    #[test]
    fn a_full_disk_is_an_error_and_not_a_panic() {
        struct FullDisk;
        impl Write for FullDisk {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::from_raw_os_error(28))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut compressor = Compressor::new(FullDisk);
        compressor.write_all(b"text").unwrap();
        let error = compressor.finish().err().unwrap();
        assert_eq!(error.raw_os_error(), Some(28));
    }
}
