//! The file of the index: made, opened, and made anew when it is of another version or damaged.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, FileControl, OpenFlags};

use super::IndexError;

const SCHEMA: &str = include_str!("schema.sql");

/// Another version means another shape, or that something else is read out of sessions: it is built anew.
const VERSION: i64 = 5;

/// Marks the file as ours, for `file` and the like.
const APPLICATION: i64 = 0x5365_6769;

/// How long to wait for somebody who is just committing.
const BUSY: Duration = Duration::from_secs(10);

#[expect(
    clippy::disallowed_methods,
    reason = "the index is no store: it has pragmas of its own, and this is where they are set"
)]
fn open(path: &Path, flags: OpenFlags) -> Result<Connection, IndexError> {
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(BUSY)?;
    // The files beside it stay: to make them and to remove them again costs whoever just looks more than the look.
    db.file_control(None::<&str>, FileControl::PersistWal(&mut 1))?;
    db.execute_batch("PRAGMA journal_size_limit = 0")?;
    Ok(db)
}

/// Opens the index in order to read it.
pub(super) fn open_to_read(path: &Path) -> Result<Connection, IndexError> {
    if !path.exists() {
        return Err(IndexError::Missing);
    }
    // What a killed writer left can only be put right by somebody who may write.
    let db = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    db.execute_batch("PRAGMA query_only = 1; PRAGMA cache_size = -16000")?;
    match version(&db)? {
        VERSION => Ok(db),
        newer if newer > VERSION => Err(IndexError::Newer),
        _ => Err(IndexError::Missing),
    }
}

/// Opens the index in order to write it; the lock must be held.
pub(super) fn open_to_write(path: &Path) -> Result<Connection, IndexError> {
    let db = connect(path)?;
    match version(&db)? {
        VERSION => return Ok(db),
        0 => {}
        newer if newer > VERSION => return Err(IndexError::Newer),
        _ => {
            drop(db);
            empty(path)?;
            return open_to_write(path);
        }
    }
    db.execute_batch(&format!(
        "BEGIN IMMEDIATE; {SCHEMA}
         PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT"
    ))?;
    Ok(db)
}

fn connect(path: &Path) -> Result<Connection, IndexError> {
    if let Some(home) = path.parent() {
        std::fs::create_dir_all(home).map_err(|error| IndexError::io(path, error))?;
    }
    private(path)?;
    let db = open(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    )?;
    // Nothing waits for the disk: whoever is killed loses nothing by that, and after a crash of the whole machine the
    // file is checked, and built anew if need be.
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA cache_size = -32000; PRAGMA temp_store = MEMORY",
    )?;
    Ok(db)
}

/// Conversations are nobody else's business.
fn private(path: &Path) -> Result<(), IndexError> {
    use std::os::unix::fs::OpenOptionsExt;
    let made = std::fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path);
    made.map(drop).map_err(|error| IndexError::io(path, error))
}

/// Whether all of the file is what was written, as far as that can be told. One that is not there is.
pub(super) fn is_sound(path: &Path) -> bool {
    if !path.exists() {
        return true;
    }
    let check = || -> Result<bool, IndexError> {
        let db = connect(path)?;
        let checked: String = db.pragma_query_value(None, "quick_check", |row| row.get(0))?;
        Ok(checked == "ok")
    };
    check().unwrap_or(false)
}

/// Whether there is something in it, and of our version.
pub(super) fn is_made(db: &Connection) -> Result<bool, IndexError> {
    Ok(version(db)? == VERSION)
}

fn version(db: &Connection) -> Result<i64, IndexError> {
    Ok(db.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

/// How words are gathered: much before any of it is written out and nothing merged, or as usual. A process that was killed
/// may have left it either way.
pub(super) fn for_many(db: &Connection, many: bool) -> rusqlite::Result<()> {
    let (hash, merge) = if many { (16 << 20, 0) } else { (1 << 20, 4) };
    let set = "INSERT INTO text (text, rank) VALUES (?1, ?2)";
    db.execute(set, rusqlite::params!["hashsize", hash])?;
    db.execute(set, rusqlite::params!["automerge", merge])?;
    Ok(())
}

/// Empties the index, whatever is in it. Others may be looking at it, and what is taken away under their hands is an
/// error to them; so the file only goes where nothing else helps.
pub(super) fn empty(path: &Path) -> Result<(), IndexError> {
    let emptied = || -> Result<(), IndexError> {
        let db = connect(path)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, true)?;
        db.execute_batch("VACUUM")?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, false)?;
        Ok(())
    };
    emptied().or_else(|_| remove(path))
}

/// Removes the index with all that belongs to it.
fn remove(path: &Path) -> Result<(), IndexError> {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match std::fs::remove_file(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(IndexError::io(path, error));
            }
            _ => {}
        }
    }
    Ok(())
}
