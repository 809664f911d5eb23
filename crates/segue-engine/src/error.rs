//! Errors of the engine.

use jiff::Timestamp;
use segue_agents::NativeCliError;
use segue_catalog::{ArchiveError, ReadError};
use segue_core::brief::BriefError;
use segue_core::id::{ProviderId, SessionId};
use segue_core::number_format::format_plural;
use segue_core::policy::WaitReason;
use segue_core::scope::RoleName;
use segue_core::session::TurnNumberError;
use segue_store::StoreError;

use crate::{CheckpointError, ConversationId, NativeResumeError, SessionMatch};

/// Reason why a call failed before or outside a turn. A failed turn is not an error of this type, but a report.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No session matches the reference.
    #[error("no session matches {0:?}")]
    NoMatch(String),
    /// The last list has no entry with this number.
    #[error("list number {number} not found in the last list of this project")]
    NoListEntry {
        /// Number that was requested.
        number: usize,
        /// Number of entries in the last list.
        list_len: usize,
    },
    /// An entry of the last list no longer exists.
    #[error("session {0} from the last list no longer exists")]
    ListEntryMissing(String),
    /// The index contains a native session that its agent has deleted and that no archive contains.
    #[error("session {0} no longer exists: its agent deleted it, and segue has no copy of it")]
    Deleted(String),
    /// Several sessions match the reference.
    #[error("{text:?} matches {} sessions", .candidates.len())]
    Ambiguous {
        /// Reference that was requested.
        text: String,
        /// Sessions that match.
        candidates: Vec<SessionMatch>,
    },
    /// The reference matches only a native session, which segue has not adopted.
    #[error("{0} is a native session of {provider} that segue has not adopted", provider = .0.provider())]
    NotAdopted(ConversationId),
    /// The agent's own program cannot resume the conversation.
    #[error("cannot resume {id} in the agent's own program: {reason}")]
    NotResumable {
        /// Id of the conversation.
        id: ConversationId,
        /// Reason why the program cannot resume it.
        reason: NativeResumeError,
    },
    /// A native session cannot be read.
    #[error(transparent)]
    NativeRead(#[from] ReadError),
    /// The index of the catalog cannot be used.
    #[error(transparent)]
    Index(segue_catalog::index::IndexError),
    /// The engine has no index to search.
    #[error("cannot search: no session index is configured")]
    NoIndex,
    /// The engine has no agent for the provider.
    #[error("unknown agent `{provider}`")]
    UnknownProvider {
        /// Provider that was requested.
        provider: ProviderId,
        /// Providers that the engine can drive.
        available: Vec<ProviderId>,
    },
    /// The role has no description.
    #[error("unknown role `{}`", .role.as_str())]
    UnknownRole {
        /// Role that was requested, or that of the session.
        role: RoleName,
        /// Roles that have a description.
        available: Vec<RoleName>,
    },
    /// The engine has no agent.
    #[error("no agent found")]
    NoAgents,
    /// The agent failed in one leg after another, so segue opens no further leg automatically.
    #[error(
        "{provider} failed too often in session {session}: {} in a row, and {limit} more in a new native session",
        format_plural(*limit, "failure")
    )]
    RetriesExhausted {
        /// Session in which the agent failed.
        session: SessionId,
        /// Provider that failed.
        provider: ProviderId,
        /// Number of consecutive failures that ends a leg.
        limit: u32,
        /// Other providers that could continue the session.
        fallbacks: Vec<ProviderId>,
    },
    /// The agent accepts no prompts yet, because of a backoff or a cooldown.
    #[error("{provider} is in cooldown until {}: {}", format_utc(*.until), .reason.description())]
    ProviderUnavailable {
        /// Session of the prompt; `None` if it does not exist yet.
        session: Option<SessionId>,
        /// Provider that accepts no prompts.
        provider: ProviderId,
        /// Time from which the provider accepts prompts.
        until: Timestamp,
        /// Reason for the wait.
        reason: WaitReason,
        /// Other providers that could continue the session.
        fallbacks: Vec<ProviderId>,
    },
    /// The session has no messages to hand off.
    #[error("session {0} has no messages to hand off")]
    NoMessages(SessionId),
    /// The provider's program is not installed at its configured path.
    #[error("program of {0} not found at its configured path")]
    NotInstalled(ProviderId),
    /// The number does not name a turn to revert to.
    #[error(transparent)]
    TurnNumber(#[from] TurnNumberError),
    /// A checkpoint cannot be shown or changed.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The part of a brief that must not be cut exceeds the budget.
    #[error(transparent)]
    Brief(#[from] BriefError),
    /// The number does not name a revert or an undo.
    #[error("head move {requested} not found: the session has {}", format_plural(*moves, "head move"))]
    NoHeadMove {
        /// Number that was requested.
        requested: i64,
        /// Number of reverts and undos in the session.
        moves: u32,
    },
    /// A native session cannot be copied, removed or restored.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// An agent's program failed to run a command on a native session.
    #[error(transparent)]
    NativeCli(#[from] NativeCliError),
    /// A native session is in use by another process.
    #[error("{id} is in use by process {pid} ({program})")]
    InUse {
        /// Id of the native session.
        id: ConversationId,
        /// Id of the process.
        pid: u32,
        /// Program that the process runs.
        program: String,
    },
    /// The agent reported a session as deleted, but the session still exists.
    #[error("{0} still exists after its agent reported it deleted")]
    NotDeleted(ConversationId),
    /// The session to restore still exists in its agent's database.
    #[error("{0} already exists")]
    AlreadyExists(ConversationId),
    /// A restored session cannot be read at its original location.
    #[error("{0} was restored, but cannot be read at its original location")]
    NotRestored(ConversationId),
    /// Only the agent's own program can do the operation, and it is not on this machine.
    #[error("program of {0} not found: only this program can delete or restore its sessions")]
    NoProgram(ProviderId),
    /// segue cannot read the sessions of this provider.
    #[error("reading `{0}` sessions is not supported")]
    ProviderUnreadable(ProviderId),
    /// The working directory of a session to restore does not exist.
    #[error("directory {0:?} does not exist")]
    DirectoryMissing(String),
    /// The working directory of the session of a scope does not exist.
    #[error("session {0} works in {1}, which no longer exists")]
    SessionDirectoryMissing(SessionId, String),
    /// Neither the archive nor the trash contains a copy of the session.
    #[error("no copy of session {0:?} found in the archive or the trash")]
    NoCopy(String),
    /// The engine has no storage for copies of sessions.
    #[error("no archive directory is configured")]
    NoArchive,
}

/// Formats a time in UTC for an error message.
pub(crate) fn format_utc(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}
