//! Database of opencode, which segue reads without changing any file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Params, Row};
use segue_core::id::NativeId;

use super::storage::{MessageRange, OVERSIZED_PLACEHOLDER};
use crate::reader::discovery::IdHint;
use crate::reader::line_reader::MAX_LINE_BYTES;
use crate::{ReadError, SessionLocation};

/// A database of another program, which segue must not change or block.
///
/// Each query is a short transaction. If the database were opened for reading without further options, SQLite would
/// still create the files of a write-ahead log (`-wal`, `-shm`), or write into the latter.
#[derive(Debug)]
pub(super) struct OpencodeDatabase {
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
    /// State of the files if no process has the database open. The database is then read as one that does not change.
    pub(super) idle_state: Option<IdleDatabaseState>,
}

/// Size of a file, and the time of its last write.
pub(super) type FileVersion = (u64, SystemTime);

/// State of a database that no process has open, and of its write-ahead log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IdleDatabaseState {
    pub(super) file: FileVersion,
    pub(super) wal: Option<FileVersion>,
}

impl IdleDatabaseState {
    pub(super) fn read(path: &Path) -> Option<Self> {
        let wal = nonempty_file_version(&sibling_path(path, "-wal"));
        file_version(path).map(|file| Self { file, wal })
    }
}

impl OpencodeDatabase {
    pub(super) fn open(path: &Path) -> Result<Self, ReadError> {
        if !path.is_file() {
            // Opening a pipe would block.
            return Err(ReadError::not_a_session(path, "it is not a file"));
        }
        let idle_state = read_idle_state(path);
        let has_idle_wal = idle_state.is_some_and(|state| state.wal.is_some());
        let uri_options = match idle_state {
            // No other process has to be locked out, so the index of the log can be in memory.
            Some(_) if has_idle_wal => "&vfs=unix-none",
            Some(_) => "&immutable=1",
            None if sibling_path(path, "-shm").exists() => "&readonly_shm=1",
            // The database has a journal instead of a write-ahead log.
            None => "",
        };
        let mut uri = String::from("file:");
        for byte in path.as_os_str().as_encoded_bytes() {
            match byte {
                b'/' | b'.' | b'_' | b'-' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                    uri.push(char::from(*byte));
                }
                _ => uri.extend(format!("%{byte:02x}").chars()),
            }
        }
        uri.push_str("?mode=ro");
        uri.push_str(uri_options);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        #[expect(
            clippy::disallowed_methods,
            reason = "the database belongs to another program"
        )]
        let connection = Connection::open_with_flags(uri, flags);
        let connection = connection.and_then(|connection| {
            connection.busy_timeout(Duration::from_secs(1))?;
            // Otherwise SQLite would parse a statement for each new value of a parameter.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
            if has_idle_wal {
                connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
                // Otherwise SQLite would treat the log as its own and delete it.
                connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            }
            if idle_state.is_some() {
                // A single transaction for all queries is faster, and no other process can be blocked.
                connection.execute_batch("BEGIN")?;
            }
            Ok(connection)
        });
        Ok(Self {
            connection: connection.map_err(|error| database_error(path, error))?,
            path: path.to_owned(),
            idle_state,
        })
    }

    /// Reopens the database if another process has written to it.
    pub(super) fn refresh(&mut self) -> Result<(), ReadError> {
        if self.idle_state.is_some() && self.idle_state != IdleDatabaseState::read(&self.path) {
            *self = Self::open(&self.path)?;
        }
        Ok(())
    }

    pub(super) fn list_sessions(&self) -> Result<Vec<SessionLocation>, ReadError> {
        self.query(|connection| {
            let mut statement = connection.prepare(
                "SELECT id, max(time_updated, coalesce((SELECT message.time_updated FROM message
                        WHERE session_id = session.id ORDER BY time_created DESC, id DESC LIMIT 1), 0)),
                    time_archived IS NOT NULL
                FROM session",
            )?;
            let mut rows = statement.query([])?;
            let mut locations = Vec::new();
            while let Some(row) = rows.next()? {
                let id = row.get_ref(0)?.as_str().ok();
                let Some(id) = id.filter(|id| NativeId::parse(id).is_ok()) else {
                    continue;
                };
                let modified = row.get(1).ok().map(Timestamp::from_millisecond);
                locations.push(SessionLocation {
                    path: self.path.clone(),
                    id_hint: IdHint::Complete(id.to_owned()),
                    // The size of the database does not describe one session, and changes with every other session.
                    size: 0,
                    modified: modified.and_then(Result::ok).unwrap_or(Timestamp::UNIX_EPOCH),
                    archived: row.get(2)?,
                });
            }
            Ok(locations)
        })
    }

    pub(super) fn message_ids(
        &self,
        session: &str,
        range: MessageRange<'_>,
        limit: u32,
    ) -> Result<Vec<String>, ReadError> {
        let position_query = "(SELECT time_created, id FROM message WHERE session_id = ?1 AND id =";
        let from = range
            .from
            .map(|_| format!("AND (time_created, id) >= {position_query} ?2)"));
        let to = range
            .to
            .map(|_| format!("AND (time_created, id) <= {position_query} ?3)"));
        let query = format!(
            "SELECT id FROM message WHERE session_id = ?1 {} {} ORDER BY time_created, id LIMIT ?4",
            from.unwrap_or_default(),
            to.unwrap_or_default(),
        );
        self.query(|connection| {
            let mut statement = connection.prepare_cached(&query)?;
            let id = |row: &Row<'_>| Ok(row.get_ref(0)?.as_str().unwrap_or_default().to_owned());
            let ids = statement.query_map((session, range.from, range.to, limit), id)?;
            ids.collect()
        })
    }

    pub(super) fn nth_message(
        &self,
        session: &str,
        index: u32,
    ) -> Result<Option<(String, Vec<u8>)>, ReadError> {
        self.query(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id, CASE WHEN octet_length(data) <= ?3 THEN data ELSE ?4 END FROM message
                WHERE session_id = ?1 ORDER BY time_created, id LIMIT 1 OFFSET ?2",
            )?;
            let message = statement.query_row(
                (session, index, MAX_LINE_BYTES, OVERSIZED_PLACEHOLDER),
                |row| {
                    let id = row.get_ref(0)?.as_str().unwrap_or_default();
                    Ok((id.to_owned(), value_bytes(row.get_ref(1)?).to_vec()))
                },
            );
            message.optional()
        })
    }

    /// Returns one value of one row. `None` if there is no row.
    pub(super) fn query_value(
        &self,
        query: &str,
        values: impl Params,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        self.query(|connection| {
            let mut statement = connection.prepare_cached(query)?;
            let value =
                statement.query_row(values, |row| Ok(value_bytes(row.get_ref(0)?).to_vec()));
            value.optional()
        })
    }

    pub(super) fn for_each_part(
        &self,
        message: &str,
        visit: &mut dyn FnMut(&str, &[u8]),
    ) -> Result<(), ReadError> {
        self.query(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id, CASE WHEN octet_length(data) <= ?2 THEN data ELSE ?3 END FROM part
                WHERE message_id = ?1 ORDER BY id",
            )?;
            let mut rows = statement.query((message, MAX_LINE_BYTES, OVERSIZED_PLACEHOLDER))?;
            while let Some(row) = rows.next()? {
                let id = row.get_ref(0)?.as_str().unwrap_or_default();
                visit(id, value_bytes(row.get_ref(1)?));
            }
            Ok(())
        })
    }

    pub(super) fn query<T>(
        &self,
        operation: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, ReadError> {
        operation(&self.connection).map_err(|error| database_error(&self.path, error))
    }
}

pub(super) fn database_error(path: &Path, error: rusqlite::Error) -> ReadError {
    ReadError::io(path, io::Error::other(error))
}

pub(super) fn sibling_path(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns the state of a database. `None` if a process has it open or left an unfinished change.
pub(super) fn read_idle_state(path: &Path) -> Option<IdleDatabaseState> {
    let state = IdleDatabaseState::read(path)?;
    let has_journal = nonempty_file_version(&sibling_path(path, "-journal")).is_some();
    let is_open = state.wal.is_some() && sibling_path(path, "-shm").exists();
    (!has_journal && !is_open).then_some(state)
}

pub(super) fn nonempty_file_version(path: &Path) -> Option<FileVersion> {
    file_version(path).filter(|(size, _)| *size > 0)
}

pub(super) fn file_version(path: &Path) -> Option<FileVersion> {
    let data = fs::metadata(path).ok()?;
    Some((data.len(), data.modified().ok()?))
}

/// Returns the bytes of a text. Empty if the value is not a text.
pub(super) fn value_bytes(value: ValueRef<'_>) -> &[u8] {
    value.as_bytes().unwrap_or_default()
}
