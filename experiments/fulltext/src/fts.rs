//! SQLite's FTS5, in all its makes.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rusqlite::Connection;

use crate::documents::Documents;

#[derive(Clone, Copy)]
pub struct Fts {
    pub tokenizer: &'static str,
    /// Further options of the table.
    pub options: &'static str,
    /// How many bytes of words it gathers before it writes them.
    pub hash: usize,
    /// How many pieces of one size it merges as it goes; 0 for never.
    pub merge: usize,
    /// How many it has at most.
    pub crisis: usize,
    /// The size of SQLite's pages, and of FTS5's own.
    pub page: usize,
    pub leaf: usize,
    /// Whether all is one piece at the end.
    pub optimize: bool,
    pub journal: bool,
    /// How many documents are committed at a time.
    pub committed: usize,
    /// Each is written by a thread of its own.
    pub files: usize,
}

impl Fts {
    pub const BASE: Self = Self {
        tokenizer: "unicode61 remove_diacritics 2",
        options: "contentless_delete=1",
        hash: 1 << 20,
        merge: 4,
        crisis: 16,
        page: 4096,
        leaf: 4050,
        optimize: false,
        journal: true,
        committed: 5000,
        files: 1,
    };
}

pub fn path(place: &Path, file: usize) -> PathBuf {
    place.join(format!("{file}.db"))
}

/// Returns how many bytes of words were indexed.
pub fn build(fts: &Fts, scratch: &Path, place: &Path) -> Result<usize> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..fts.files)
            .map(|file| scope.spawn(move || build_file(fts, scratch, &path(place, file), file)))
            .collect();
        let mut bytes = 0;
        for thread in threads {
            bytes += thread.join().map_err(|_| anyhow::anyhow!("a thread has panicked"))??;
        }
        Ok(bytes)
    })
}

fn build_file(fts: &Fts, scratch: &Path, path: &Path, file: usize) -> Result<usize> {
    let db = Connection::open(path)?;
    let journal = if fts.journal { "WAL" } else { "OFF" };
    let sync = if fts.journal { "NORMAL" } else { "OFF" };
    db.execute_batch(&format!(
        "PRAGMA page_size = {}; PRAGMA journal_mode = {journal}; PRAGMA synchronous = {sync};
         PRAGMA cache_size = -32000; PRAGMA temp_store = MEMORY;
         CREATE TABLE turn (id INTEGER PRIMARY KEY, at INTEGER);
         CREATE VIRTUAL TABLE text USING fts5 (prompt, answer, call, output, content='', {options}{comma} tokenize='{}');
         INSERT INTO text (text, rank) VALUES ('hashsize', {});
         INSERT INTO text (text, rank) VALUES ('automerge', {});
         INSERT INTO text (text, rank) VALUES ('crisismerge', {});
         INSERT INTO text (text, rank) VALUES ('pgsz', {});",
        fts.page, fts.tokenizer, fts.hash, fts.merge, fts.crisis, fts.leaf,
        options = fts.options,
        comma = if fts.options.is_empty() { "" } else { "," },
    ))?;
    let mut documents = Documents::open(scratch)?;
    let (mut number, mut bytes) = (0, 0);
    db.execute_batch("BEGIN")?;
    while let Some(document) = documents.next()? {
        number += 1;
        if number % fts.files != file {
            continue;
        }
        let id = i64::try_from(number)?;
        db.prepare_cached("INSERT INTO turn VALUES (?1, ?2)")?
            .execute((id, document.at))?;
        let [prompt, answer, call, output] = &document.columns;
        db.prepare_cached("INSERT INTO text (rowid, prompt, answer, call, output) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute((id, prompt, answer, call, output))?;
        bytes += document.columns.iter().map(String::len).sum::<usize>();
        if number % fts.committed < fts.files {
            db.execute_batch("COMMIT; BEGIN")?;
        }
    }
    if fts.optimize {
        db.execute_batch("INSERT INTO text (text) VALUES ('optimize')")?;
    }
    db.execute_batch("COMMIT")?;
    if fts.journal {
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    }
    Ok(bytes)
}
