//! Interface of a session store, and the test suite that every store must pass.
//!
//! [`Store`] is the sum of traits by concern, such as [`TurnStore`] and [`LeaseStore`]. Each operation is meaningful and
//! atomic: it happens completely and is on disk when it returns, or it did not happen. Rules that every store must
//! apply, but that are not SQL, are functions and methods of this crate. It does not depend on SQL. A store is correct
//! if it passes `contract` (behind the feature of that name).

mod checkpoint_deltas;
mod clock;
mod drafts;
mod error;
mod feed;
mod import;
mod input;
mod lease;
mod query;
mod recent_turns;
mod recorded_decision;
mod recorded_purpose;
mod row_ids;
mod store;

#[cfg(feature = "contract")]
pub mod contract;

pub use checkpoint_deltas::{apply_encoded_delta, encode_checkpoint, next_delta_depth};
pub use clock::StoreClock;
pub use drafts::DraftMessages;
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
pub use recent_turns::{ReadLimit, RecentTurns};
pub use recorded_decision::{decode_recorded_decision, recorded_text};
pub use recorded_purpose::RecordedPurpose;
pub use row_ids::RowIds;
pub use store::{
    AttemptStore, CheckpointStore, ContextStore, DecisionLog, HeadStore, HistoryStore, ImportStore,
    LabelStore, LeaseStore, LegStore, NativeStore, ProviderHealthStore, SessionQueries,
    SessionStore, Store, TokenStore, TurnStore,
};

/// Result of a store operation.
pub type Result<T> = std::result::Result<T, StoreError>;
