//! Head moves of a session: revert and undo. They change no turn.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, params};
use segue_core::id::TurnId;
use segue_core::session::{Session, TurnState};
use segue_store::{ChangeKind, Lease, StoreError};

use super::{OpResult, feed, lease, sessions, turns};
use crate::connection::Db;
use crate::rows::to_micros;

pub(crate) fn revert_head(db: &Db, lease: &Lease, to: TurnId, at: Timestamp) -> OpResult<Session> {
    let from = check_no_running_turn(db, lease)?;
    let chain = turns::chain(db, &lease.session)?;
    let is_on_path = chain.iter().any(|turn| turn.id == to);
    let (Some(from), true) = (from, is_on_path) else {
        return Err(StoreError::NoTurn(lease.session.clone()).into());
    };
    move_head(db, lease, "revert", db.turn_row(from), db.turn_row(to), at)
}

pub(crate) fn undo_revert(db: &Db, lease: &Lease, at: Timestamp) -> OpResult<Session> {
    let head = check_no_running_turn(db, lease)?;
    let id = lease.session.as_str();
    let last_revert: Option<(i64, i64)> = db
        .prepare_cached(
            "SELECT n, from_id FROM head_moves WHERE session_id = ?1 AND kind = 'revert' AND undone = 0
             ORDER BY n DESC LIMIT 1",
        )?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (Some((n, to)), Some(head)) = (last_revert, head) else {
        return Err(StoreError::NoRevertToUndo(lease.session.clone()).into());
    };
    db.prepare_cached("UPDATE head_moves SET undone = 1 WHERE session_id = ?1 AND n = ?2")?
        .execute(params![id, n])?;
    move_head(db, lease, "undo", db.turn_row(head), to, at)
}

/// Checks the lease, and that no turn is running. Returns the head.
pub(super) fn check_no_running_turn(db: &Db, lease: &Lease) -> OpResult<Option<TurnId>> {
    lease::check_lease(db, lease)?;
    let session = sessions::load_session(db, &lease.session)?;
    if session.head_state == Some(TurnState::Running) {
        return Err(StoreError::TurnRunning(lease.session.clone()).into());
    }
    Ok(session.head)
}

fn move_head(
    db: &Db,
    lease: &Lease,
    kind: &str,
    from: i64,
    to: i64,
    at: Timestamp,
) -> OpResult<Session> {
    let id = lease.session.as_str();
    db.prepare_cached(
        "INSERT INTO head_moves (session_id, n, kind, from_id, to_id, at)
         VALUES (?1, (SELECT count(*) + 1 FROM head_moves WHERE session_id = ?1), ?2, ?3, ?4, ?5)",
    )?
    .execute(params![id, kind, from, to, to_micros(at)])?;
    db.prepare_cached(
        "UPDATE sessions SET head_id = ?2, turns = (SELECT n FROM turns WHERE id = ?2), updated_at = max(updated_at, ?3)
         WHERE id = ?1",
    )?
    .execute(params![id, to, to_micros(at)])?;
    let turn = db.turn_id(to);
    feed::record_change(db, &lease.session, ChangeKind::HeadMoved { turn })?;
    sessions::load_session(db, &lease.session)
}
