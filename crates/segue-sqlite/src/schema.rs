//! The tables, and the migration of an older file to the current format.
//!
//! A migration that was shipped is never edited; every change is a new migration at the end of the list.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, TransactionBehavior};
use segue_store::StoreError;

use crate::error::{Fault, classify};

/// SQLite application id of a segue store ("SEGU"). It distinguishes a store from an SQLite file of another program.
const APPLICATION_ID: i64 = 0x5345_4755;

const MIGRATIONS: &[&str] = &[
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
];

/// Returns the format that this build reads and writes.
fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Returns the format of a file.
pub(crate) fn format(db: &Connection) -> Result<i64, rusqlite::Error> {
    db.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Returns `true` if the file has the current format, `false` if it must be migrated. A newer format is
/// [`StoreError::Newer`]; a file of another program is [`StoreError::Corrupt`].
pub(crate) fn is_current(db: &Connection, path: &Path) -> Result<bool, StoreError> {
    let look = || -> Result<bool, Fault> {
        // A transaction, so that all queries see one state: another process may be creating the store at this moment.
        let db = db.unchecked_transaction()?;
        let found = format(&db)?;
        if found > known() {
            return Err(Fault::Store(StoreError::Newer {
                path: path.to_owned(),
                found,
                known: known(),
            }));
        }
        let id: i64 = db.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let tables: i64 =
            db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if id != APPLICATION_ID && tables > 0 {
            return Err(Fault::Store(StoreError::Corrupt {
                path: path.to_owned(),
                source: "it is an SQLite file of another program".into(),
            }));
        }
        Ok(found == known())
    };
    look().map_err(|fault| fault.into_store_error("open", path))
}

/// Migrates a file to the current format, in one transaction.
pub(crate) fn migrate(db: &mut Connection, path: &Path) -> Result<(), StoreError> {
    is_current(db, path)?;
    let run = |db: &mut Connection| -> Result<(), rusqlite::Error> {
        let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = usize::try_from(format(&transaction)?).unwrap_or(0);
        for migration in MIGRATIONS.iter().skip(done) {
            transaction.execute_batch(migration)?;
        }
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", known())?;
        transaction.commit()
    };
    run(db).map_err(|error| classify(&Arc::new(error), "prepare", path))
}
