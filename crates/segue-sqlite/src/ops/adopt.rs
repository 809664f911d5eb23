//! Adoption: a native session becomes a session of segue, with all its turns.

use rusqlite::params;
use segue_core::agent::ProcessIdentity;
use segue_store::{AdoptedSession, Lease, NewLeg, NewSession, StoreError};

use super::{OpResult, legs, reconcile, sessions};
use crate::connection::Db;
use crate::rows::to_micros;

pub(crate) fn adopt_native_session(
    db: &Db,
    new: &NewSession,
    owner: &ProcessIdentity,
    native: &AdoptedSession,
) -> OpResult<Lease> {
    if let Some(session) = legs::session_using_native(db, &new.provider, &native.native_id)? {
        return Err(StoreError::NativeAttached(session).into());
    }
    let lease = sessions::create_leased_session(db, new, owner)?;
    let leg = NewLeg {
        provider: new.provider.clone(),
        native_id: Some(native.native_id.clone()),
        at: new.at,
    };
    let leg = legs::open_leg(db, &lease, &leg)?;
    reconcile::write_outside_turns(db, &lease, leg.id, &native.turns)?;
    // The session begins with its first turn and was last updated at the end of its last turn.
    let first = native.turns.first().map_or(new.at, |turn| turn.started_at);
    let last = native.turns.last().map_or(new.at, |turn| turn.ended_at);
    db.prepare_cached(
        "UPDATE sessions SET created_at = min(created_at, ?2), updated_at = ?3 WHERE id = ?1",
    )?
    .execute(params![new.id.as_str(), to_micros(first), to_micros(last)])?;
    Ok(lease)
}
