//! Opening of connections. Every connection is opened in this module, so that all have the same settings.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use segue_core::id::{LegId, TurnId};
use segue_store::{RowIds, StoreClock, StoreError};

use crate::error::OpError;
use crate::{rows, schema};

/// Name of the store's file.
pub const FILE_NAME: &str = "segue.db";

/// Time for which a statement waits while another process has locked the file; a writer locks it for milliseconds.
const BUSY_TIMEOUT: Duration = Duration::from_mins(1);

/// Properties of a store that all its connections share.
#[derive(Clone)]
pub(crate) struct StoreProperties {
    pub(crate) ids: RowIds,
    /// Clock of the store. `None` for the clock of SQLite, which is that of the machine.
    pub(crate) clock: Option<StoreClock>,
}

/// A connection with everything else that the operations need.
pub(crate) struct Db {
    connection: Connection,
    properties: StoreProperties,
}

impl Db {
    pub(crate) fn new(connection: Connection, properties: StoreProperties) -> Self {
        Self {
            connection,
            properties,
        }
    }

    pub(crate) fn properties(&self) -> &StoreProperties {
        &self.properties
    }

    /// Returns the time of the store's clock.
    pub(crate) fn now(&self) -> Result<Timestamp, rusqlite::Error> {
        match &self.properties.clock {
            Some(clock) => Ok(clock()),
            None => self
                .prepare_cached("SELECT CAST(round(unixepoch('subsec') * 1000000) AS INTEGER)")?
                .query_row([], |row| rows::read_time(row, 0)),
        }
    }

    /// Returns the conversion between rows and IDs.
    pub(crate) fn ids(&self) -> &RowIds {
        &self.properties.ids
    }

    pub(crate) fn turn_id(&self, row: i64) -> TurnId {
        self.properties.ids.turn_id(row)
    }

    pub(crate) fn turn_row(&self, id: TurnId) -> i64 {
        self.properties.ids.turn_row(id)
    }

    pub(crate) fn leg_id(&self, row: i64) -> LegId {
        self.properties.ids.leg_id(row)
    }

    pub(crate) fn leg_row(&self, id: LegId) -> i64 {
        self.properties.ids.leg_row(id)
    }
}

impl Deref for Db {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

/// Ensures that `directory` contains a store of the current format. Returns the path of its file and a connection that
/// reads it.
pub(crate) fn prepare_store(
    directory: &Path,
    clock: Option<StoreClock>,
) -> Result<(PathBuf, Db), StoreError> {
    let path = directory.join(FILE_NAME);
    if !path.exists() {
        create_private_file(directory, &path).map_err(creation_error)?;
    }
    let to_store_error = |op_error: OpError| op_error.into_store_error("open");
    match open_reader(&path) {
        Ok(reader) if schema::is_current(&reader)? => {
            schema::log_opened(&path);
            let ids = read_ids(&reader).map_err(to_store_error)?;
            return Ok((path, Db::new(reader, StoreProperties { ids, clock })));
        }
        Ok(_) => {}
        // A process was killed while it created the store. Only a writer can roll back the hot journal that remains.
        Err(op_error) if op_error.needs_writer() => {}
        Err(op_error) => return Err(to_store_error(op_error)),
    }
    migrate_file(directory, &path)?;
    let reader = open_reader(&path).map_err(to_store_error)?;
    schema::log_opened(&path);
    let ids = read_ids(&reader).map_err(to_store_error)?;
    Ok((path, Db::new(reader, StoreProperties { ids, clock })))
}

/// Reads the key of the store.
fn read_ids(db: &Connection) -> Result<RowIds, OpError> {
    let key = db.query_row("SELECT first, second FROM id_key", [], |row| {
        Ok([row.get(0)?, row.get(1)?].map(i64::cast_unsigned))
    })?;
    Ok(RowIds::new(key))
}

fn create_private_file(directory: &Path, path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match created {
        Ok(_) => File::open(directory)?.sync_all(),
        // A concurrent process created the file first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Migrates the file to the current format. A lock file admits one process at a time.
fn migrate_file(directory: &Path, path: &Path) -> Result<(), StoreError> {
    let lock_path = directory.join("segue.lock");
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&lock_path)
        .and_then(|lock| lock.lock().map(|()| lock))
        .map_err(|error| creation_error(name_file(&lock_path, &error)))?;
    let mut db = open_writer(path).map_err(|op_error| op_error.into_store_error("open"))?;
    schema::apply_migrations(&mut db, path)?;
    drop(db);
    // SQLite syncs its files, but not the entries of a new directory.
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| creation_error(name_file(directory, &error)))?;
    drop(lock);
    Ok(())
}

/// Returns the error with the path of a file that is not the store itself.
fn name_file(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn creation_error(error: io::Error) -> StoreError {
    let source = Box::new(error);
    match source.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            StoreError::ReadOnly { source }
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::DiskFull { source }
        }
        _ => StoreError::Backend {
            operation: "create",
            source,
        },
    }
}

/// Opens the connection that writes.
pub(crate) fn open_writer(path: &Path) -> Result<Connection, OpError> {
    let db = open_connection(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    // FULL syncs the WAL at each commit, so that an acknowledged commit is on the disk.
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "fullfsync", "ON")?;
    db.pragma_update(None, "foreign_keys", "ON")?;
    Ok(db)
}

/// Opens a read-only connection. If the file is on a read-only disk, opens it as immutable.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, OpError> {
    let db = open_connection(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    // The first query opens the file. In WAL mode it fails on a read-only disk, because SQLite cannot create the file
    // for the index of the WAL.
    let probe = db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
    match probe {
        Ok(()) => Ok(db),
        Err(_) if is_immutable(path) => Ok(open_immutable(path)?),
        Err(error) => Err(error.into()),
    }
}

fn open_connection(path: &Path, mode: OpenFlags) -> Result<Connection, rusqlite::Error> {
    let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    #[expect(clippy::disallowed_methods, reason = "every connection is opened here")]
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(BUSY_TIMEOUT)?;
    db.set_prepared_statement_cache_capacity(64);
    // Without the stability guarantee, SQLite prepares a statement again at each execution if the plan compares a
    // parameter with the condition of a partial index.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(db)
}

/// Returns `true` if the file is in a directory that segue cannot write to and its WAL is missing or empty: then no
/// process can be changing the file.
fn is_immutable(path: &Path) -> bool {
    let wal = path.with_file_name(format!("{FILE_NAME}-wal"));
    let is_wal_empty = fs::metadata(wal).map_or(true, |wal| wal.len() == 0);
    let is_unwritable = path.parent().is_some_and(|directory| {
        rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_err()
    });
    is_wal_empty && is_unwritable
}

fn open_immutable(path: &Path) -> Result<Connection, rusqlite::Error> {
    let escaped: String = path
        .to_string_lossy()
        .chars()
        .flat_map(|c| match c {
            '%' => "%25".chars().collect::<Vec<_>>(),
            '?' => "%3f".chars().collect(),
            '#' => "%23".chars().collect(),
            c => vec![c],
        })
        .collect();
    open_connection(
        Path::new(&format!("file:{escaped}?immutable=1")),
        OpenFlags::SQLITE_OPEN_READ_ONLY,
    )
}
