//! Why the engine could not do what it was asked.

use segue_core::{ProviderId, SessionId, TurnNumberError};
use segue_store::StoreError;

/// Why a call failed before, or apart from, a turn. A turn that fails is reported as such.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store could not do its part.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No session fits what was asked for.
    #[error("no session matches {0:?}")]
    NoMatch(String),
    /// Several sessions fit.
    #[error("{text:?} matches {} sessions", .candidates.len())]
    Ambiguous {
        /// What was asked for.
        text: String,
        /// Which fit.
        candidates: Vec<SessionId>,
    },
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
