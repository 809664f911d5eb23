//! Legs: open, name, end, reopen, hand off.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use segue_core::id::{LegId, NativeId, ProviderId, SessionId};
use segue_core::session::{Leg, LegEnd, Session};
use segue_store::{Lease, Memory, NewLeg, StoreError};

use super::{Outcome, lease, revert, sessions};
use crate::rows::{self, micros};

pub(crate) fn open(db: &Connection, held: &Lease, new: &NewLeg) -> Outcome<Leg> {
    lease::check(db, held)?;
    let id = held.session.as_str();
    db.prepare_cached(
        "INSERT INTO legs (session_id, n, provider, native_id, opened_at)
         VALUES (?1, (SELECT count(*) + 1 FROM legs WHERE session_id = ?1), ?2, ?3, ?4)",
    )?
    .execute(params![
        id,
        new.provider.as_str(),
        name(new.native_id.as_ref()),
        micros(new.at)
    ])?;
    let leg = db.last_insert_rowid();
    db.prepare_cached("UPDATE sessions SET leg_id = ?2, provider = ?3 WHERE id = ?1")?
        .execute(params![id, leg, new.provider.as_str()])?;
    one(db, leg)
}

/// Returns the native id as stored in the table: empty if the leg has none yet.
fn name(native_id: Option<&NativeId>) -> &str {
    native_id.map_or("", NativeId::as_str)
}

pub(crate) fn name_it(
    db: &Connection,
    held: &Lease,
    leg: LegId,
    native_id: &NativeId,
) -> Outcome<()> {
    lease::check(db, held)?;
    let named = db
        .prepare_cached(
            "UPDATE legs SET native_id = ?3 WHERE id = ?1 AND session_id = ?2 AND ended_at IS NULL",
        )?
        .execute(params![leg.0, held.session.as_str(), native_id.as_str()])?;
    match named {
        0 => Err(StoreError::NoLeg(held.session.clone()).into()),
        _ => Ok(()),
    }
}

pub(crate) fn note_memory(
    db: &Connection,
    held: &Lease,
    leg: LegId,
    memory: Memory,
) -> Outcome<()> {
    lease::check(db, held)?;
    let forgot = memory == Memory::Smaller;
    let noted = db
        .prepare_cached("UPDATE legs SET forgot = ?3 WHERE id = ?1 AND session_id = ?2")?
        .execute(params![leg.0, held.session.as_str(), forgot])?;
    match noted {
        0 => Err(StoreError::NoLeg(held.session.clone()).into()),
        _ => Ok(()),
    }
}

pub(crate) fn end(
    db: &Connection,
    held: &Lease,
    leg: LegId,
    why: LegEnd,
    at: Timestamp,
) -> Outcome<()> {
    lease::check(db, held)?;
    let ended = db
        .prepare_cached(
            "UPDATE legs SET ended_at = ?3, ended_why = ?4 WHERE id = ?1 AND session_id = ?2 AND ended_at IS NULL",
        )?
        .execute(params![leg.0, held.session.as_str(), micros(at), why.as_str()])?;
    match ended {
        0 => Err(StoreError::NoLeg(held.session.clone()).into()),
        _ => Ok(()),
    }
}

/// Reopens the native session of an ended leg as a new leg. The new row leaves the record of the earlier leg unchanged
/// and makes the newest leg the active one. Ends the legs that are open. Fails if another session uses the native
/// session.
pub(crate) fn take_up(
    db: &Connection,
    held: &Lease,
    leg: LegId,
    why: LegEnd,
    at: Timestamp,
) -> Outcome<Leg> {
    lease::check(db, held)?;
    let id = held.session.as_str();
    let sql = format!(
        "{} WHERE id = ?1 AND session_id = ?2 AND ended_at IS NOT NULL",
        rows::LEG
    );
    let earlier = db
        .prepare_cached(&sql)?
        .query_row(params![leg.0, id], rows::leg)
        .optional()?;
    let earlier = earlier.ok_or_else(|| StoreError::NoLeg(held.session.clone()))?;
    let Some(native_id) = &earlier.native_id else {
        return Err(StoreError::NoLeg(held.session.clone()).into());
    };
    if let Some(carrier) = carrier(db, &earlier.provider, native_id)?
        && carrier != held.session
    {
        return Err(StoreError::Carried(carrier).into());
    }
    db.prepare_cached(
        "UPDATE legs SET ended_at = ?2, ended_why = ?3 WHERE session_id = ?1 AND ended_at IS NULL",
    )?
    .execute(params![id, micros(at), why.as_str()])?;
    let new = NewLeg {
        provider: earlier.provider,
        native_id: earlier.native_id,
        at,
    };
    let opened = open(db, held, &new)?;
    db.prepare_cached(
        "UPDATE legs SET tip_id = old.tip_id, context_tokens = old.context_tokens, held_tokens = old.held_tokens,
                         forgot = old.forgot
         FROM legs AS old WHERE legs.id = ?1 AND old.id = ?2",
    )?
    .execute(params![opened.id.0, leg.0])?;
    one(db, opened.id.0)
}

fn one(db: &Connection, leg: i64) -> Outcome<Leg> {
    let sql = format!("{} WHERE id = ?1", rows::LEG);
    Ok(db.prepare_cached(&sql)?.query_row([leg], rows::leg)?)
}

pub(crate) fn find(db: &Connection, leg: LegId) -> Outcome<Option<Leg>> {
    let sql = format!("{} WHERE id = ?1", rows::LEG);
    let mut statement = db.prepare_cached(&sql)?;
    Ok(statement.query_row([leg.0], rows::leg).optional()?)
}

/// Returns the session whose active leg uses this native session. `None` if no session uses it.
pub(crate) fn carrier(
    db: &Connection,
    provider: &ProviderId,
    native_id: &NativeId,
) -> Outcome<Option<SessionId>> {
    let found: Option<String> = db
        .prepare_cached(
            "SELECT l.session_id FROM legs l JOIN sessions s ON s.leg_id = l.id
             WHERE l.native_id = ?1 AND l.provider = ?2 AND l.ended_at IS NULL",
        )?
        .query_row(params![native_id.as_str(), provider.as_str()], |row| {
            row.get(0)
        })
        .optional()?;
    Ok(found.and_then(|id| SessionId::parse(&id).ok()))
}

pub(crate) fn hand_over(
    db: &Connection,
    held: &Lease,
    to: &ProviderId,
    at: Timestamp,
) -> Outcome<Session> {
    revert::check_idle(db, held)?;
    let id = held.session.as_str();
    db.prepare_cached(
        "UPDATE legs SET ended_at = ?2, ended_why = ?3 WHERE session_id = ?1 AND ended_at IS NULL",
    )?
    .execute(params![id, micros(at), LegEnd::Handoff.as_str()])?;
    db.prepare_cached(
        "UPDATE sessions SET provider = ?2, leg_id = NULL, updated_at = max(updated_at, ?3) WHERE id = ?1",
    )?
    .execute(params![id, to.as_str(), micros(at)])?;
    sessions::existing(db, &held.session)
}

pub(crate) fn all(db: &Connection, id: &SessionId) -> Outcome<Vec<Leg>> {
    let sql = format!("{} WHERE session_id = ?1 ORDER BY n", rows::LEG);
    let mut statement = db.prepare_cached(&sql)?;
    let legs = statement.query_map([id.as_str()], rows::leg)?;
    Ok(legs.collect::<Result<_, _>>()?)
}
