//! Limit of the disk: a plain file, written and synced without a store.

use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::path::Path;
use std::time::Instant;

/// A file to which records are appended, each synced before the next.
pub(crate) struct RawLog {
    file: File,
    room: Option<usize>,
}

impl RawLog {
    /// Creates a file that grows with each record, like a plain log.
    pub(crate) fn growing(path: &Path) -> Self {
        let file = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(path)
            .unwrap();
        Self { file, room: None }
    }

    /// Creates a file of the full size, so that a sync need not write a new size.
    pub(crate) fn allocated(path: &Path, room: usize) -> Self {
        let mut file = File::create_new(path).unwrap();
        file.write_all(&vec![0; room]).unwrap();
        file.sync_all().unwrap();
        Self {
            file,
            room: Some(room),
        }
    }

    /// Appends `records` records. Returns the appends per second.
    pub(crate) fn rate(&mut self, records: u32, record: &[u8]) -> f64 {
        if let Some(room) = self.room {
            assert!(record.len() * records as usize <= room);
            self.file.rewind().unwrap();
        }
        let start = Instant::now();
        for _ in 0..records {
            self.file.write_all(record).unwrap();
            self.file.sync_data().unwrap();
        }
        f64::from(records) / start.elapsed().as_secs_f64()
    }
}
