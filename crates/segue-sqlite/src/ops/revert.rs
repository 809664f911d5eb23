//! Head moves of a session: revert and undo. They change no turn.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use segue_core::id::TurnId;
use segue_core::session::{Session, TurnState};
use segue_store::{Lease, StoreError};

use super::{Outcome, lease, sessions, turns};
use crate::rows::micros;

pub(crate) fn revert(db: &Connection, held: &Lease, to: TurnId, at: Timestamp) -> Outcome<Session> {
    let from = check_idle(db, held)?;
    let chain = turns::chain(db, &held.session)?;
    let known = chain.iter().any(|turn| turn.id == to);
    let (Some(from), true) = (from, known) else {
        return Err(StoreError::NoTurn(held.session.clone()).into());
    };
    move_head(db, held, "revert", from.0, to.0, at)
}

pub(crate) fn undo(db: &Connection, held: &Lease, at: Timestamp) -> Outcome<Session> {
    let now = check_idle(db, held)?;
    let id = held.session.as_str();
    let last: Option<(i64, i64)> = db
        .prepare_cached(
            "SELECT n, from_id FROM head_moves WHERE session_id = ?1 AND kind = 'revert' AND undone = 0
             ORDER BY n DESC LIMIT 1",
        )?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (Some((n, to)), Some(now)) = (last, now) else {
        return Err(StoreError::NothingToUndo(held.session.clone()).into());
    };
    db.prepare_cached("UPDATE head_moves SET undone = 1 WHERE session_id = ?1 AND n = ?2")?
        .execute(params![id, n])?;
    move_head(db, held, "undo", now.0, to, at)
}

/// Checks the lease, and that no turn is running. Returns the head.
pub(super) fn check_idle(db: &Connection, held: &Lease) -> Outcome<Option<TurnId>> {
    lease::check(db, held)?;
    let session = sessions::existing(db, &held.session)?;
    if session.head_state == Some(TurnState::Running) {
        return Err(StoreError::TurnUnderWay(held.session.clone()).into());
    }
    Ok(session.head)
}

fn move_head(
    db: &Connection,
    held: &Lease,
    kind: &str,
    from: i64,
    to: i64,
    at: Timestamp,
) -> Outcome<Session> {
    let id = held.session.as_str();
    db.prepare_cached(
        "INSERT INTO head_moves (session_id, n, kind, from_id, to_id, at)
         VALUES (?1, (SELECT count(*) + 1 FROM head_moves WHERE session_id = ?1), ?2, ?3, ?4, ?5)",
    )?
    .execute(params![id, kind, from, to, micros(at)])?;
    db.prepare_cached(
        "UPDATE sessions SET head_id = ?2, turns = (SELECT n FROM turns WHERE id = ?2), updated_at = max(updated_at, ?3)
         WHERE id = ?1",
    )?
    .execute(params![id, to, micros(at)])?;
    sessions::existing(db, &held.session)
}
