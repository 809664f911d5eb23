//! Turns that were made outside segue, and the marks of the native records at which attempts ended.

use rusqlite::{Connection, OptionalExtension, params};
use segue_core::agent::ProcessMark;
use segue_core::id::{LegId, TurnId};
use segue_core::session::{LegEnd, Message, Role, Session, TurnState};
use segue_store::{AdoptedTurn, Finish, Lease, NewLeg, NewSession, StoreError, TakenIn};

use super::{Outcome, lease, legs, revert, sessions, tags, turns};
use crate::rows::{self, micros};

pub(crate) fn mark_end(db: &Connection, held: &Lease, turn: TurnId, mark: &str) -> Outcome<()> {
    lease::check(db, held)?;
    db.prepare_cached(
        "UPDATE attempts SET mark = ?3
         WHERE turn_id = ?1 AND n = (SELECT max(n) FROM attempts WHERE turn_id = ?1)
           AND turn_id IN (SELECT id FROM turns WHERE id = ?1 AND session_id = ?2)",
    )?
    .execute(params![turn.0, held.session.as_str(), mark])?;
    Ok(())
}

pub(crate) fn take_in(db: &Connection, held: &Lease, taken: &TakenIn) -> Outcome<Session> {
    lease::check(db, held)?;
    leg_of(db, held, taken.leg)?;
    if let Some((turn, finish)) = &taken.finish {
        turns::finish(db, held, *turn, finish)?;
    }
    if let Some(to) = taken.back_to {
        revert::revert(db, held, to, taken.at)?;
        set_tip(db, taken.leg, to)?;
    }
    write(db, held, taken.leg, &taken.turns)?;
    sessions::existing(db, &held.session)
}

pub(crate) fn take_aside(
    db: &Connection,
    held: &Lease,
    new: &NewSession,
    owner: &ProcessMark,
    taken: &TakenIn,
) -> Outcome<Session> {
    lease::check(db, held)?;
    let leg = leg_of(db, held, taken.leg)?;
    let from = taken.back_to.or(leg.tip);
    let tip = from.ok_or_else(|| StoreError::NoTurn(held.session.clone()))?;
    let own = sessions::create_claimed(db, new, owner)?;
    db.prepare_cached(
        "UPDATE sessions SET head_id = ?2, turns = t.n, forked_from = ?3, forked_at = t.n
         FROM (SELECT n FROM turns WHERE id = ?2) AS t WHERE sessions.id = ?1",
    )?
    .execute(params![new.id.as_str(), tip.0, held.session.as_str()])?;
    tags::copy(db, &held.session, &new.id)?;
    legs::end(db, held, leg.id, LegEnd::HeadMoved, taken.at)?;
    let carried = NewLeg {
        provider: leg.provider,
        native_id: leg.native_id,
        at: taken.at,
    };
    let carried = legs::open(db, &own, &carried)?;
    // The native session already contains earlier messages whose token count is unknown.
    db.prepare_cached("UPDATE legs SET held_tokens = NULL WHERE id = ?1")?
        .execute([carried.id.0])?;
    if let Some(last) = write(db, &own, carried.id, &taken.turns)? {
        // The tip is the last turn in the native session, also on the leg that the native session was detached from.
        set_tip(db, leg.id, last)?;
    }
    lease::release(db, &own)?;
    sessions::existing(db, &new.id)
}

/// Returns a leg of the session that has not ended. [`StoreError::NoLeg`] if it does not exist.
fn leg_of(db: &Connection, held: &Lease, leg: LegId) -> Outcome<segue_core::session::Leg> {
    let sql = format!(
        "{} WHERE id = ?1 AND session_id = ?2 AND ended_at IS NULL",
        rows::LEG
    );
    let found = db
        .prepare_cached(&sql)?
        .query_row(params![leg.0, held.session.as_str()], rows::leg)
        .optional()?;
    found.ok_or_else(|| StoreError::NoLeg(held.session.clone()).into())
}

fn set_tip(db: &Connection, leg: LegId, tip: TurnId) -> Outcome<()> {
    db.prepare_cached("UPDATE legs SET tip_id = ?2 WHERE id = ?1")?
        .execute(params![leg.0, tip.0])?;
    Ok(())
}

/// Writes turns that were made outside segue on a leg. Moves the head and the tip to the last turn and returns it;
/// `None` if `all` is empty.
pub(crate) fn write(
    db: &Connection,
    held: &Lease,
    leg: LegId,
    all: &[AdoptedTurn],
) -> Outcome<Option<TurnId>> {
    let mut last = None;
    for turn in all {
        last = Some(write_one(db, held, leg, turn)?);
    }
    if let Some(last) = last {
        set_tip(db, leg, last)?;
    }
    Ok(last)
}

fn write_one(db: &Connection, held: &Lease, leg: LegId, turn: &AdoptedTurn) -> Outcome<TurnId> {
    let empty = Message::text(Role::User, "", turn.started_at);
    let prompt = turn.messages.first().unwrap_or(&empty);
    let id = turns::begin(db, held, prompt)?.id;
    db.prepare_cached("UPDATE turns SET sent = 1, outside = 1, started_at = ?2 WHERE id = ?1")?
        .execute(params![id.0, micros(turn.started_at)])?;
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
    turns::finish(db, held, id, &finish)?;
    let held: Option<u64> = turn.messages.iter().map(|message| message.tokens).sum();
    // The attempt names the leg that answered the turn. A failure outside segue does not count as a failure of the
    // provider.
    db.prepare_cached(
        "INSERT INTO attempts (turn_id, n, leg_id, state, started_at, ended_at, mark)
         VALUES (?1, 1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        id.0,
        leg.0,
        state.as_str(),
        micros(turn.started_at),
        micros(turn.ended_at),
        turn.mark
    ])?;
    db.prepare_cached(
        "UPDATE legs SET total_tokens = CASE WHEN ?2 IS NULL THEN total_tokens ELSE coalesce(total_tokens, 0) + ?2 END,
             context_tokens = coalesce(?3, context_tokens), held_tokens = held_tokens + ?4
         WHERE id = ?1",
    )?
    .execute(params![
        leg.0,
        turn.usage.total_tokens,
        turn.usage.context_tokens,
        held
    ])?;
    Ok(id)
}
