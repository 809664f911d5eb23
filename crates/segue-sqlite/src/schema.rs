//! The tables, and the migration of an older file to the current format.
//!
//! A migration that was shipped is never edited; every change is a new migration at the end of the list.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rusqlite::{Connection, TransactionBehavior};
use segue_store::StoreError;

use crate::error::{OpError, classify_sqlite_error};

/// SQLite application id of a segue store ("SEGU"). It distinguishes a store from an SQLite file of another program.
const APPLICATION_ID: i64 = 0x5345_4755;

const SCHEMA_MIGRATIONS: &[&str] = &[
    include_str!("schema/0001_sessions.sql"),
    include_str!("schema/0002_retry.sql"),
    include_str!("schema/0003_tags.sql"),
    include_str!("schema/0004_tokens.sql"),
    include_str!("schema/0005_scopes.sql"),
    include_str!("schema/0006_policy.sql"),
    include_str!("schema/0007_outside.sql"),
    include_str!("schema/0008_checkpoints.sql"),
    include_str!("schema/0009_context.sql"),
    include_str!("schema/0010_origins.sql"),
    include_str!("schema/0011_memory.sql"),
    include_str!("schema/0012_checkpoints.sql"),
    include_str!("schema/0013_decisions.sql"),
    include_str!("schema/0014_id_key.sql"),
    include_str!("schema/0015_changes.sql"),
];

/// Returns the format that this build reads and writes.
fn supported_format() -> i64 {
    i64::try_from(SCHEMA_MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Returns the format of a file.
pub(crate) fn read_format(db: &Connection) -> Result<i64, rusqlite::Error> {
    db.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Returns `true` if the file has the current format, `false` if it must be migrated. A newer format is
/// [`StoreError::NewerFormat`]; a file of another program is [`StoreError::Corrupt`].
pub(crate) fn is_current(db: &Connection) -> Result<bool, StoreError> {
    let check = || -> Result<bool, OpError> {
        // A transaction, so that all queries see one state: another process may be creating the store at this moment.
        let db = db.unchecked_transaction()?;
        let found = read_format(&db)?;
        if found > supported_format() {
            return Err(OpError::Store(StoreError::NewerFormat {
                found,
                supported: supported_format(),
            }));
        }
        let id: i64 = db.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let tables: i64 =
            db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if id != APPLICATION_ID && tables > 0 {
            return Err(OpError::Store(StoreError::Corrupt {
                source: "the file is an SQLite database of another program".into(),
            }));
        }
        Ok(found == supported_format())
    };
    check().map_err(|op_error| op_error.into_store_error("open"))
}

/// Migrates a file to the current format, in one transaction.
pub(crate) fn apply_migrations(db: &mut Connection, path: &Path) -> Result<(), StoreError> {
    is_current(db)?;
    let started = Instant::now();
    let apply = |db: &mut Connection| -> Result<usize, rusqlite::Error> {
        let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let applied = usize::try_from(read_format(&transaction)?).unwrap_or(0);
        for migration in SCHEMA_MIGRATIONS.iter().skip(applied) {
            transaction.execute_batch(migration)?;
        }
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", supported_format())?;
        transaction.commit()?;
        Ok(applied)
    };
    let applied = apply(db).map_err(|error| classify_sqlite_error(&Arc::new(error), "migrate"))?;
    tracing::info!(
        path = %path.display(),
        from = applied,
        to = supported_format(),
        elapsed_ms = started.elapsed().as_millis(),
        "store migrated"
    );
    Ok(())
}

/// Logs that a store of the current format is open.
pub(crate) fn log_opened(path: &Path) {
    tracing::info!(path = %path.display(), format = supported_format(), "store opened");
}
