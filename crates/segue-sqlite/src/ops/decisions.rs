//! The log of decisions.

use jiff::Timestamp;
use rusqlite::{Row, params};
use segue_core::encoding;
use segue_core::id::SessionId;
use segue_core::session::{Decision, DecisionKind};
use segue_store::{ChangeKind, Lease};

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
    let text = match decision {
        Decision::Recorded { text, .. } => text.as_str(),
        // The text is worded when it is shown.
        _ => "",
    };
    db.prepare_cached(
        "INSERT INTO decisions (session_id, kind, text, at, data) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        lease.session.as_str(),
        decision.kind().as_str(),
        text,
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

/// Reads a decision from the columns kind, text and data. A kind of another version is an oddity, because a log must
/// always be readable.
fn read_decision(row: &Row<'_>) -> Result<Decision, rusqlite::Error> {
    let kind = row.get_ref(1)?.as_str()?;
    let kind = DecisionKind::from_name(kind).unwrap_or(DecisionKind::Oddity);
    Ok(match row.get_ref(3)?.as_str_or_null()? {
        Some(data) => encoding::decode_decision(kind, data),
        None => Decision::Recorded {
            kind,
            text: row.get(2)?,
        },
    })
}
