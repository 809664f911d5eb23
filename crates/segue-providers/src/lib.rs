//! Agents that segue drives, and their native sessions.
//!
//! Each provider has a directory with everything that segue knows about it: the driver of its program, the reader of
//! its sessions, the guard of those sessions, and the schema of its files. A [`ProviderDescriptor`] states the facts on
//! which shared code depends, and [`PROVIDERS`] is the table of all of them.
//!
//! An [`Agent`] can start a program; an [`AgentConnection`] is a running one. Every agent is a process group on a
//! [`leash`], so that no process of it outlives segue. A [`Provider`] is a program with its transports:
//! [`build_provider()`] builds a provider of the table, or one for any other program that speaks the Agent Client
//! Protocol. [`rehearsal_agent()`] is the built-in offline agent.
//!
//! A [`Reader`] implements one format of sessions: it finds the sessions ([`SessionLocation`]), reads the
//! [`SessionHead`] of a session without reading the complete session, and reads its [`Records`] after any [`Mark`].
//! [`TurnBuilder`] converts records to [`NativeTurn`]s. Only it implements the effect of a rewind or a replaced record
//! on a conversation. [`SessionStorage`] returns the artifacts of a session on disk.
//!
//! Readers never write. A line that can't be read is counted in [`SkippedContent`] and does not end the read. A file is
//! never in memory completely.

mod acp;
mod agent;
mod claude;
mod codex;
pub mod compression;
mod descriptor;
mod error;
mod error_class;
mod gemini;
mod native_cli;
mod opencode;
mod process;
mod provider;
mod reader;
mod rehearsal;
mod wire;

pub use acp::{AcpAgent, acp_provider};
pub use agent::{
    Agent, AgentConnection, AgentDefaults, BranchPoint, ConnectionEvent, ListedNativeSession,
    OpenRequest, OpenedConnection, PermissionReply, Probe, SessionDefault, Timeouts,
    TransportFallback,
};
pub use claude::{ClaudeReader, claude_provider};
pub use codex::{CodexReader, codex_provider};
pub use descriptor::{
    NativeHome, PROVIDERS, ProviderDescriptor, ProviderDriver, SessionCommands, find_provider,
};
pub use error::AgentError;
pub use error_class::AgentRefusal;
pub use gemini::{
    GeminiListedSession, GeminiListing, GeminiReader, UnattendedGuard, gemini_provider,
    parse_listing, remove_session_copies,
};
pub use native_cli::resume as exec;
pub use native_cli::{NativeCli, NativeCliError};
pub use opencode::OpencodeReader;
pub use process::in_use as busy;
pub use process::leash;
pub use process::program as known;
pub use process::{
    Exit, LeashCommand, ProcessStatus, end_agent, identify_process, process_status,
    wait_until_ended,
};
pub use provider::{AgentHost, Provider, ProviderSettings, SystemFns, Transport, build_provider};
#[cfg(test)]
pub(crate) use reader::read_turn;
pub use reader::{
    ArchiveError, Artifact, ArtifactRole, IdHint, KeyedMessage, Mark, MarkError, NativeRecord,
    NativeRequest, NativeSessionKind, NativeTurn, ReadError, ReadStart, Reader, RecordEvent,
    Records, RequestCollector, RequestDeduplicator, RewindTarget, SessionArtifacts, SessionHead,
    SessionLocation, SessionScan, SessionStorage, SkippedContent, TailTurns, TurnBuilder,
    format_error_chain, list_directory, modification_time, read_outline, read_tail, read_turns,
    read_turns_from, retention,
};
pub use rehearsal::rehearsal_agent;
