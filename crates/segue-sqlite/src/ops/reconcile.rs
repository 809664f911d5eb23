//! Turns that were made outside segue, and the marks of the native records at which attempts ended.

use rusqlite::{OptionalExtension, params};
use segue_core::agent::ProcessIdentity;
use segue_core::id::{LegId, TurnId};
use segue_core::session::{LegEnd, Session};
use segue_store::{AdoptedTurn, Lease, NativeUpdate, NewLeg, NewSession, StoreError};

use super::{OpResult, lease, legs, revert, sessions, tags, turns};
use crate::connection::Db;
use crate::rows::{self, to_micros};

pub(crate) fn set_attempt_mark(db: &Db, lease: &Lease, turn: TurnId, mark: &str) -> OpResult<()> {
    lease::check_lease(db, lease)?;
    db.prepare_cached(
        "UPDATE attempts SET mark = ?3
         WHERE turn_id = ?1 AND n = (SELECT max(n) FROM attempts WHERE turn_id = ?1)
           AND turn_id IN (SELECT id FROM turns WHERE id = ?1 AND session_id = ?2)",
    )?
    .execute(params![db.turn_row(turn), lease.session.as_str(), mark])?;
    Ok(())
}

pub(crate) fn apply_native_update(
    db: &Db,
    lease: &Lease,
    update: &NativeUpdate,
) -> OpResult<Session> {
    lease::check_lease(db, lease)?;
    load_open_leg(db, lease, update.leg)?;
    if let Some((turn, ending)) = &update.interrupted_turn {
        turns::finish_turn(db, lease, *turn, ending)?;
    }
    if let Some(to) = update.rewound_to {
        revert::revert_head(db, lease, to, update.at)?;
        set_tip(db, update.leg, to)?;
    }
    write_outside_turns(db, lease, update.leg, &update.turns)?;
    sessions::load_session(db, &lease.session)
}

pub(crate) fn fork_native_update(
    db: &Db,
    lease: &Lease,
    new: &NewSession,
    owner: &ProcessIdentity,
    update: &NativeUpdate,
) -> OpResult<Session> {
    lease::check_lease(db, lease)?;
    let leg = load_open_leg(db, lease, update.leg)?;
    let base_turn = update.base_turn(&leg);
    let tip = base_turn.ok_or_else(|| StoreError::NoTurn(lease.session.clone()))?;
    let fork_lease = sessions::create_leased_session(db, new, owner)?;
    db.prepare_cached(
        "UPDATE sessions SET head_id = ?2, turns = t.n, forked_from = ?3, forked_at = t.n
         FROM (SELECT n FROM turns WHERE id = ?2) AS t WHERE sessions.id = ?1",
    )?
    .execute(params![
        new.id.as_str(),
        db.turn_row(tip),
        lease.session.as_str()
    ])?;
    tags::copy_tags(db, &lease.session, &new.id)?;
    legs::end_leg(db, lease, leg.id, LegEnd::HeadMoved, update.at)?;
    let new_leg = NewLeg {
        provider: leg.provider,
        native_id: leg.native_id,
        at: update.at,
    };
    let fork_leg = legs::open_leg(db, &fork_lease, &new_leg)?;
    // The native session already contains earlier messages whose token count is unknown.
    db.prepare_cached("UPDATE legs SET held_tokens = NULL WHERE id = ?1")?
        .execute([db.leg_row(fork_leg.id)])?;
    if let Some(last) = write_outside_turns(db, &fork_lease, fork_leg.id, &update.turns)? {
        // The tip is the last turn in the native session, also on the leg that the native session was detached from.
        set_tip(db, leg.id, last)?;
    }
    lease::release_lease(db, &fork_lease)?;
    sessions::load_session(db, &new.id)
}

/// Returns a leg of the session that has not ended. [`StoreError::NoLeg`] if it does not exist.
fn load_open_leg(db: &Db, lease: &Lease, leg: LegId) -> OpResult<segue_core::session::Leg> {
    let sql = format!(
        "{} WHERE id = ?1 AND session_id = ?2 AND ended_at IS NULL",
        rows::LEG_QUERY
    );
    let open_leg = db
        .prepare_cached(&sql)?
        .query_row(params![db.leg_row(leg), lease.session.as_str()], |row| {
            rows::read_leg(db, row)
        })
        .optional()?;
    open_leg.ok_or_else(|| StoreError::NoLeg(lease.session.clone()).into())
}

fn set_tip(db: &Db, leg: LegId, tip: TurnId) -> OpResult<()> {
    db.prepare_cached("UPDATE legs SET tip_id = ?2 WHERE id = ?1")?
        .execute(params![db.leg_row(leg), db.turn_row(tip)])?;
    Ok(())
}

/// Writes turns that were made outside segue on a leg. Moves the head and the tip to the last turn and returns it;
/// `None` if `turns` is empty.
pub(crate) fn write_outside_turns(
    db: &Db,
    lease: &Lease,
    leg: LegId,
    turns: &[AdoptedTurn],
) -> OpResult<Option<TurnId>> {
    let mut last = None;
    for turn in turns {
        last = Some(write_outside_turn(db, lease, leg, turn)?);
    }
    if let Some(last) = last {
        set_tip(db, leg, last)?;
    }
    Ok(last)
}

fn write_outside_turn(db: &Db, lease: &Lease, leg: LegId, turn: &AdoptedTurn) -> OpResult<TurnId> {
    let id = turns::begin_turn(db, lease, &turn.prompt())?.id;
    db.prepare_cached("UPDATE turns SET sent = 1, outside = 1, started_at = ?2 WHERE id = ?1")?
        .execute(params![db.turn_row(id), to_micros(turn.started_at)])?;
    let ending = turn.ending();
    turns::finish_turn(db, lease, id, &ending)?;
    // The attempt names the leg that answered the turn. A failure outside segue does not count as a failure of the
    // provider.
    db.prepare_cached(
        "INSERT INTO attempts (turn_id, n, leg_id, state, started_at, ended_at, mark)
         VALUES (?1, 1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        db.turn_row(id),
        db.leg_row(leg),
        ending.state.as_str(),
        to_micros(turn.started_at),
        to_micros(turn.ended_at),
        turn.mark
    ])?;
    db.prepare_cached(
        "UPDATE legs SET total_tokens = CASE WHEN ?2 IS NULL THEN total_tokens ELSE coalesce(total_tokens, 0) + ?2 END,
             context_tokens = coalesce(?3, context_tokens), held_tokens = held_tokens + ?4
         WHERE id = ?1",
    )?
    .execute(params![
        db.leg_row(leg),
        turn.usage.total_tokens,
        turn.usage.context_tokens,
        turn.message_tokens()
    ])?;
    Ok(id)
}
