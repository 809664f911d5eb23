//! The lease on a session.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, params};
use segue_core::agent::ProcessIdentity;
use segue_core::id::SessionId;
use segue_store::{Lease, LeaseGrant, LeaseHolder, LeaseRequest, StoreError};

use super::{OpResult, sessions};
use crate::connection::Db;
use crate::rows::{self, to_micros};

/// Checks that `lease` is the newest lease of its session and not released. [`StoreError::LeaseLost`] if not.
pub(crate) fn check_lease(db: &Db, lease: &Lease) -> OpResult<()> {
    let valid = db
        .prepare_cached(
            "SELECT 1 FROM leases WHERE session_id = ?1 AND epoch = ?2 AND owner_pid IS NOT NULL",
        )?
        .exists(params![lease.session.as_str(), lease.epoch])?;
    if valid {
        Ok(())
    } else {
        Err(StoreError::LeaseLost(lease.session.clone()).into())
    }
}

pub(crate) fn find_holder(db: &Db, id: &SessionId) -> OpResult<Option<LeaseHolder>> {
    let now = db.now()?;
    let holder = db
        .prepare_cached(rows::HOLDER_QUERY)?
        .query_row([id.as_str()], |row| rows::read_holder(row, now))
        .optional()?;
    Ok(holder.flatten())
}

pub(crate) fn read_time(db: &Db) -> OpResult<Timestamp> {
    Ok(db.now()?)
}

/// Returns the holder for a caller outside the store, and logs it.
pub(crate) fn report_holder(db: &Db, id: &SessionId) -> OpResult<Option<LeaseHolder>> {
    let holder = find_holder(db, id)?;
    if let Some(LeaseHolder { epoch, owner, .. }) = &holder {
        tracing::debug!(session = %id, epoch, pid = owner.pid, "lease in use");
    }
    Ok(holder)
}

pub(crate) fn acquire_lease(db: &Db, request: &LeaseRequest) -> OpResult<LeaseGrant> {
    sessions::load_session(db, &request.session)?;
    let previous_holder = find_holder(db, &request.session)?;
    if let Some(holder) = &previous_holder
        && let Err(refusal) = request.check_holder(holder)
    {
        tracing::info!(
            session = %request.session,
            pid = request.owner.pid,
            holder_pid = holder.owner.pid,
            holder_epoch = holder.epoch,
            silent_ms = holder.silent_for.as_millis(),
            "lease refused"
        );
        return Err(refusal.into());
    }
    let epoch: u64 = db
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
                request.owner.start_time,
                to_micros(db.now()?)
            ],
            |row| row.get(0),
        )?;
    tracing::debug!(
        session = %request.session,
        epoch,
        pid = request.owner.pid,
        previous_pid = previous_holder.as_ref().map(|holder| holder.owner.pid),
        "lease granted"
    );
    Ok(LeaseGrant {
        lease: Lease {
            session: request.session.clone(),
            epoch,
        },
        previous_holder,
    })
}

#[expect(
    clippy::ref_option,
    reason = "`dispatch!` borrows every argument that it moves"
)]
pub(crate) fn record_heartbeat(
    db: &Db,
    lease: &Lease,
    agent: &Option<ProcessIdentity>,
) -> OpResult<()> {
    check_lease(db, lease)?;
    let agent = agent.as_ref();
    db.prepare_cached(
        "UPDATE leases SET heartbeat_at = ?2, agent_host = ?3, agent_pid = ?4, agent_started = ?5 WHERE session_id = ?1",
    )?
    .execute(params![
        lease.session.as_str(),
        to_micros(db.now()?),
        agent.map(|agent| &agent.host),
        agent.map(|agent| agent.pid),
        agent.map(|agent| &agent.start_time),
    ])?;
    Ok(())
}

pub(crate) fn release_lease(db: &Db, lease: &Lease) -> OpResult<()> {
    check_lease(db, lease)?;
    db.prepare_cached(
        "UPDATE leases SET owner_host = NULL, owner_pid = NULL, owner_started = NULL,
             agent_host = NULL, agent_pid = NULL, agent_started = NULL WHERE session_id = ?1",
    )?
    .execute([lease.session.as_str()])?;
    tracing::debug!(session = %lease.session, epoch = lease.epoch, "lease released");
    Ok(())
}
