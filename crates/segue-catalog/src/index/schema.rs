//! File of the index: creation, opening, and rebuilding if it has an older version or is damaged.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, FileControl, OpenFlags};

use super::IndexError;

const SCHEMA: &str = include_str!("schema.sql");

/// Version of the index. It changes with the schema, and if segue reads other content from sessions. An older index is
/// rebuilt.
const INDEX_VERSION: i64 = 5;

/// Id that identifies the file as an index of segue, for `file` and similar programs.
const SQLITE_APPLICATION_ID: i64 = 0x5365_6769;

/// Time to wait for another process that is committing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

#[expect(
    clippy::disallowed_methods,
    reason = "the index is not the store; this function sets its pragmas"
)]
fn open_connection(path: &Path, flags: OpenFlags) -> Result<Connection, IndexError> {
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(BUSY_TIMEOUT)?;
    // The `-wal` and `-shm` files stay, because creating and removing them takes a reader longer than the read itself.
    db.file_control(None::<&str>, FileControl::PersistWal(&mut 1))?;
    db.execute_batch("PRAGMA journal_size_limit = 0")?;
    Ok(db)
}

/// Opens the index for reading.
pub(super) fn open_for_reading(path: &Path) -> Result<Connection, IndexError> {
    if !path.exists() {
        return Err(IndexError::Missing);
    }
    // Only a connection with write access can repair the files that a killed writer left.
    let db = open_connection(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    db.execute_batch("PRAGMA query_only = 1; PRAGMA cache_size = -16000")?;
    match read_version(&db)? {
        INDEX_VERSION => Ok(db),
        newer if newer > INDEX_VERSION => Err(IndexError::Newer),
        _ => Err(IndexError::Missing),
    }
}

/// Opens the index for writing. The caller must have acquired the lock.
pub(super) fn open_for_writing(path: &Path) -> Result<Connection, IndexError> {
    let db = open_or_create(path)?;
    match read_version(&db)? {
        INDEX_VERSION => return Ok(db),
        0 => {}
        newer if newer > INDEX_VERSION => return Err(IndexError::Newer),
        _ => {
            drop(db);
            clear_file(path)?;
            return open_for_writing(path);
        }
    }
    db.execute_batch(&format!(
        "BEGIN IMMEDIATE; {SCHEMA}
         PRAGMA application_id = {SQLITE_APPLICATION_ID}; PRAGMA user_version = {INDEX_VERSION}; COMMIT"
    ))?;
    Ok(db)
}

fn open_or_create(path: &Path) -> Result<Connection, IndexError> {
    if let Some(home) = path.parent() {
        std::fs::create_dir_all(home).map_err(|error| IndexError::io(path, error))?;
    }
    create_private_file(path)?;
    let db = open_connection(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    )?;
    // SQLite does not wait for the disk. A killed process loses no data by that. After a crash of the machine, segue
    // checks the file and rebuilds it if necessary.
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA cache_size = -32000; PRAGMA temp_store = MEMORY",
    )?;
    Ok(db)
}

/// Creates the file with access for the owner only, because conversations are private.
fn create_private_file(path: &Path) -> Result<(), IndexError> {
    use std::os::unix::fs::OpenOptionsExt;
    let created = std::fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path);
    created
        .map(drop)
        .map_err(|error| IndexError::io(path, error))
}

/// Returns `true` if the file passes SQLite's quick check, or does not exist.
pub(super) fn is_intact(path: &Path) -> bool {
    if !path.exists() {
        return true;
    }
    let check = || -> Result<bool, IndexError> {
        let db = open_or_create(path)?;
        let result: String = db.pragma_query_value(None, "quick_check", |row| row.get(0))?;
        Ok(result == "ok")
    };
    check().unwrap_or(false)
}

/// Returns `true` if the index has content of the current version.
pub(super) fn is_current_version(db: &Connection) -> Result<bool, IndexError> {
    Ok(read_version(db)? == INDEX_VERSION)
}

fn read_version(db: &Connection) -> Result<i64, IndexError> {
    Ok(db.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

/// Sets how FTS5 collects words: in a large buffer and without merging, or by the defaults. A killed process may have
/// left either setting.
pub(super) fn set_bulk_mode(db: &Connection, is_bulk: bool) -> rusqlite::Result<()> {
    let (hash, merge) = if is_bulk { (16 << 20, 0) } else { (1 << 20, 4) };
    let sql = "INSERT INTO text (text, rank) VALUES (?1, ?2)";
    db.execute(sql, rusqlite::params!["hashsize", hash])?;
    db.execute(sql, rusqlite::params!["automerge", merge])?;
    Ok(())
}

/// Empties the index, regardless of its content. Removes the file only if it can't be emptied, because removing it
/// causes errors in processes that are reading it.
pub(super) fn clear_file(path: &Path) -> Result<(), IndexError> {
    let clear = || -> Result<(), IndexError> {
        let db = open_or_create(path)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, true)?;
        db.execute_batch("VACUUM")?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, false)?;
        Ok(())
    };
    clear().or_else(|_| remove_files(path))
}

/// Removes the index and its accompanying files.
fn remove_files(path: &Path) -> Result<(), IndexError> {
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
