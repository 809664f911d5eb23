//! Writer of a session file that counts the bytes it has written.

use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::SystemTime;

pub(crate) struct CorpusFileWriter {
    file: BufWriter<File>,
    buffer: String,
    pub(crate) written_bytes: u64,
}

impl CorpusFileWriter {
    pub(crate) fn create(path: &Path) -> Self {
        Self {
            file: BufWriter::with_capacity(1 << 18, File::create(path).unwrap()),
            buffer: String::new(),
            written_bytes: 0,
        }
    }

    pub(crate) fn write_line(&mut self, line: fmt::Arguments<'_>) {
        self.write_text(line);
        self.write_text(format_args!("\n"));
    }

    pub(crate) fn write_text(&mut self, text: fmt::Arguments<'_>) {
        self.buffer.clear();
        fmt::Write::write_fmt(&mut self.buffer, text).unwrap();
        self.file.write_all(self.buffer.as_bytes()).unwrap();
        self.written_bytes += self.buffer.len() as u64;
    }

    pub(crate) fn finish(self, modified: SystemTime) -> u64 {
        let file = self.file.into_inner().unwrap();
        file.set_modified(modified).unwrap();
        self.written_bytes
    }
}
