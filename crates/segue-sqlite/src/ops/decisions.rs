//! The log of decisions.

use jiff::Timestamp;
use rusqlite::{Connection, params};
use segue_core::id::SessionId;
use segue_core::session::{Decision, DecisionKind};
use segue_store::Lease;

use super::{OpResult, lease};
use crate::rows::{self, to_micros};

pub(crate) fn log_decision(
    db: &Connection,
    lease: &Lease,
    decision: &Decision,
    at: Timestamp,
) -> OpResult<()> {
    lease::check_lease(db, lease)?;
    db.prepare_cached(
        "INSERT INTO decisions (session_id, kind, text, at) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![
        lease.session.as_str(),
        decision.kind.as_str(),
        decision.text,
        to_micros(at)
    ])?;
    Ok(())
}

pub(crate) fn list_decisions(
    db: &Connection,
    id: &SessionId,
    limit: u32,
) -> OpResult<Vec<(Timestamp, Decision)>> {
    let mut statement = db.prepare_cached(
        "SELECT at, kind, text FROM decisions WHERE session_id = ?1 ORDER BY id DESC LIMIT ?2",
    )?;
    let mut decisions = statement
        .query_map(params![id.as_str(), limit], |row| {
            let decision = Decision {
                kind: rows::read_enum(row, 1, DecisionKind::from_name)?,
                text: row.get(2)?,
            };
            Ok((rows::read_time(row, 0)?, decision))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    decisions.reverse();
    Ok(decisions)
}
