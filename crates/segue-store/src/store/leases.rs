//! Leases on sessions.

use async_trait::async_trait;
use jiff::Timestamp;
use segue_core::agent::ProcessIdentity;
use segue_core::id::SessionId;

use crate::{Lease, LeaseGrant, LeaseHolder, LeaseRequest, Result};

/// Leases, which allow one turn at a time in a session.
///
/// Only the clock of the store decides how long an owner has been silent, so that a client whose clock is wrong neither
/// takes a lease from another client nor loses its own.
#[async_trait]
pub trait LeaseStore: Send + Sync {
    /// Acquires the lease of a session.
    async fn acquire_lease(&self, request: LeaseRequest) -> Result<LeaseGrant>;
    /// Records that the owner of a lease is alive, and which agent process it runs.
    async fn record_heartbeat(&self, lease: &Lease, agent: Option<ProcessIdentity>) -> Result<()>;
    /// Releases a lease.
    async fn release_lease(&self, lease: &Lease) -> Result<()>;
    /// Returns the current owner of the lease of a session. `None` if the session has no owner.
    async fn lease_holder(&self, id: &SessionId) -> Result<Option<LeaseHolder>>;
    /// Returns the time of the store's clock, which is the same for all clients.
    async fn store_time(&self) -> Result<Timestamp>;
}
