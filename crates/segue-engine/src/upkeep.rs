//! Deleting conversations, keeping copies of them, and bringing those back.
//!
//! Nothing is lost by one command: before anything of an agent's is removed there is a copy of it in the trash, unless a
//! person wants it gone for good. What somebody is at work in is left alone.

mod busy;
mod delete;
mod keep;

use std::path::PathBuf;

use segue_agents::Own;
use segue_agents::busy::Busy;
use segue_catalog::{Archive, Belongings, Entry, NativeSession, Trash};
use segue_core::{Decision, NativeId, ProviderId, Session};

use crate::{ConversationId, Engine, EngineError};

/// Where copies are, and who can help.
#[derive(Debug, Clone)]
pub struct Upkeep {
    /// Copies that a person wanted.
    pub archive: Archive,
    /// Copies of what was deleted.
    pub trash: Trash,
    /// Where agents are handed what they are to take back.
    pub exports: PathBuf,
    /// Where copies are that only protect running sessions.
    pub kept: PathBuf,
    /// The agents' own programs, for those that have commands for their sessions.
    pub own: Vec<Own>,
}

/// What is to be deleted of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// segue's record of it, and the agents' own sessions.
    Everything,
    /// Only the agents' own sessions.
    Native,
}

/// What becomes of what is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// A copy is kept in the trash.
    Trash,
    /// It is gone, with all copies.
    Purge,
}

/// How a native session is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Means {
    /// By a command of its agent.
    Own(String),
    /// By removing its files.
    Files,
    /// Only a copy is left of it, and that goes.
    Copy,
    /// Only its agent could, whose program is not there.
    NoProgram,
}

/// A native session that is to be deleted.
#[derive(Debug, Clone)]
pub struct Doomed {
    /// Which.
    pub session: NativeSession,
    /// What belongs to it; nothing of one that only the archive has.
    pub belongings: Option<Belongings>,
    /// How.
    pub means: Means,
    /// Who is at work in it.
    pub busy: Option<Busy>,
    /// How many seconds ago it was written to, if that is so recent that somebody may be at work in it.
    pub fresh: Option<i64>,
    /// Whether the archive has a copy too.
    pub archived: bool,
}

impl Doomed {
    /// What it is called.
    #[must_use]
    pub fn id(&self) -> ConversationId {
        ConversationId::Native(self.session.provider.clone(), self.session.head.id.clone())
    }
}

/// A native session that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spared {
    /// Its agent.
    pub provider: ProviderId,
    /// What the agent calls it.
    pub id: NativeId,
    /// Why.
    pub why: String,
}

/// What deleting a conversation comes to.
#[derive(Debug, Clone)]
pub struct DeletePlan {
    /// segue's own session that it is about.
    pub session: Option<Session>,
    /// The native sessions that are.
    pub natives: Vec<Doomed>,
    /// Those of the built-in agent, each with its file. That is ours, and nobody could read a copy of it.
    pub rehearsed: Vec<(NativeId, PathBuf)>,
    /// Those that stay.
    pub spared: Vec<Spared>,
    /// Whether the record of the session goes too.
    pub extent: Extent,
    /// What becomes of it all.
    pub fate: Fate,
}

impl DeletePlan {
    /// Whether nothing of what goes is brought back by anything, although it was not asked to be gone for good.
    #[must_use]
    pub fn keeps_nothing(&self) -> bool {
        self.fate == Fate::Trash && self.natives.is_empty()
    }

    /// Whether there is nothing to delete.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let record = self.session.is_some() && self.extent == Extent::Everything;
        !record && self.natives.is_empty() && self.rehearsed.is_empty()
    }
}

/// What was deleted.
#[derive(Debug, Clone)]
pub struct Deleted {
    /// The native sessions, each with where its copy is.
    pub natives: Vec<(ConversationId, Means, Option<PathBuf>)>,
    /// What segue decided by itself on the way.
    pub decisions: Vec<Decision>,
}

/// What was brought back.
#[derive(Debug, Clone)]
pub struct Restored {
    /// The copy it came from.
    pub entry: Entry,
    /// The files that are there again.
    pub files: Vec<PathBuf>,
    /// Those that were there all the time.
    pub there: Vec<PathBuf>,
    /// How many sessions the agent took back itself.
    pub taken_back: usize,
    /// The session of segue's own that it carries again, under its old title and tags.
    pub session: Option<Session>,
}

impl Engine {
    /// The same engine, which can delete native sessions and keep copies of them.
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
    /// The program of an agent that has commands for its sessions.
    fn own(&self, agent: &ProviderId) -> Option<&Own> {
        self.own.iter().find(|own| own.agent() == agent.as_str())
    }
}
