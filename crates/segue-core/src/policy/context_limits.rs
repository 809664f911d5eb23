//! Limits for the context size of a native session.

use std::collections::BTreeMap;

use crate::agent::model_prefix::find_by_model_prefix;
use crate::id::ProviderId;
use crate::session::{Leg, Usage, add_known};

/// Context sizes above which a leg ends, in tokens; 0 for no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextLimits {
    /// Default limit, for providers and models that are not listed below.
    pub default_limit: u64,
    /// Limits by provider.
    pub providers: BTreeMap<ProviderId, u64>,
    /// Limits by prefix of the model name.
    pub models: BTreeMap<String, u64>,
}

impl Default for ContextLimits {
    fn default() -> Self {
        Self {
            default_limit: 350_000,
            providers: BTreeMap::new(),
            models: BTreeMap::new(),
        }
    }
}

impl ContextLimits {
    /// Returns the limit of the model, else that of the provider, else the default; `None` if there is no limit.
    #[must_use]
    pub fn limit_for(&self, provider: &ProviderId, model: Option<&str>) -> Option<u64> {
        let model_limit = model.and_then(|model| find_by_model_prefix(&self.models, model));
        let limit = model_limit.or_else(|| self.providers.get(provider));
        Some(*limit.unwrap_or(&self.default_limit)).filter(|limit| *limit > 0)
    }
}

/// Returns the context size of a leg after a turn, in tokens, if it exceeds the limit; otherwise `None`. The size is
/// that of the last request or, if the agent never reported one, the sum of all tokens spent on the leg. An unknown
/// size does not exceed the limit.
#[must_use]
pub fn context_limit_excess(leg: &Leg, turn_usage: Usage, limit: u64) -> Option<u64> {
    let context = turn_usage.context_tokens.or(leg.context_tokens);
    let spent = add_known(leg.total_tokens, turn_usage.total_tokens);
    context.or(spent).filter(|size| *size > limit)
}
