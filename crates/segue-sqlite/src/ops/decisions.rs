//! The log of decisions.

use jiff::Timestamp;
use rusqlite::{Connection, params};
use segue_core::id::SessionId;
use segue_core::session::{Decision, DecisionKind};
use segue_store::Lease;

use super::{Outcome, lease};
use crate::rows::{self, micros};

pub(crate) fn note(
    db: &Connection,
    held: &Lease,
    decision: &Decision,
    at: Timestamp,
) -> Outcome<()> {
    lease::check(db, held)?;
    db.prepare_cached(
        "INSERT INTO decisions (session_id, kind, text, at) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![
        held.session.as_str(),
        decision.kind.as_str(),
        decision.text,
        micros(at)
    ])?;
    Ok(())
}

pub(crate) fn newest(
    db: &Connection,
    id: &SessionId,
    limit: u32,
) -> Outcome<Vec<(Timestamp, Decision)>> {
    let mut statement = db.prepare_cached(
        "SELECT at, kind, text FROM decisions WHERE session_id = ?1 ORDER BY id DESC LIMIT ?2",
    )?;
    let mut found = statement
        .query_map(params![id.as_str(), limit], |row| {
            let decision = Decision {
                kind: rows::named(row, 1, DecisionKind::from_name)?,
                text: row.get(2)?,
            };
            Ok((rows::time(row, 0)?, decision))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    found.reverse();
    Ok(found)
}
