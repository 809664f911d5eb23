//! Artifacts of an opencode session: rows of its database, or the files of older versions.
//!
//! Rows are copied in the format of `opencode export`, which `opencode import` reads. Data of a complete project, such
//! as snapshots of its files, belongs to no session.

mod export;
mod layout;

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use segue_core::id::NativeId;

use super::Opencode;
use super::database::Database;
use super::store::is_database;
use crate::belongings::{Gathering, entries};
use crate::{Belongings, Found, KeepError, Keeping, Reader, Role};

/// Maximum nesting of sub-agents, which also ends a cycle.
const DEEPEST: usize = 8;

impl Keeping for Opencode {
    fn home(&self) -> &Path {
        &self.data
    }

    fn belongings(&self, found: &Found, id: &NativeId) -> Result<Belongings, KeepError> {
        let mut all = Gathering::new(&self.data)?;
        if is_database(&found.path) {
            let database = Database::open(&found.path)?;
            all.rows(id.as_str(), found.modified);
            for (helper, modified) in helpers(&database, id.as_str(), DEEPEST)? {
                all.rows(&helper, modified);
            }
            return Ok(all.done());
        }
        all.main(&found.path)?;
        let storage = self.data.join("storage");
        let messages = storage.join("message").join(id.as_str());
        for path in entries(&messages) {
            let message = path.file_stem().and_then(|name| name.to_str());
            if let Some(message) = message.filter(|message| NativeId::parse(message).is_ok()) {
                all.tree(&storage.join("part").join(message));
            }
        }
        all.tree(&messages);
        for kind in ["todo", "session_diff"] {
            all.file(&storage.join(format!("{kind}/{id}.json")), Role::Side);
        }
        Ok(all.done())
    }

    fn export(&self, found: &Found, id: &str, to: &mut dyn Write) -> Result<(), KeepError> {
        let database = Database::open(&found.path)?;
        if database.at_rest.is_none() {
            // A transaction reads one state, even if opencode writes concurrently.
            database.ask(|connection| connection.execute_batch("BEGIN"))?;
        }
        export::write(&database, id, to)
    }

    fn lay_out(&self, export: &Path, home: &Path) -> Result<(), KeepError> {
        let file = File::open(export).map_err(|error| KeepError::io("read", export, error))?;
        layout::write(BufReader::new(file), &home.join("storage"))
            .map_err(|error| KeepError::io("lay out", export, error))
    }

    fn elsewhere(&self, home: PathBuf) -> Arc<dyn Reader> {
        Arc::new(Self::new(home))
    }
}

/// Returns the sessions of sub-agents of this one, which are deleted with it.
fn helpers(
    database: &Database,
    id: &str,
    depth: usize,
) -> Result<Vec<(String, Timestamp)>, KeepError> {
    if depth == 0 {
        return Ok(Vec::new());
    }
    let direct: Vec<(String, i64)> = database.ask(|connection| {
        let mut statement = connection
            .prepare("SELECT id, time_updated FROM session WHERE parent_id = ?1 ORDER BY id")?;
        let rows = statement.query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    })?;
    let mut all = Vec::new();
    for (helper, at) in direct {
        if NativeId::parse(&helper).is_err() {
            continue;
        }
        let at = Timestamp::from_millisecond(at).unwrap_or(Timestamp::UNIX_EPOCH);
        let theirs = helpers(database, &helper, depth - 1)?;
        all.push((helper, at));
        all.extend(theirs);
    }
    Ok(all)
}
