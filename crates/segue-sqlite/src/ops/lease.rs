//! The lease on a session.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use segue_core::agent::ProcessMark;
use segue_core::id::SessionId;
use segue_store::{Granted, Holder, Lease, LeaseRequest, StoreError};

use super::{Outcome, sessions};
use crate::rows::{self, micros};

/// Checks that `held` is the newest lease of its session and not released. [`StoreError::LeaseLost`] if not.
pub(crate) fn check(db: &Connection, held: &Lease) -> Outcome<()> {
    let valid = db
        .prepare_cached(
            "SELECT 1 FROM leases WHERE session_id = ?1 AND epoch = ?2 AND owner_pid IS NOT NULL",
        )?
        .exists(params![held.session.as_str(), held.epoch])?;
    if valid {
        Ok(())
    } else {
        Err(StoreError::LeaseLost(held.session.clone()).into())
    }
}

pub(crate) fn holder(db: &Connection, id: &SessionId) -> Outcome<Option<Holder>> {
    let found = db
        .prepare_cached(rows::HOLDER)?
        .query_row([id.as_str()], rows::holder)
        .optional()?;
    Ok(found.flatten())
}

pub(crate) fn acquire(db: &Connection, request: &LeaseRequest) -> Outcome<Granted> {
    sessions::existing(db, &request.session)?;
    let taken_from = holder(db, &request.session)?;
    if let Some(by) = &taken_from {
        let silent_for = request.at.duration_since(by.heartbeat_at);
        let known_dead = request.dead_epoch == Some(by.epoch);
        if !known_dead && silent_for < request.expires_after {
            return Err(StoreError::Held {
                session: request.session.clone(),
                by: Box::new(by.clone()),
            }
            .into());
        }
    }
    let epoch = db
        .prepare_cached(
            "INSERT INTO leases (session_id, epoch, owner_host, owner_pid, owner_started, since, heartbeat_at)
             VALUES (?1, 1, ?2, ?3, ?4, ?5, ?5)
             ON CONFLICT DO UPDATE SET epoch = epoch + 1, owner_host = excluded.owner_host,
                 owner_pid = excluded.owner_pid, owner_started = excluded.owner_started,
                 agent_host = NULL, agent_pid = NULL, agent_started = NULL,
                 since = excluded.since, heartbeat_at = excluded.heartbeat_at
             RETURNING epoch",
        )?
        .query_row(
            params![
                request.session.as_str(),
                request.owner.host,
                request.owner.pid,
                request.owner.started,
                micros(request.at)
            ],
            |row| row.get(0),
        )?;
    Ok(Granted {
        lease: Lease {
            session: request.session.clone(),
            epoch,
        },
        taken_from,
    })
}

pub(crate) fn heartbeat(
    db: &Connection,
    held: &Lease,
    agent: Option<&ProcessMark>,
    at: Timestamp,
) -> Outcome<()> {
    check(db, held)?;
    db.prepare_cached(
        "UPDATE leases SET heartbeat_at = ?2, agent_host = ?3, agent_pid = ?4, agent_started = ?5 WHERE session_id = ?1",
    )?
    .execute(params![
        held.session.as_str(),
        micros(at),
        agent.map(|agent| &agent.host),
        agent.map(|agent| agent.pid),
        agent.map(|agent| &agent.started),
    ])?;
    Ok(())
}

pub(crate) fn release(db: &Connection, held: &Lease) -> Outcome<()> {
    check(db, held)?;
    db.prepare_cached(
        "UPDATE leases SET owner_host = NULL, owner_pid = NULL, owner_started = NULL,
             agent_host = NULL, agent_pid = NULL, agent_started = NULL WHERE session_id = ?1",
    )?
    .execute([held.session.as_str()])?;
    Ok(())
}
