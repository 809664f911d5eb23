//! Deletion, archiving and restoring of conversations.
//!
//! No single command loses data: before segue removes data of an agent, it copies that data to the trash, unless the
//! user requests permanent deletion. A conversation that another process uses is not changed.

mod copies;
mod delete;

use std::path::PathBuf;
use std::sync::Arc;

use segue_catalog::{Archive, ArchivedSession, NativeSession, SessionArtifacts, Trash};
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{Decision, Session, SkipReason};
use segue_providers::NativeCli;
use segue_providers::busy::ProcessUsingSession;

use crate::context::EngineContext;
use crate::library::Library;
use crate::native::storage_provider;
use crate::resolve::Resolver;
use crate::{AccessError, ConversationId, UpkeepError};

/// Locations of the copies, and the agents' programs that manage sessions.
#[derive(Debug, Clone)]
pub struct ArchiveService {
    /// Copies that the user requested.
    pub archive: Archive,
    /// Copies of deleted sessions.
    pub trash: Trash,
    /// Directory of the files that agents import during a restore.
    pub exports_dir: PathBuf,
    /// Directory of the copies that only protect running sessions.
    pub guard_dir: PathBuf,
    /// Programs of the agents that have commands for their sessions.
    pub native_clis: Vec<NativeCli>,
}

/// Scope of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteScope {
    /// segue's record and the native sessions.
    Everything,
    /// Only the native sessions.
    Native,
}

/// Mode of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteMode {
    /// A copy is saved in the trash.
    Trash,
    /// The session and all its copies are removed.
    Purge,
}

/// Method of deleting a native session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeleteMethod {
    /// A command of the agent.
    AgentCommand(String),
    /// Removal of the files.
    Files,
    /// Removal of the copy, because only the archive has the session.
    ArchiveCopy,
    /// No method, because only the agent could delete the session and its program is not installed.
    NoProgram,
}

/// A native session that is to be deleted.
#[derive(Debug, Clone)]
pub struct PlannedDeletion {
    /// The native session.
    pub session: NativeSession,
    /// Files and rows that belong to the session. `None` if only the archive has it.
    pub artifacts: Option<SessionArtifacts>,
    /// Method of the deletion.
    pub method: DeleteMethod,
    /// Process that uses the session. `None` if none was found.
    pub process: Option<ProcessUsingSession>,
    /// Seconds since the last write, if it is so recent that a process may be using the session.
    pub seconds_since_write: Option<i64>,
    /// Whether the archive has a copy as well.
    pub is_archived: bool,
}

impl PlannedDeletion {
    /// Returns the id of the native session.
    #[must_use]
    pub fn id(&self) -> ConversationId {
        ConversationId::from(&self.session)
    }
}

/// A native session that is not deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedNative {
    /// Agent of the session.
    pub provider: ProviderId,
    /// Native id of the session.
    pub id: NativeId,
    /// Reason why the session is not deleted.
    pub reason: SkipReason,
}

/// Plan of a deletion.
#[derive(Debug, Clone)]
pub struct DeletePlan {
    /// The session of segue. `None` if the conversation is only a native session.
    pub session: Option<Session>,
    /// Native sessions to delete.
    pub natives: Vec<PlannedDeletion>,
    /// Sessions of the built-in agent with their files. These files belong to segue and get no copy, because no program
    /// could read it.
    pub rehearsal_files: Vec<(NativeId, PathBuf)>,
    /// Native sessions that are not deleted.
    pub skipped: Vec<SkippedNative>,
    /// Scope of the deletion.
    pub scope: DeleteScope,
    /// Mode of the deletion.
    pub mode: DeleteMode,
}

impl DeletePlan {
    /// Returns `true` if the deletion cannot be undone although the mode is [`DeleteMode::Trash`], because no native
    /// session is copied.
    #[must_use]
    pub fn has_no_copies(&self) -> bool {
        self.mode == DeleteMode::Trash && self.natives.is_empty()
    }

    /// Returns `true` if the plan deletes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let deletes_record = self.session.is_some() && self.scope == DeleteScope::Everything;
        !deletes_record && self.natives.is_empty() && self.rehearsal_files.is_empty()
    }
}

/// Result of a deletion.
#[derive(Debug, Clone)]
pub struct DeleteOutcome {
    /// Deleted native sessions, each with the method and the path of its copy.
    pub natives: Vec<(ConversationId, DeleteMethod, Option<PathBuf>)>,
    /// Decisions that segue made during the deletion.
    pub decisions: Vec<Decision>,
}

/// Result of a restore.
#[derive(Debug, Clone)]
pub struct RestoreOutcome {
    /// Copy that was restored.
    pub entry: ArchivedSession,
    /// Files that were restored.
    pub files: Vec<PathBuf>,
    /// Files that already existed.
    pub existing_files: Vec<PathBuf>,
    /// Number of sessions that the agent imported itself.
    pub imported_count: usize,
    /// Session of segue that uses the restored native session, with its old title and tags. `None` if there is none.
    pub session: Option<Session>,
}

/// Component that deletes, archives and restores conversations.
#[derive(Clone)]
pub struct Upkeep {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) library: Library,
    pub(crate) resolver: Resolver,
}

impl Upkeep {
    pub(crate) fn new(
        context: &Arc<EngineContext>,
        library: &Library,
        resolver: &Resolver,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            library: library.clone(),
            resolver: resolver.clone(),
        }
    }

    /// Returns the native sessions of an agent with this id, live ones before copies.
    async fn find_natives(
        &self,
        provider: &ProviderId,
        id: &NativeId,
    ) -> Result<Vec<NativeSession>, AccessError> {
        let qualified_id = format!("{}:{id}", storage_provider(provider));
        let entries = self.context.natives.lookup_natives(&qualified_id).await?;
        let sessions = entries.into_iter().map(|native| native.session);
        Ok(sessions.filter(|session| session.head.id == *id).collect())
    }

    fn archive_service(&self) -> Result<&ArchiveService, UpkeepError> {
        self.context
            .archive_service
            .as_ref()
            .ok_or(UpkeepError::NoArchive)
    }
}

impl ArchiveService {
    /// Returns the program of an agent that has commands for its sessions.
    fn native_cli(&self, agent: &ProviderId) -> Option<&NativeCli> {
        self.native_clis
            .iter()
            .find(|cli| cli.agent() == agent.as_str())
    }
}
