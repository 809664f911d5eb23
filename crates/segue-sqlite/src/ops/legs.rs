//! Legs: open, name, end, reopen, hand off.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, params};
use segue_core::id::{LegId, NativeId, ProviderId, SessionId};
use segue_core::session::{Leg, LegEnd, Session};
use segue_store::{ChangeKind, ContextLossState, Lease, NewLeg, StoreError};

use super::{OpResult, feed, lease, revert, sessions};
use crate::connection::Db;
use crate::rows::{self, to_micros};

pub(crate) fn open_leg(db: &Db, lease: &Lease, new: &NewLeg) -> OpResult<Leg> {
    lease::check_lease(db, lease)?;
    let id = lease.session.as_str();
    let number: u32 = db
        .prepare_cached(
            "INSERT INTO legs (session_id, n, provider, native_id, opened_at)
             VALUES (?1, (SELECT count(*) + 1 FROM legs WHERE session_id = ?1), ?2, ?3, ?4) RETURNING n",
        )?
        .query_row(
            params![
                id,
                new.provider.as_str(),
                native_id_column(new.native_id.as_ref()),
                to_micros(new.at)
            ],
            |row| row.get(0),
        )?;
    let leg = db.last_insert_rowid();
    let opened = ChangeKind::LegOpened {
        leg: db.leg_id(leg),
        number,
    };
    feed::record_change(db, &lease.session, opened)?;
    db.prepare_cached("UPDATE sessions SET leg_id = ?2, provider = ?3 WHERE id = ?1")?
        .execute(params![id, leg, new.provider.as_str()])?;
    load_leg(db, leg)
}

/// Returns the native id as stored in the table: empty if the leg has none yet.
fn native_id_column(native_id: Option<&NativeId>) -> &str {
    native_id.map_or("", NativeId::as_str)
}

pub(crate) fn set_leg_native_id(
    db: &Db,
    lease: &Lease,
    leg: LegId,
    native_id: &NativeId,
) -> OpResult<()> {
    lease::check_lease(db, lease)?;
    let updated = db
        .prepare_cached(
            "UPDATE legs SET native_id = ?3 WHERE id = ?1 AND session_id = ?2 AND ended_at IS NULL",
        )?
        .execute(params![
            db.leg_row(leg),
            lease.session.as_str(),
            native_id.as_str()
        ])?;
    match updated {
        0 => Err(StoreError::NoLeg(lease.session.clone()).into()),
        _ => feed::record_change(db, &lease.session, ChangeKind::LegChanged { leg }),
    }
}

pub(crate) fn set_context_loss(
    db: &Db,
    lease: &Lease,
    leg: LegId,
    state: ContextLossState,
) -> OpResult<()> {
    lease::check_lease(db, lease)?;
    let lost_context = state == ContextLossState::Lost;
    let updated = db
        .prepare_cached("UPDATE legs SET forgot = ?3 WHERE id = ?1 AND session_id = ?2")?
        .execute(params![
            db.leg_row(leg),
            lease.session.as_str(),
            lost_context
        ])?;
    match updated {
        0 => Err(StoreError::NoLeg(lease.session.clone()).into()),
        _ => feed::record_change(db, &lease.session, ChangeKind::LegChanged { leg }),
    }
}

pub(crate) fn end_leg(
    db: &Db,
    lease: &Lease,
    leg: LegId,
    reason: LegEnd,
    at: Timestamp,
) -> OpResult<()> {
    lease::check_lease(db, lease)?;
    let ended = db
        .prepare_cached(
            "UPDATE legs SET ended_at = ?3, ended_why = ?4 WHERE id = ?1 AND session_id = ?2 AND ended_at IS NULL",
        )?
        .execute(params![db.leg_row(leg), lease.session.as_str(), to_micros(at), reason.as_str()])?;
    match ended {
        0 => Err(StoreError::NoLeg(lease.session.clone()).into()),
        _ => feed::record_change(db, &lease.session, ChangeKind::LegEnded { leg }),
    }
}

/// Ends all open legs of a session.
fn end_open_legs(db: &Db, lease: &Lease, reason: LegEnd, at: Timestamp) -> OpResult<()> {
    let ended: Vec<i64> = db
        .prepare_cached(
            "UPDATE legs SET ended_at = ?2, ended_why = ?3 WHERE session_id = ?1 AND ended_at IS NULL RETURNING id",
        )?
        .query_map(
            params![lease.session.as_str(), to_micros(at), reason.as_str()],
            |row| row.get(0),
        )?
        .collect::<Result<_, _>>()?;
    for leg in ended {
        let leg = db.leg_id(leg);
        feed::record_change(db, &lease.session, ChangeKind::LegEnded { leg })?;
    }
    Ok(())
}

/// Reopens the native session of an ended leg as a new leg. The new row leaves the record of the earlier leg unchanged
/// and makes the newest leg the active one. Ends the legs that are open. Fails if another session uses the native
/// session.
pub(crate) fn reopen_leg(
    db: &Db,
    lease: &Lease,
    leg: LegId,
    reason: LegEnd,
    at: Timestamp,
) -> OpResult<Leg> {
    lease::check_lease(db, lease)?;
    let id = lease.session.as_str();
    let sql = format!(
        "{} WHERE id = ?1 AND session_id = ?2 AND ended_at IS NOT NULL",
        rows::LEG_QUERY
    );
    let earlier = db
        .prepare_cached(&sql)?
        .query_row(params![db.leg_row(leg), id], |row| rows::read_leg(db, row))
        .optional()?;
    let earlier = earlier.ok_or_else(|| StoreError::NoLeg(lease.session.clone()))?;
    let Some(native_id) = &earlier.native_id else {
        return Err(StoreError::NoLeg(lease.session.clone()).into());
    };
    if let Some(session) = session_using_native(db, &earlier.provider, native_id)?
        && session != lease.session
    {
        return Err(StoreError::NativeAttached(session).into());
    }
    end_open_legs(db, lease, reason, at)?;
    let new = NewLeg {
        provider: earlier.provider,
        native_id: earlier.native_id,
        at,
    };
    let reopened = open_leg(db, lease, &new)?;
    db.prepare_cached(
        "UPDATE legs SET tip_id = old.tip_id, context_tokens = old.context_tokens, held_tokens = old.held_tokens,
                         forgot = old.forgot
         FROM legs AS old WHERE legs.id = ?1 AND old.id = ?2",
    )?
    .execute(params![db.leg_row(reopened.id), db.leg_row(leg)])?;
    load_leg(db, db.leg_row(reopened.id))
}

fn load_leg(db: &Db, leg: i64) -> OpResult<Leg> {
    let sql = format!("{} WHERE id = ?1", rows::LEG_QUERY);
    Ok(db
        .prepare_cached(&sql)?
        .query_row([leg], |row| rows::read_leg(db, row))?)
}

pub(crate) fn find_leg(db: &Db, leg: LegId) -> OpResult<Option<Leg>> {
    let sql = format!("{} WHERE id = ?1", rows::LEG_QUERY);
    let mut statement = db.prepare_cached(&sql)?;
    Ok(statement
        .query_row([db.leg_row(leg)], |row| rows::read_leg(db, row))
        .optional()?)
}

/// Returns the session whose active leg uses this native session. `None` if no session uses it.
pub(crate) fn session_using_native(
    db: &Db,
    provider: &ProviderId,
    native_id: &NativeId,
) -> OpResult<Option<SessionId>> {
    let session_id: Option<String> = db
        .prepare_cached(
            "SELECT l.session_id FROM legs l JOIN sessions s ON s.leg_id = l.id
             WHERE l.native_id = ?1 AND l.provider = ?2 AND l.ended_at IS NULL",
        )?
        .query_row(params![native_id.as_str(), provider.as_str()], |row| {
            row.get(0)
        })
        .optional()?;
    Ok(session_id.and_then(|id| SessionId::parse(&id).ok()))
}

pub(crate) fn change_provider(
    db: &Db,
    lease: &Lease,
    provider: &ProviderId,
    at: Timestamp,
) -> OpResult<Session> {
    revert::check_no_running_turn(db, lease)?;
    let id = lease.session.as_str();
    end_open_legs(db, lease, LegEnd::Handoff, at)?;
    db.prepare_cached(
        "UPDATE sessions SET provider = ?2, leg_id = NULL, updated_at = max(updated_at, ?3) WHERE id = ?1",
    )?
    .execute(params![id, provider.as_str(), to_micros(at)])?;
    feed::record_change(db, &lease.session, ChangeKind::SessionChanged)?;
    sessions::load_session(db, &lease.session)
}

pub(crate) fn list_legs(db: &Db, id: &SessionId) -> OpResult<Vec<Leg>> {
    let sql = format!("{} WHERE session_id = ?1 ORDER BY n", rows::LEG_QUERY);
    let mut statement = db.prepare_cached(&sql)?;
    let legs = statement.query_map([id.as_str()], |row| rows::read_leg(db, row))?;
    Ok(legs.collect::<Result<_, _>>()?)
}
