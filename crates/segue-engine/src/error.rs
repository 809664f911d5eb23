//! Why the engine could not do what it was asked.

use segue_catalog::ReadError;
use segue_core::{ProviderId, TurnNumberError};
use segue_store::StoreError;

use crate::{ConversationId, Fitting, Obstacle};

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
    /// The number does not name a turn to go back to.
    #[error(transparent)]
    TurnNumber(#[from] TurnNumberError),
}
