//! Why the engine could not do what it was asked.

use jiff::Timestamp;
use segue_agents::OwnError;
use segue_catalog::{KeepError, ReadError};
use segue_core::{BriefError, Pause, ProviderId, SessionId, TurnNumberError};
use segue_store::StoreError;

use crate::{CheckpointError, ConversationId, Fitting, Obstacle};

/// Why a call failed before, or apart from, a turn. A turn that fails is reported as such.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store could not do its part.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No session fits what was asked for.
    #[error("no session matches {0:?}")]
    NoMatch(String),
    /// The last list has no such number.
    #[error("there is no number {number} in the last list of this project")]
    NoNumber {
        /// What was asked for.
        number: usize,
        /// How many there were.
        listed: usize,
    },
    /// What a list named is not there any more.
    #[error("{0} was in the last list, and is not there any more")]
    Gone(String),
    /// A native session that the index remembers is gone at its agent, and in no archive.
    #[error("{0} is not there any more: its agent deleted it, and there is no copy of it")]
    Deleted(String),
    /// Several sessions fit.
    #[error("{text:?} matches {} sessions", .candidates.len())]
    Ambiguous {
        /// What was asked for.
        text: String,
        /// Which fit.
        candidates: Vec<Fitting>,
    },
    /// What was meant is there, but only as a native session.
    #[error("{0} is a session of {provider} itself, and none of segue's yet", provider = .0.provider())]
    OnlyNative(ConversationId),
    /// A conversation can't go on in the agent's own program.
    #[error("{id} can't go on in the agent's own program: {why}")]
    Stays {
        /// Which.
        id: ConversationId,
        /// Why not.
        why: Obstacle,
    },
    /// A native session can't be read.
    #[error(transparent)]
    Native(#[from] ReadError),
    /// The index of the catalog can't be used.
    #[error(transparent)]
    Index(segue_catalog::index::IndexError),
    /// There is no index to search.
    #[error("this engine has no index, and without one nothing can be searched")]
    NoIndex,
    /// The provider is not one that can be driven.
    #[error("provider {provider} can't be driven by this segue")]
    UnknownProvider {
        /// The one asked for.
        provider: ProviderId,
        /// Those that can.
        known: Vec<ProviderId>,
    },
    /// There is nobody to talk to.
    #[error("there is no agent")]
    NoAgents,
    /// One leg after another ended by errors, and no further one is opened by itself.
    #[error(
        "{provider} failed {limit} times in a row in session {session}, and as often again in a new native session"
    )]
    Hopeless {
        /// The session.
        session: SessionId,
        /// The agent.
        provider: ProviderId,
        /// How many failures in a row end a leg.
        limit: u32,
        /// Who could go on instead.
        others: Vec<ProviderId>,
    },
    /// An agent is not to be asked yet.
    #[error("{provider} is not asked before {}: {}", moment(*.until), .why.words())]
    NotYet {
        /// The session, if there is one already.
        session: Option<SessionId>,
        /// The agent.
        provider: ProviderId,
        /// When it can be asked.
        until: Timestamp,
        /// Why not now.
        why: Pause,
        /// Who could go on instead.
        others: Vec<ProviderId>,
    },
    /// There is nothing to hand over.
    #[error("nothing was said in session {0} that another agent could be told")]
    NothingSaid(SessionId),
    /// The provider's program is not on this machine.
    #[error("the program of {0} is not where it is configured to be")]
    NotInstalled(ProviderId),
    /// The number does not name a turn to go back to.
    #[error(transparent)]
    TurnNumber(#[from] TurnNumberError),
    /// A checkpoint can't be shown or changed.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// What a new native session has to be told is too much.
    #[error(transparent)]
    Brief(#[from] BriefError),
    /// The number does not name a revert or an undo.
    #[error("there is no move {asked}; the session was reverted or undone {moves} time(s)")]
    NoMove {
        /// What was asked for.
        asked: i64,
        /// How many there are.
        moves: u32,
    },
    /// A session can't be copied, removed or put back.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// An agent's program did not do what it was asked to do with a session.
    #[error(transparent)]
    Own(#[from] OwnError),
    /// Somebody is at work in a native session.
    #[error("{id} is in use by process {pid} ({program})")]
    InUse {
        /// Which.
        id: ConversationId,
        /// The process.
        pid: u32,
        /// Its program.
        program: String,
    },
    /// The agent said that it deleted a session, and it is there.
    #[error("{0} is still there, though its agent was told to delete it")]
    StillThere(ConversationId),
    /// A session that only its agent can take back is there.
    #[error("{0} is there already")]
    There(ConversationId),
    /// A session was put back, and is not there.
    #[error("{0} was put back, and can't be read where it was")]
    NotBack(ConversationId),
    /// Only the agent itself can do it, and it is not on this machine.
    #[error(
        "only the program of {0} can do that with its sessions, and it was not found on this machine"
    )]
    NoProgram(ProviderId),
    /// Nobody reads the sessions of this agent.
    #[error("nobody here reads sessions of {0}")]
    Unread(ProviderId),
    /// The directory that a session works in is gone.
    #[error("the directory {0:?} is not there")]
    NoDirectory(String),
    /// The directory that the session of a scope works in is gone.
    #[error("session {0} works in {1}, which is not there")]
    NoDirectoryOf(SessionId, String),
    /// There is no copy of such a session.
    #[error("there is no copy of a session {0:?}, neither in the archive nor in the trash")]
    NoCopy(String),
    /// This engine keeps no copies.
    #[error("there is no place for copies of sessions")]
    NoUpkeep,
}

/// A moment, in words.
pub(crate) fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}
