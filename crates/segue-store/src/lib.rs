//! Interface of a session store, and the test suite that every store must pass.
//!
//! [`Store`] is the sum of traits by concern, such as [`TurnStore`] and [`LeaseStore`]. Each operation is meaningful and
//! atomic: it happens completely and is on disk when it returns, or it did not happen. Rules that every store must
//! apply, but that are not SQL, are functions and methods of this crate. It does not depend on SQL. A store is correct
//! if it passes `contract` (behind the feature of that name).

mod clock;
mod error;
mod feed;
mod import;
mod input;
mod lease;
mod query;
mod row_ids;
mod store;

#[cfg(feature = "contract")]
pub mod contract;

pub use clock::StoreClock;
pub use error::{BoxError, StoreError};
pub use feed::{Change, ChangeFeed, ChangeKind, ChangeRecord, FeedCursor, InvalidCursor};
pub use import::{ImportedCheckpoint, ImportedSession, SessionOrigin};
pub use input::{
    AdoptedSession, AdoptedTurn, CompactionCommit, ContextLossState, Draft, DraftKind, ForkPoint,
    NativeUpdate, NewCheckpoint, NewLeg, NewSession, NewTurn, SettleEffects, TagChange, TokenCount,
    TurnEnding, TurnEntry, TurnTokens,
};
pub use lease::{Lease, LeaseGrant, LeaseHolder, LeaseRequest, StartedSession};
pub use query::{
    ContextMeasurement, PageCursor, PageRequest, SessionFilter, SessionPage, SessionStamp,
    StoredTurn, TagCount,
};
pub use row_ids::RowIds;
pub use store::{
    AttemptStore, CheckpointStore, ContextStore, DecisionLog, HeadStore, HistoryStore, ImportStore,
    LabelStore, LeaseStore, LegStore, NativeStore, ProviderHealthStore, SessionQueries,
    SessionStore, Store, TokenStore, TurnStore,
};

/// Result of a store operation.
pub type Result<T> = std::result::Result<T, StoreError>;
