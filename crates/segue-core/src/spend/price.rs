//! Token prices, as configured by the user.

use std::collections::BTreeMap;

use crate::agent::model_prefix::find_by_model_prefix;
use crate::session::Usage;
use crate::spend::Cost;

/// Price of a model per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// Price of input tokens.
    pub input: Cost,
    /// Price of output tokens.
    pub output: Cost,
    /// Price of input tokens that come from a cache.
    pub cached: Cost,
}

impl Price {
    /// Returns the cost of a usage; `None` if its input or its output tokens are unknown.
    pub(super) fn compute_cost(&self, usage: &Usage) -> Option<ExactCost> {
        let (input, output) = (usage.input_tokens?, usage.output_tokens?);
        // Cached tokens are part of the input, but an agent may report more cached tokens than input tokens.
        let cached = usage.cached_tokens.unwrap_or(0).min(input);
        let parts = [
            (input - cached, self.input),
            (cached, self.cached),
            (output, self.output),
        ];
        let multiply =
            |(tokens, price): (u64, Cost)| u128::from(tokens) * u128::from(price.micros());
        let total = parts
            .into_iter()
            .map(multiply)
            .fold(0, u128::saturating_add);
        Some(ExactCost(total))
    }
}

/// A cost in millionths of a millionth of a dollar, because the price of a token is not an integer in larger units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExactCost(u128);

impl ExactCost {
    pub(super) fn saturating_add(self, other: Option<Self>) -> Self {
        Self(self.0.saturating_add(other.map_or(0, |cost| cost.0)))
    }

    pub(super) fn to_rounded_cost(self) -> Cost {
        let micros = self.0.saturating_add(500_000) / 1_000_000;
        Cost::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}

/// Prices of models by prefix of the model name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prices(BTreeMap<String, Price>);

impl Prices {
    /// Returns `true` if no prices are configured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the price of the longest prefix that matches the model name; `None` if there is none. A model
    /// `maker/model` also matches a prefix of `model`.
    #[must_use]
    pub fn find_price(&self, model: &str) -> Option<&Price> {
        find_by_model_prefix(&self.0, model)
    }
}

impl FromIterator<(String, Price)> for Prices {
    fn from_iter<I: IntoIterator<Item = (String, Price)>>(prices: I) -> Self {
        Self(prices.into_iter().collect())
    }
}
