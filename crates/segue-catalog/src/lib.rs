//! Native sessions of the agents on this machine: lists, search, archive and trash.
//!
//! The sessions are read by the [`Reader`]s of `segue-providers`, whose types this crate re-exports. [`Index`] lists and
//! searches the sessions of all agents. It writes only its own file. An [`Archive`] and a [`Trash`] contain copies of
//! the artifacts of sessions.

mod archive;
mod catalog;
pub mod index;
mod project;
pub mod retention;
mod session_head;
mod trash;

pub use archive::{
    Archive, ArchiveOutcome, ArchivedSession, CopyLocation, DeletedWith, Manifest, PackedFile,
    RestoredFileTimes, RestoredFiles, SessionLabels,
};
pub use catalog::{Catalog, NativeSession, NativeSessionList};
pub use index::Index;
pub use project::{is_work_tree_root, project_at, project_key, work_tree_root};
pub use segue_providers::{
    ArchiveError, Artifact, ArtifactRole, ClaudeReader, CodexReader, GeminiListedSession,
    GeminiListing, GeminiReader, IdHint, KeyedMessage, Mark, MarkError, NativeRecord,
    NativeRequest, NativeSessionKind, NativeTurn, OpencodeReader, ReadError, ReadStart, Reader,
    RecordEvent, Records, RequestCollector, RequestDeduplicator, RewindTarget, SessionArtifacts,
    SessionHead, SessionLocation, SessionScan, SessionStorage, SkippedContent, TailTurns,
    TurnBuilder, format_error_chain, parse_listing, read_outline, read_tail, read_turns,
    read_turns_from,
};
use segue_providers::{list_directory, modification_time};
pub use trash::Trash;
