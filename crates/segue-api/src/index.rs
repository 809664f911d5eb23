//! The session index.

use schemars::JsonSchema;
use segue_core::id::ProviderId;
use serde::{Deserialize, Serialize};

/// Status of the index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IndexSummary {
    /// Path of the index.
    pub path: String,
    /// Size of the index in bytes; absent without an index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Number of existing native sessions; null without an index.
    pub sessions: Option<u64>,
    /// Number of native sessions that no longer exist; absent without an index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone: Option<u64>,
    /// Number of files that could not be read; absent without an index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<usize>,
}

/// Work of a refresh.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RefreshedIndex {
    /// Number of locations that contain a session.
    pub places: usize,
    /// Number of locations that were read.
    pub read: usize,
    /// Number of bytes that were read.
    pub bytes_read: u64,
    /// Number of rows that were written.
    pub rows_written: u64,
    /// Number of locations that no longer exist.
    pub gone: usize,
    /// Sources that could not be read.
    pub unreadable: Vec<UnreadableFiles>,
    /// Size of the index in bytes.
    pub index_bytes: u64,
}

/// A source that could not be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnreadableFiles {
    /// Agent of the source.
    pub provider: ProviderId,
    /// Reason why the source could not be read.
    pub why: String,
}
