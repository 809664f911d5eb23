//! Errors of the engine: one type for each component, and their union for callers that use several.

use jiff::Timestamp;
use segue_catalog::index::IndexError;
use segue_catalog::{ArchiveError, ReadError};
use segue_core::brief::BriefError;
use segue_core::id::{ProviderId, SessionId};
use segue_core::number_format::format_plural;
use segue_core::scope::RoleName;
use segue_core::session::{PromptRefusal, TurnNumberError};
use segue_providers::NativeCliError;
use segue_store::StoreError;

use crate::{CheckpointError, ConversationId, NativeResumeError, SessionMatch};

/// Reason why the store, an agent or a native session cannot be accessed. Every component can fail with it.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A native session cannot be read.
    #[error(transparent)]
    NativeRead(#[from] ReadError),
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
}

/// Reason why conversations cannot be listed, shown or searched.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The store, an agent or a native session cannot be accessed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The index of the catalog cannot be used.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The engine has no index to search.
    #[error("cannot search: no session index is configured")]
    NoIndex,
    /// The conversation has no turn with this number.
    #[error(transparent)]
    TurnNumber(#[from] TurnNumberError),
}

/// Reason why the session for a reference or a request cannot be determined.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The store, an agent or a native session cannot be accessed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// Conversations cannot be listed.
    #[error(transparent)]
    Library(LibraryError),
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
    /// The engine has no agent.
    #[error("no agent found")]
    NoAgents,
    /// The working directory of the session of a scope does not exist.
    #[error("session {0} works in {1}, which no longer exists")]
    SessionDirectoryMissing(SessionId, String),
}

/// Reason why a brief or a compaction cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The store, an agent or a native session cannot be accessed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The part of a brief that must not be cut exceeds the budget.
    #[error(transparent)]
    Brief(#[from] BriefError),
}

/// Reason why a session cannot be compacted, or a checkpoint cannot be shown or changed.
#[derive(Debug, thiserror::Error)]
pub enum CompactionError {
    /// The store, an agent or a native session cannot be accessed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The compaction cannot be planned.
    #[error(transparent)]
    Plan(PlanError),
    /// A checkpoint cannot be shown or changed.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

/// Reason why no turn ran, or why its record could not be written. A failed turn is not an error, but a report.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// The store, an agent or a native session cannot be accessed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The session for the prompt cannot be determined.
    #[error(transparent)]
    Resolve(ResolveError),
    /// The brief for the agent cannot be planned.
    #[error(transparent)]
    Plan(PlanError),
    /// The agent failed too often, or accepts no prompts yet.
    #[error("{}", format_refusal(.provider, .refusal))]
    PromptRefused {
        /// Session of the prompt; `None` if it does not exist yet.
        session: Option<SessionId>,
        /// Provider that was to receive the prompt.
        provider: ProviderId,
        /// Reason for the refusal.
        refusal: PromptRefusal,
        /// Other providers that could continue the session.
        fallbacks: Vec<ProviderId>,
    },
}

/// Reason why a session cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The store, an agent or a native session cannot be accessed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The number does not name a turn to revert to.
    #[error(transparent)]
    TurnNumber(#[from] TurnNumberError),
    /// The number does not name a revert or an undo.
    #[error("head move {requested} not found: the session has {}", format_plural(*moves, "head move"))]
    NoHeadMove {
        /// Number that was requested.
        requested: i64,
        /// Number of reverts and undos in the session.
        moves: u32,
    },
    /// The session has no messages to hand off.
    #[error("session {0} has no messages to hand off")]
    NoMessages(SessionId),
    /// The provider's program is not installed at its configured path.
    #[error("program of {0} not found at its configured path")]
    NotInstalled(ProviderId),
}

/// Reason why a conversation cannot be deleted, archived or restored.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// The store, an agent or a native session cannot be accessed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The session that a text means cannot be determined.
    #[error(transparent)]
    Resolve(ResolveError),
    /// A native session cannot be copied, removed or restored.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// An agent's program failed to run a command on a native session.
    #[error(transparent)]
    NativeCli(#[from] NativeCliError),
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
    /// Neither the archive nor the trash contains a copy of the session.
    #[error("no copy of session {0:?} found in the archive or the trash")]
    NoCopy(String),
    /// The engine has no storage for copies of sessions.
    #[error("no archive directory is configured")]
    NoArchive,
}

/// Reason why a call to a component failed. Each cause has one position: conversions unwrap nested errors.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store, an agent or a native session cannot be accessed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// Conversations cannot be listed, shown or searched.
    #[error(transparent)]
    Library(LibraryError),
    /// The session for a reference or a request cannot be determined.
    #[error(transparent)]
    Resolve(ResolveError),
    /// A brief or a compaction cannot be planned.
    #[error(transparent)]
    Plan(PlanError),
    /// A session cannot be compacted, or a checkpoint cannot be shown or changed.
    #[error(transparent)]
    Compaction(CompactionError),
    /// No turn ran, or its record could not be written.
    #[error(transparent)]
    Turn(TurnError),
    /// A session cannot be changed.
    #[error(transparent)]
    Session(SessionError),
    /// A conversation cannot be deleted, archived or restored.
    #[error(transparent)]
    Upkeep(UpkeepError),
}

/// Implements the conversions of errors that access to the store and to native sessions can cause.
macro_rules! convert_access_errors {
    ($($error:ident),+ $(,)?) => {$(
        impl From<StoreError> for $error {
            fn from(error: StoreError) -> Self {
                Self::Access(error.into())
            }
        }

        impl From<ReadError> for $error {
            fn from(error: ReadError) -> Self {
                Self::Access(error.into())
            }
        }
    )+};
}

convert_access_errors!(
    LibraryError,
    ResolveError,
    PlanError,
    CompactionError,
    TurnError,
    SessionError,
    UpkeepError,
    EngineError,
);

/// Implements the conversion of an error into one that contains it. The causes in braces, which both errors can have,
/// keep their position.
macro_rules! convert_nested_errors {
    ($($inner:ident { $($shared:ident),+ } => $outer:ident::$variant:ident),+ $(,)?) => {$(
        impl From<$inner> for $outer {
            fn from(error: $inner) -> Self {
                match error {
                    $($inner::$shared(cause) => cause.into(),)+
                    error => Self::$variant(error),
                }
            }
        }
    )+};
}

convert_nested_errors!(
    LibraryError { Access } => ResolveError::Library,
    ResolveError { Access } => TurnError::Resolve,
    ResolveError { Access } => UpkeepError::Resolve,
    PlanError { Access } => CompactionError::Plan,
    PlanError { Access } => TurnError::Plan,
    PlanError { Access } => EngineError::Plan,
    LibraryError { Access } => EngineError::Library,
    ResolveError { Access, Library } => EngineError::Resolve,
    CompactionError { Access, Plan } => EngineError::Compaction,
    TurnError { Access, Resolve, Plan } => EngineError::Turn,
    SessionError { Access } => EngineError::Session,
    UpkeepError { Access, Resolve } => EngineError::Upkeep,
);

fn format_refusal(provider: &ProviderId, refusal: &PromptRefusal) -> String {
    match refusal {
        PromptRefusal::RetriesExhausted { session, limit } => {
            let failures = format_plural(*limit, "failure");
            format!(
                "{provider} failed too often in session {session}: {failures} in a row, \
                 and {limit} more in a new native session"
            )
        }
        PromptRefusal::Unavailable { until, reason } => format!(
            "{provider} is in cooldown until {}: {}",
            format_utc(*until),
            reason.description()
        ),
    }
}

/// Formats a time in UTC for an error message.
pub(crate) fn format_utc(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}
