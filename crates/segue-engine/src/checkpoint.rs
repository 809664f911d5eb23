//! Checkpoints: compaction, changes by the user, and summarisers.

pub(crate) mod compaction;
pub(crate) mod edit;
pub(crate) mod summariser;
