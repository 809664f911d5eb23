//! Deletion, archiving and restoring of conversations.
//!
//! No single command loses data: before segue removes data of an agent, it copies that data to the trash, unless the
//! user requests permanent deletion. A conversation that another process uses is not changed.

mod busy;
mod delete;
mod keep;

use std::path::PathBuf;

use segue_agents::Own;
use segue_agents::busy::Busy;
use segue_catalog::{Archive, Belongings, Entry, NativeSession, Trash};
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{Decision, Session};

use crate::{ConversationId, Engine, EngineError};

/// Locations of the copies, and the agents' programs that manage sessions.
#[derive(Debug, Clone)]
pub struct Upkeep {
    /// Copies that the user requested.
    pub archive: Archive,
    /// Copies of deleted sessions.
    pub trash: Trash,
    /// Directory of the files that agents import during a restore.
    pub exports: PathBuf,
    /// Directory of the copies that only protect running sessions.
    pub kept: PathBuf,
    /// Programs of the agents that have commands for their sessions.
    pub own: Vec<Own>,
}

/// Scope of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// segue's record and the native sessions.
    Everything,
    /// Only the native sessions.
    Native,
}

/// Mode of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// A copy is saved in the trash.
    Trash,
    /// The session and all its copies are removed.
    Purge,
}

/// Method of deleting a native session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Means {
    /// A command of the agent.
    Own(String),
    /// Removal of the files.
    Files,
    /// Removal of the copy, because only the archive has the session.
    Copy,
    /// No method, because only the agent could delete the session and its program is not installed.
    NoProgram,
}

/// A native session that is to be deleted.
#[derive(Debug, Clone)]
pub struct Doomed {
    /// The native session.
    pub session: NativeSession,
    /// Files and rows that belong to the session. `None` if only the archive has it.
    pub belongings: Option<Belongings>,
    /// Method of the deletion.
    pub means: Means,
    /// Process that uses the session. `None` if none was found.
    pub busy: Option<Busy>,
    /// Seconds since the last write, if it is so recent that a process may be using the session.
    pub fresh: Option<i64>,
    /// Whether the archive has a copy as well.
    pub archived: bool,
}

impl Doomed {
    /// Returns the id of the native session.
    #[must_use]
    pub fn id(&self) -> ConversationId {
        ConversationId::Native(self.session.provider.clone(), self.session.head.id.clone())
    }
}

/// A native session that is not deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spared {
    /// Agent of the session.
    pub provider: ProviderId,
    /// Native id of the session.
    pub id: NativeId,
    /// Reason why the session is not deleted.
    pub why: String,
}

/// Plan of a deletion.
#[derive(Debug, Clone)]
pub struct DeletePlan {
    /// The session of segue. `None` if the conversation is only a native session.
    pub session: Option<Session>,
    /// Native sessions to delete.
    pub natives: Vec<Doomed>,
    /// Sessions of the built-in agent with their files. These files belong to segue and get no copy, because no program
    /// could read it.
    pub rehearsed: Vec<(NativeId, PathBuf)>,
    /// Native sessions that are not deleted.
    pub spared: Vec<Spared>,
    /// Scope of the deletion.
    pub extent: Extent,
    /// Mode of the deletion.
    pub fate: Fate,
}

impl DeletePlan {
    /// Returns `true` if the deletion cannot be undone although the mode is [`Fate::Trash`], because no native session
    /// is copied.
    #[must_use]
    pub fn keeps_nothing(&self) -> bool {
        self.fate == Fate::Trash && self.natives.is_empty()
    }

    /// Returns `true` if the plan deletes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let record = self.session.is_some() && self.extent == Extent::Everything;
        !record && self.natives.is_empty() && self.rehearsed.is_empty()
    }
}

/// Result of a deletion.
#[derive(Debug, Clone)]
pub struct Deleted {
    /// Deleted native sessions, each with the method and the path of its copy.
    pub natives: Vec<(ConversationId, Means, Option<PathBuf>)>,
    /// Decisions that segue made during the deletion.
    pub decisions: Vec<Decision>,
}

/// Result of a restore.
#[derive(Debug, Clone)]
pub struct Restored {
    /// Copy that was restored.
    pub entry: Entry,
    /// Files that were restored.
    pub files: Vec<PathBuf>,
    /// Files that already existed.
    pub there: Vec<PathBuf>,
    /// Number of sessions that the agent imported itself.
    pub taken_back: usize,
    /// Session of segue that uses the restored native session, with its old title and tags. `None` if there is none.
    pub session: Option<Session>,
}

impl Engine {
    /// Enables the deletion and archiving of native sessions.
    #[must_use]
    pub fn with_upkeep(mut self, upkeep: Upkeep) -> Self {
        self.upkeep = Some(upkeep);
        self
    }

    fn upkeep(&self) -> Result<&Upkeep, EngineError> {
        self.upkeep.as_ref().ok_or(EngineError::NoUpkeep)
    }
}

impl Upkeep {
    /// Returns the program of an agent that has commands for its sessions.
    fn own(&self, agent: &ProviderId) -> Option<&Own> {
        self.own.iter().find(|own| own.agent() == agent.as_str())
    }
}
