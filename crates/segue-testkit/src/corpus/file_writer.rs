//! Writer of a session file that counts the bytes it has written.

use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::SystemTime;

pub(crate) struct Written {
    file: BufWriter<File>,
    text: String,
    pub(crate) bytes: u64,
}

impl Written {
    pub(crate) fn create(path: &Path) -> Self {
        Self {
            file: BufWriter::with_capacity(1 << 18, File::create(path).unwrap()),
            text: String::new(),
            bytes: 0,
        }
    }

    pub(crate) fn line(&mut self, line: fmt::Arguments<'_>) {
        self.text(line);
        self.text(format_args!("\n"));
    }

    pub(crate) fn text(&mut self, text: fmt::Arguments<'_>) {
        self.text.clear();
        fmt::Write::write_fmt(&mut self.text, text).unwrap();
        self.file.write_all(self.text.as_bytes()).unwrap();
        self.bytes += self.text.len() as u64;
    }

    pub(crate) fn finish(self, modified: SystemTime) -> u64 {
        let file = self.file.into_inner().unwrap();
        file.set_modified(modified).unwrap();
        self.bytes
    }
}
