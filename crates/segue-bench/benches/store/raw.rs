//! Limit of the disk: a plain file, written and synced without a store.

use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::path::Path;
use std::time::Instant;

/// A file to which records are appended, each synced before the next.
pub(crate) struct RawLog {
    file: File,
    capacity: Option<usize>,
}

impl RawLog {
    /// Creates a file that grows with each record, like a plain log.
    pub(crate) fn create_growing(path: &Path) -> Self {
        let file = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(path)
            .unwrap();
        Self {
            file,
            capacity: None,
        }
    }

    /// Creates a file of the full size, so that a sync need not write a new size.
    pub(crate) fn create_allocated(path: &Path, capacity: usize) -> Self {
        let mut file = File::create_new(path).unwrap();
        file.write_all(&vec![0; capacity]).unwrap();
        file.sync_all().unwrap();
        Self {
            file,
            capacity: Some(capacity),
        }
    }

    /// Appends `records` records. Returns the appends per second.
    pub(crate) fn measure_rate(&mut self, records: u32, record: &[u8]) -> f64 {
        if let Some(capacity) = self.capacity {
            assert!(record.len() * records as usize <= capacity);
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
