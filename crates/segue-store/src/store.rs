//! The traits of a store, one per concern, and [`Store`], their sum.

mod checkpoints;
mod leases;
mod legs;
mod sessions;
mod transfer;
mod turns;

use crate::ChangeFeed;

pub use checkpoints::{CheckpointStore, ContextStore, DecisionLog};
pub use leases::LeaseStore;
pub use legs::{LegStore, ProviderHealthStore};
pub use sessions::{HeadStore, LabelStore, SessionQueries, SessionStore};
pub use transfer::{ImportStore, NativeStore};
pub use turns::{AttemptStore, HistoryStore, TokenStore, TurnStore};

/// A store of sessions: everything that the engine needs. A function that needs less can take one of the supertraits.
///
/// Requirements for an implementation:
///
/// - An operation that returned `Ok` survives a power failure. Leases are exempt, because no process that owns a lease
///   survives it either.
/// - An operation that returned an error changed nothing.
/// - A write with a [`Lease`](crate::Lease) fails with [`LeaseLost`](crate::StoreError::LeaseLost) unless that lease is
///   the newest of its session. Operations that the user may do at any time, such as renaming, need no lease.
/// - The store waits for other writers; the caller does not.
/// - A read never waits for a writer.
pub trait Store:
    SessionStore
    + SessionQueries
    + LabelStore
    + HeadStore
    + TurnStore
    + AttemptStore
    + HistoryStore
    + TokenStore
    + LegStore
    + ProviderHealthStore
    + NativeStore
    + ImportStore
    + CheckpointStore
    + ContextStore
    + DecisionLog
    + LeaseStore
    + ChangeFeed
{
}

impl<S> Store for S where
    S: SessionStore
        + SessionQueries
        + LabelStore
        + HeadStore
        + TurnStore
        + AttemptStore
        + HistoryStore
        + TokenStore
        + LegStore
        + ProviderHealthStore
        + NativeStore
        + ImportStore
        + CheckpointStore
        + ContextStore
        + DecisionLog
        + LeaseStore
        + ChangeFeed
{
}
