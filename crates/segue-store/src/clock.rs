//! The clock of a store.

use std::sync::Arc;

use jiff::Timestamp;

/// A clock for a store whose own clock must not be used, as in a test.
pub type StoreClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
