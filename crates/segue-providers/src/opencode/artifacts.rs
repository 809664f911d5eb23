//! Artifacts of an opencode session: rows of its database, or the files of older versions.
//!
//! Rows are copied in the format of `opencode export`, which `opencode import` reads. Data of a complete project, such
//! as snapshots of its files, belongs to no session.

mod export;
mod layout;

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;

use jiff::Timestamp;
use segue_core::id::NativeId;

use super::OpencodeReader;
use super::database::OpencodeDatabase;
use super::storage::is_database;
use crate::reader::artifacts::{ArtifactCollector, list_directory};
use crate::{ArchiveError, ArtifactRole, SessionArtifacts, SessionLocation, SessionStorage};

/// Maximum nesting of sub-agents, which also ends a cycle.
const MAX_SUBAGENT_DEPTH: usize = 8;

impl SessionStorage for OpencodeReader {
    fn home(&self) -> &Path {
        &self.data_dir
    }

    fn collect_artifacts(
        &self,
        location: &SessionLocation,
        id: &NativeId,
    ) -> Result<SessionArtifacts, ArchiveError> {
        let mut artifacts = ArtifactCollector::new(&self.data_dir)?;
        if is_database(&location.path) {
            let database = OpencodeDatabase::open(&location.path)?;
            artifacts.add_rows(id.as_str(), location.modified);
            for (subagent_id, modified) in
                list_subagent_sessions(&database, id.as_str(), MAX_SUBAGENT_DEPTH)?
            {
                artifacts.add_rows(&subagent_id, modified);
            }
            return Ok(artifacts.finish());
        }
        artifacts.add_main_file(&location.path)?;
        let storage = self.data_dir.join("storage");
        let messages = storage.join("message").join(id.as_str());
        for path in list_directory(&messages) {
            let message = path.file_stem().and_then(|name| name.to_str());
            if let Some(message) = message.filter(|message| NativeId::parse(message).is_ok()) {
                artifacts.add_directory(&storage.join("part").join(message));
            }
        }
        artifacts.add_directory(&messages);
        for kind in ["todo", "session_diff"] {
            artifacts.add_file(
                &storage.join(format!("{kind}/{id}.json")),
                ArtifactRole::Attachment,
            );
        }
        Ok(artifacts.finish())
    }

    fn export_session(
        &self,
        location: &SessionLocation,
        id: &str,
        writer: &mut dyn Write,
    ) -> Result<(), ArchiveError> {
        let database = OpencodeDatabase::open(&location.path)?;
        if database.idle_state.is_none() {
            // A transaction reads one state, even if opencode writes concurrently.
            database.query(|connection| connection.execute_batch("BEGIN"))?;
        }
        export::write_export(&database, id, writer)
    }

    fn unpack_export(&self, export: &Path, home: &Path) -> Result<(), ArchiveError> {
        let file = File::open(export).map_err(|error| ArchiveError::io("read", export, error))?;
        layout::write_layout(BufReader::new(file), &home.join("storage"))
            .map_err(|error| ArchiveError::io("unpack", export, error))
    }
}

/// Returns the sessions of sub-agents of this one, which are deleted with it.
fn list_subagent_sessions(
    database: &OpencodeDatabase,
    id: &str,
    depth: usize,
) -> Result<Vec<(String, Timestamp)>, ArchiveError> {
    if depth == 0 {
        return Ok(Vec::new());
    }
    let direct: Vec<(String, i64)> = database.query(|connection| {
        let mut statement = connection
            .prepare("SELECT id, time_updated FROM session WHERE parent_id = ?1 ORDER BY id")?;
        let rows = statement.query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    })?;
    let mut sessions = Vec::new();
    for (subagent_id, at) in direct {
        if NativeId::parse(&subagent_id).is_err() {
            continue;
        }
        let at = Timestamp::from_millisecond(at).unwrap_or(Timestamp::UNIX_EPOCH);
        let nested = list_subagent_sessions(database, &subagent_id, depth - 1)?;
        sessions.push((subagent_id, at));
        sessions.extend(nested);
    }
    Ok(sessions)
}
