//! Leases on sessions, which allow one turn at a time.

use jiff::{SignedDuration, Timestamp};
use segue_core::agent::ProcessIdentity;
use segue_core::id::SessionId;
use segue_core::session::{Session, Turn};

use crate::{Result, StoreError};

/// The right to write to a session. Every write requires it, and a newer lease invalidates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Id of the session.
    pub session: SessionId,
    /// Number of times that the lease of the session was acquired. Only the highest number is valid.
    pub epoch: u64,
}

/// Owner of the lease of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseHolder {
    /// Process that acquired the lease.
    pub owner: ProcessIdentity,
    /// Epoch of the lease.
    pub epoch: u64,
    /// Agent process that the owner runs. Its pid is the id of a process group. `None` if no agent runs.
    pub agent: Option<ProcessIdentity>,
    /// Time at which the lease was acquired, by the clock of the store.
    pub acquired_at: Timestamp,
    /// Time since the last heartbeat, when the owner was read.
    pub silent_for: SignedDuration,
    /// Number of the running turn. `None` if no turn is running.
    pub running_turn: Option<u32>,
}

impl LeaseHolder {
    /// Returns `true` if the session is only open: its agent runs and waits for the next prompt, but no turn is
    /// running.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.running_turn.is_none() && self.agent.is_some()
    }

    /// Returns the part of an error message that precedes the process: "open in" or "in use by".
    pub(crate) fn usage_phrase(&self) -> &'static str {
        if self.is_idle() {
            "open in"
        } else {
            "in use by"
        }
    }
}

/// A request for the lease of a session.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// Id of the session.
    pub session: SessionId,
    /// Process that requests the lease.
    pub owner: ProcessIdentity,
    /// Time without a heartbeat after which an owner loses the lease.
    pub expires_after: SignedDuration,
    /// Epoch of the lease that may be taken over, because its owner is known to be dead. `None` if no owner is known to
    /// be dead.
    pub dead_epoch: Option<u64>,
}

impl LeaseRequest {
    /// Decides whether the lease may be taken over from its owner: the owner is known to be dead, or has been silent
    /// for too long.
    pub fn check_holder(&self, holder: &LeaseHolder) -> Result<()> {
        let is_dead = self.dead_epoch == Some(holder.epoch);
        if is_dead || holder.silent_for >= self.expires_after {
            return Ok(());
        }
        Err(StoreError::Leased {
            session: self.session.clone(),
            holder: Box::new(holder.clone()),
        })
    }
}

/// A session that was created and leased together with its first turn.
#[derive(Debug)]
pub struct StartedSession {
    /// The new session.
    pub session: Session,
    /// Lease on the session.
    pub lease: Lease,
    /// First turn of the session.
    pub turn: Turn,
}

/// A lease that was granted.
#[derive(Debug)]
pub struct LeaseGrant {
    /// The new lease.
    pub lease: Lease,
    /// Previous owner that did not release its lease. `None` if the session had no owner.
    pub previous_holder: Option<LeaseHolder>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_dead_or_silent_owner_loses_its_lease() {
        let owner = ProcessIdentity {
            host: "here".into(),
            pid: 1,
            start_time: "then".into(),
        };
        let cases = [
            (None, 0, false),
            (None, 29, false),
            (None, 30, true),
            // The clock of the machine was set back after the last heartbeat.
            (None, -7200, false),
            (Some(4), 0, true),
            (Some(3), 0, false),
        ];
        for (dead_epoch, silent_seconds, is_granted) in cases {
            let holder = LeaseHolder {
                owner: owner.clone(),
                epoch: 4,
                agent: None,
                acquired_at: Timestamp::UNIX_EPOCH,
                silent_for: SignedDuration::from_secs(silent_seconds),
                running_turn: None,
            };
            let request = LeaseRequest {
                session: SessionId::from_timestamp(Timestamp::UNIX_EPOCH, 1),
                owner: owner.clone(),
                expires_after: SignedDuration::from_secs(30),
                dead_epoch,
            };
            let is_ok = request.check_holder(&holder).is_ok();
            assert_eq!(is_ok, is_granted, "{dead_epoch:?} {silent_seconds}");
        }
    }
}
