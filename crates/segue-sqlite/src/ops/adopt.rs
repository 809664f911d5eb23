//! Adoption: a native session becomes one of ours, whole.

use rusqlite::{Connection, OptionalExtension, params};
use segue_core::{ProcessMark, SessionId};
use segue_store::{Adopted, Lease, NewLeg, NewSession, StoreError};

use super::{Outcome, legs, outside, sessions};
use crate::rows::micros;

pub(crate) fn adopt(
    db: &Connection,
    new: &NewSession,
    owner: &ProcessMark,
    native: &Adopted,
) -> Outcome<Lease> {
    if let Some(carrier) = carrier(db, new, native)? {
        return Err(StoreError::Carried(carrier).into());
    }
    let lease = sessions::create_claimed(db, new, owner)?;
    let leg = NewLeg {
        provider: new.provider.clone(),
        native_id: Some(native.native_id.clone()),
        at: new.at,
    };
    let leg = legs::open(db, &lease, &leg)?;
    outside::write(db, &lease, leg.id, &native.turns)?;
    // The session is as new as what was last said in it.
    let last = native.turns.last().map_or(new.at, |turn| turn.ended_at);
    db.prepare_cached("UPDATE sessions SET updated_at = ?2 WHERE id = ?1")?
        .execute(params![new.id.as_str(), micros(last)])?;
    Ok(lease)
}

/// The session that is at this native session.
fn carrier(db: &Connection, new: &NewSession, native: &Adopted) -> Outcome<Option<SessionId>> {
    let found: Option<String> = db
        .prepare_cached(
            "SELECT l.session_id FROM legs l JOIN sessions s ON s.leg_id = l.id
             WHERE l.native_id = ?1 AND l.provider = ?2 AND l.ended_at IS NULL",
        )?
        .query_row(
            params![native.native_id.as_str(), new.provider.as_str()],
            |row| row.get(0),
        )
        .optional()?;
    Ok(found.and_then(|id| SessionId::parse(&id).ok()))
}
