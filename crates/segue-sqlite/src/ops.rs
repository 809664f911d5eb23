//! Operations of the store, as functions on a connection that is inside a transaction.

pub(crate) mod adopt;
pub(crate) mod checkpoints;
pub(crate) mod context;
pub(crate) mod decisions;
pub(crate) mod feed;
pub(crate) mod import;
pub(crate) mod lease;
pub(crate) mod legs;
pub(crate) mod lineage;
pub(crate) mod provider_health;
pub(crate) mod reconcile;
pub(crate) mod revert;
pub(crate) mod session_query;
pub(crate) mod sessions;
pub(crate) mod tags;
pub(crate) mod tokens;
pub(crate) mod turns;

use crate::connection::Db;
use crate::error::OpError;
use crate::{StoreHealth, schema};

type OpResult<T> = Result<T, OpError>;

pub(crate) fn check_health(db: &Db) -> OpResult<StoreHealth> {
    let mut statement = db.prepare("PRAGMA quick_check(10)")?;
    let problems = statement
        .query_map([], |row| row.get::<_, String>(0))?
        .filter(|line| line.as_deref() != Ok("ok"))
        .collect::<Result<_, _>>()?;
    Ok(StoreHealth {
        format: schema::read_format(db)?,
        sessions: db.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0))?,
        problems,
    })
}
