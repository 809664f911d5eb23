//! Storage of opencode's objects: a database, or files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::database::OpencodeDatabase;
use super::reader::{DatabaseCache, cache_database};
use crate::reader::line_reader::MAX_LINE_BYTES;
use crate::{ReadError, SessionScan};

/// Returns `true` if a path is a database of opencode. There is one for each release channel that the user has
/// installed.
pub(super) fn is_database(path: &Path) -> bool {
    let name = path.file_stem().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("opencode")) && path.extension() == Some("db".as_ref())
}

/// Replacement of an object that is too long. It is not a valid object.
pub(super) const OVERSIZED_PLACEHOLDER: &str = "too long";

/// Storage of the objects.
pub(super) enum OpencodeStore {
    Database(OpencodeDatabase),
    /// Directory of all objects, and the file of the session itself.
    Files(PathBuf, PathBuf),
}

/// A storage that is being read. Its database returns to the cache when the read ends.
pub(super) struct StoreGuard {
    pub(super) store: OpencodeStore,
    pub(super) cache: DatabaseCache,
}

impl Drop for StoreGuard {
    fn drop(&mut self) {
        let placeholder = OpencodeStore::Files(PathBuf::new(), PathBuf::new());
        if let OpencodeStore::Database(database) = std::mem::replace(&mut self.store, placeholder) {
            cache_database(&self.cache, database);
        }
    }
}

/// Range of the messages of a session, from one message to another, both included. `None` means no limit.
#[derive(Clone, Copy, Default)]
pub(super) struct MessageRange<'a> {
    pub(super) from: Option<&'a str>,
    pub(super) to: Option<&'a str>,
}

impl OpencodeStore {
    /// Reopens the database if another process has written to it.
    pub(super) fn refresh(&mut self) -> Result<(), ReadError> {
        match self {
            Self::Database(database) => database.refresh(),
            Self::Files(..) => Ok(()),
        }
    }

    /// Returns the session itself. `None` if it no longer exists.
    pub(super) fn read_session(&self, id: &str) -> Result<Option<Vec<u8>>, ReadError> {
        match self {
            Self::Database(database) => {
                // The row is converted to the format of the files, so that one type reads both.
                database.query_value(
                    "SELECT json_object('parentID', parent_id, 'directory', directory, 'title', title,
                        'version', version, 'time', json_object('created', time_created),
                        'revert', CASE WHEN json_valid(revert) THEN json(revert) END)
                    FROM session WHERE id = ?1",
                    [id],
                )
            }
            Self::Files(_, path) => read_object(path),
        }
    }

    /// Returns the ids of the messages, in order. A database returns at most `limit` of them, because a query for all
    /// would take longer.
    pub(super) fn message_ids(
        &self,
        session: &str,
        range: MessageRange<'_>,
        limit: u32,
    ) -> Result<Vec<String>, ReadError> {
        match self {
            Self::Database(database) => database.message_ids(session, range, limit),
            Self::Files(storage, _) => {
                let mut ids = list_object_names(&storage.join("message").join(session))?;
                let is_in_range = |id: &str| {
                    range.from.is_none_or(|from| id >= from) && range.to.is_none_or(|to| id <= to)
                };
                ids.retain(|id| is_in_range(id));
                Ok(ids)
            }
        }
    }

    /// Returns the id and the content of the message at index `index`. `None` if there are fewer messages.
    pub(super) fn nth_message(
        &self,
        session: &str,
        index: u32,
    ) -> Result<Option<(String, Vec<u8>)>, ReadError> {
        match self {
            Self::Database(database) => database.nth_message(session, index),
            Self::Files(..) => {
                let ids = self.message_ids(session, MessageRange::default(), u32::MAX)?;
                let Some(id) = ids.into_iter().nth(index as usize) else {
                    return Ok(None);
                };
                let message = self.read_message(session, &id)?;
                Ok(message.map(|message| (id, message)))
            }
        }
    }

    pub(super) fn read_message(
        &self,
        session: &str,
        id: &str,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        match self {
            Self::Database(database) => {
                let query = "SELECT CASE WHEN octet_length(data) <= ?2 THEN data ELSE ?3 END
                    FROM message WHERE id = ?1";
                database.query_value(query, (id, MAX_LINE_BYTES, OVERSIZED_PLACEHOLDER))
            }
            Self::Files(storage, _) => {
                read_object(&storage.join(format!("message/{session}/{id}.json")))
            }
        }
    }

    /// Passes the parts of a message to `visit`, in order, with their ids.
    pub(super) fn for_each_part(
        &self,
        message: &str,
        visit: &mut dyn FnMut(&str, &[u8]),
    ) -> Result<(), ReadError> {
        match self {
            Self::Database(database) => database.for_each_part(message, visit),
            Self::Files(storage, _) => {
                let directory = storage.join("part").join(message);
                for id in list_object_names(&directory)? {
                    if let Some(part) = read_object(&directory.join(format!("{id}.json")))? {
                        visit(&id, &part);
                    }
                }
                Ok(())
            }
        }
    }
}

/// Returns the names of the objects in a directory, sorted. This is the order of time, because ids begin with the time.
pub(super) fn list_object_names(directory: &Path) -> Result<Vec<String>, ReadError> {
    let mut scan = SessionScan::default();
    let mut names: Vec<String> = Vec::new();
    for entry in scan.read_entries(directory) {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(".json"));
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        names.extend(id.filter(|_| is_file).map(str::to_owned));
    }
    names.sort_unstable();
    scan.unreadable.pop().map_or(Ok(names), Err)
}

/// Reads an object from a file. `None` if the file no longer exists.
pub(super) fn read_object(path: &Path) -> Result<Option<Vec<u8>>, ReadError> {
    let mut bytes = Vec::new();
    let read = File::open(path)
        .and_then(|file| file.take(MAX_LINE_BYTES as u64 + 1).read_to_end(&mut bytes));
    match read {
        Ok(length) if length > MAX_LINE_BYTES => Ok(Some(OVERSIZED_PLACEHOLDER.into())),
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ReadError::io(path, error)),
    }
}
