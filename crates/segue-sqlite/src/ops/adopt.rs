//! Adoption: a native session becomes one of ours, whole.

use rusqlite::{Connection, params};
use segue_core::{Message, ProcessMark, Role, TurnId, TurnState};
use segue_store::{Adopted, AdoptedTurn, Finish, Lease, NewLeg, NewSession, StoreError};

use super::{Outcome, legs, sessions, turns};
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
    let mut tip = None;
    for turn in &native.turns {
        tip = Some(write(db, &lease, turn)?);
    }
    if let Some(TurnId(tip)) = tip {
        let messages = native.turns.iter().flat_map(|turn| &turn.messages);
        let held: Option<u64> = messages.map(|message| message.tokens).sum();
        db.prepare_cached("UPDATE legs SET tip_id = ?2, held_tokens = ?3 WHERE id = ?1")?
            .execute(params![leg.id.0, tip, held])?;
    }
    // The session is as new as what was last said in it.
    let last = native.turns.last().map_or(new.at, |turn| turn.ended_at);
    db.prepare_cached("UPDATE sessions SET updated_at = ?2 WHERE id = ?1")?
        .execute(params![new.id.as_str(), micros(last)])?;
    Ok(lease)
}

/// Writes a turn that was made without us, and moves the head to it.
fn write(db: &Connection, lease: &Lease, turn: &AdoptedTurn) -> Outcome<TurnId> {
    let empty = Message::text(Role::User, "", turn.started_at);
    let prompt = turn.messages.first().unwrap_or(&empty);
    let begun = turns::begin(db, lease, prompt)?;
    db.prepare_cached("UPDATE turns SET sent = 1 WHERE id = ?1")?
        .execute([begun.id.0])?;
    let state = match turn.state {
        TurnState::Running => TurnState::Interrupted,
        ended => ended,
    };
    let finish = Finish {
        state,
        messages: (1..).zip(turn.messages.iter().skip(1).cloned()).collect(),
        usage: turn.usage,
        failure: None,
        at: turn.ended_at,
    };
    turns::finish(db, lease, begun.id, &finish)?;
    Ok(begun.id)
}
