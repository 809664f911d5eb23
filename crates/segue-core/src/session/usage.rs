//! Token counts, with the same meaning for all providers. An unknown count is `None`, never 0.

use serde::{Deserialize, Serialize};

/// Token counts from an agent. An unknown count is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "TokenUsage")
)]
pub struct Usage {
    /// Tokens that were sent to the model, including cached tokens.
    pub input_tokens: Option<u64>,
    /// Tokens that the model generated.
    pub output_tokens: Option<u64>,
    /// Input tokens that were read from a cache.
    pub cached_tokens: Option<u64>,
    /// All tokens of the turn.
    pub total_tokens: Option<u64>,
    /// Tokens of the last request, which is the current size of the model's context.
    pub context_tokens: Option<u64>,
    /// Size of the model's context window.
    pub context_window: Option<u64>,
}

impl Usage {
    /// Returns the sum of this usage and `later`. The context size and window are those of `later` if it has them.
    #[must_use]
    pub fn saturating_add(self, later: Self) -> Self {
        Self {
            input_tokens: add_known(self.input_tokens, later.input_tokens),
            output_tokens: add_known(self.output_tokens, later.output_tokens),
            cached_tokens: add_known(self.cached_tokens, later.cached_tokens),
            total_tokens: add_known(self.total_tokens, later.total_tokens),
            context_tokens: later.context_tokens.or(self.context_tokens),
            context_window: later.context_window.or(self.context_window),
        }
    }

    /// Replaces every count that `newer` contains.
    pub fn update(&mut self, newer: Self) {
        let replace = |old: &mut Option<u64>, new: Option<u64>| *old = new.or(*old);
        replace(&mut self.input_tokens, newer.input_tokens);
        replace(&mut self.output_tokens, newer.output_tokens);
        replace(&mut self.cached_tokens, newer.cached_tokens);
        replace(&mut self.total_tokens, newer.total_tokens);
        replace(&mut self.context_tokens, newer.context_tokens);
        replace(&mut self.context_window, newer.context_window);
    }
}

/// Adds two counts. An unknown count adds nothing; the sum is `None` if both are unknown.
pub(crate) fn add_known(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).reduce(u64::saturating_add)
}
