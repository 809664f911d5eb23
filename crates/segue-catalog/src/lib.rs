//! Native sessions of the agents on this machine, read into segue's own types.
//!
//! Each agent stores its conversations in its own home, in its own format. A [`Reader`] implements one format: it finds
//! the sessions ([`SessionLocation`]), reads the [`SessionHead`] of a session without reading the complete session, and
//! reads its [`Records`] after any [`Mark`]. The remaining code is shared by all agents: [`TurnBuilder`] converts
//! records to [`NativeTurn`]s. Only it implements the effect of a rewind or a replaced record on a conversation.
//!
//! [`Index`] lists and searches the sessions of all agents. It writes only its own file. [`SessionStorage`] returns the
//! artifacts of a session on disk; an [`Archive`] and a [`Trash`] contain copies of them.
//!
//! Readers never write. A line that can't be read is counted in [`SkippedContent`] and does not end the read. A file is
//! never in memory completely.

mod archive;
mod belongings;
mod catalog;
mod claude;
mod codex;
mod compression;
mod dialect;
mod fold;
mod found;
mod gemini;
mod head;
pub mod index;
mod injected;
mod json;
mod lines;
mod mark;
mod opencode;
mod project;
mod reader;
mod record;
pub mod retention;
mod since;
mod tally;
mod trash;

pub use archive::{
    Archive, ArchiveError, ArchiveOutcome, ArchivedSession, CopyLocation, DeletedWith, Manifest,
    PackedFile, RestoredFileTimes, RestoredFiles, SessionLabels,
};
pub use belongings::{Artifact, ArtifactRole, SessionArtifacts, SessionStorage};
pub use catalog::{Catalog, NativeSession, NativeSessionList};
pub use claude::ClaudeReader;
pub use codex::CodexReader;
pub use fold::{NativeTurn, TurnBuilder};
pub use found::{IdHint, SessionLocation, SessionScan};
pub use gemini::{GeminiListedSession, GeminiListing, GeminiReader, parse_listing};
pub use head::{NativeSessionKind, SessionHead};
pub use index::Index;
pub use mark::{Mark, MarkError};
pub use opencode::OpencodeReader;
pub use project::{is_work_tree_root, project_at, project_key, work_tree_root};
#[cfg(test)]
pub(crate) use reader::read_turn;
pub use reader::{
    ReadError, Reader, format_error_chain, read_outline, read_turns, read_turns_from,
};
pub use record::{
    KeyedMessage, NativeRecord, ReadStart, RecordEvent, Records, RewindTarget, SkippedContent,
};
pub use since::{TailTurns, read_tail};
pub use tally::{NativeRequest, RequestCollector, RequestDeduplicator};
pub use trash::Trash;
