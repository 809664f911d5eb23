//! The log of decisions.

use jiff::Timestamp;
use rusqlite::{Row, params};
use segue_core::encoding;
use segue_core::id::SessionId;
use segue_core::session::Decision;
use segue_store::{ChangeKind, Lease, decode_recorded_decision, recorded_text};

use super::{OpResult, feed, lease};
use crate::connection::Db;
use crate::rows::{self, to_micros};

pub(crate) fn log_decision(
    db: &Db,
    lease: &Lease,
    decision: &Decision,
    at: Timestamp,
) -> OpResult<()> {
    lease::check_lease(db, lease)?;
    db.prepare_cached(
        "INSERT INTO decisions (session_id, kind, text, at, data) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        lease.session.as_str(),
        decision.kind().as_str(),
        recorded_text(decision),
        to_micros(at),
        encoding::encode_decision(decision)
    ])?;
    feed::record_change(db, &lease.session, ChangeKind::DecisionLogged)
}

pub(crate) fn list_decisions(
    db: &Db,
    id: &SessionId,
    limit: u32,
) -> OpResult<Vec<(Timestamp, Decision)>> {
    let mut statement = db.prepare_cached(
        "SELECT at, kind, text, data FROM decisions WHERE session_id = ?1 ORDER BY id DESC LIMIT ?2",
    )?;
    let mut decisions = statement
        .query_map(params![id.as_str(), limit], |row| {
            Ok((rows::read_time(row, 0)?, read_decision(row)?))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    decisions.reverse();
    Ok(decisions)
}

/// Reads a decision from the columns kind, text and data.
fn read_decision(row: &Row<'_>) -> Result<Decision, rusqlite::Error> {
    let kind = row.get_ref(1)?.as_str()?;
    let data = row.get_ref(3)?.as_str_or_null()?;
    Ok(decode_recorded_decision(kind, row.get(2)?, data))
}
