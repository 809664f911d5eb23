//! Adoption: a native session becomes a session of segue, with all its turns.

use rusqlite::{Connection, params};
use segue_core::agent::ProcessMark;
use segue_store::{Adopted, Lease, NewLeg, NewSession, StoreError};

use super::{Outcome, legs, reconcile, sessions};
use crate::rows::micros;

pub(crate) fn adopt(
    db: &Connection,
    new: &NewSession,
    owner: &ProcessMark,
    native: &Adopted,
) -> Outcome<Lease> {
    if let Some(carrier) = legs::carrier(db, &new.provider, &native.native_id)? {
        return Err(StoreError::Carried(carrier).into());
    }
    let lease = sessions::create_claimed(db, new, owner)?;
    let leg = NewLeg {
        provider: new.provider.clone(),
        native_id: Some(native.native_id.clone()),
        at: new.at,
    };
    let leg = legs::open(db, &lease, &leg)?;
    reconcile::write(db, &lease, leg.id, &native.turns)?;
    // The session begins with its first turn and was last updated at the end of its last turn.
    let first = native.turns.first().map_or(new.at, |turn| turn.started_at);
    let last = native.turns.last().map_or(new.at, |turn| turn.ended_at);
    db.prepare_cached(
        "UPDATE sessions SET created_at = min(created_at, ?2), updated_at = ?3 WHERE id = ?1",
    )?
    .execute(params![new.id.as_str(), micros(first), micros(last)])?;
    Ok(lease)
}
