//! How much context a native session may hold.

use std::collections::BTreeMap;

use crate::model::of_model;
use crate::{Leg, ProviderId, Usage};

/// The sizes above which a leg is over, in tokens; 0 is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextLimits {
    /// For all that is not named below.
    pub usual: u64,
    /// For an agent.
    pub providers: BTreeMap<ProviderId, u64>,
    /// For a model, by how its name begins.
    pub models: BTreeMap<String, u64>,
}

impl Default for ContextLimits {
    fn default() -> Self {
        Self {
            usual: 350_000,
            providers: BTreeMap::new(),
            models: BTreeMap::new(),
        }
    }
}

impl ContextLimits {
    /// The limit of a model, else of its agent, else the usual one; none if there is none.
    #[must_use]
    pub fn of(&self, provider: &ProviderId, model: Option<&str>) -> Option<u64> {
        let of_model = model.and_then(|model| of_model(&self.models, model));
        let limit = of_model.or_else(|| self.providers.get(provider));
        Some(*limit.unwrap_or(&self.usual)).filter(|limit| *limit > 0)
    }
}

/// How many tokens a leg holds after a turn, if that is more than it may hold: the size of its last request, or, where
/// its agent never told one, all that was spent on it. What is not known is not too much.
#[must_use]
pub fn is_full(leg: &Leg, turn: Usage, limit: u64) -> Option<u64> {
    let context = turn.context_tokens.or(leg.context_tokens);
    let spent = match (leg.total_tokens, turn.total_tokens) {
        (None, None) => None,
        (before, now) => Some(before.unwrap_or(0).saturating_add(now.unwrap_or(0))),
    };
    context.or(spent).filter(|size| *size > limit)
}
