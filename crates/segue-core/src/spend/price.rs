//! What tokens cost, as the user wrote it down.

use std::collections::BTreeMap;

use crate::model::of_model;
use crate::{Cost, Usage};

/// What a model costs, each for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// What is sent to it.
    pub input: Cost,
    /// What it writes.
    pub output: Cost,
    /// What is sent to it and comes from a cache.
    pub cached: Cost,
}

impl Price {
    /// What this usage costs. Unknown, if it does not tell both what was sent and what was written.
    pub(super) fn of(&self, usage: &Usage) -> Option<Exact> {
        let (input, output) = (usage.input_tokens?, usage.output_tokens?);
        // Cached tokens are among those that were sent; an agent may tell of more of them than it sent.
        let cached = usage.cached_tokens.unwrap_or(0).min(input);
        let parts = [
            (input - cached, self.input),
            (cached, self.cached),
            (output, self.output),
        ];
        let times = |(tokens, price): (u64, Cost)| u128::from(tokens) * u128::from(price.micros());
        let sum = parts.into_iter().map(times).fold(0, u128::saturating_add);
        Some(Exact(sum))
    }
}

/// A cost in millionths of a millionth of a dollar: what a token costs is no whole number of anything larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exact(u128);

impl Exact {
    pub(super) fn plus(self, other: Option<Self>) -> Self {
        Self(self.0.saturating_add(other.map_or(0, |other| other.0)))
    }

    pub(super) fn rounded(self) -> Cost {
        let micros = self.0.saturating_add(500_000) / 1_000_000;
        Cost::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}

/// The prices of models, by how their names begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prices(BTreeMap<String, Price>);

impl Prices {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The price of a model: that of the longest name it begins with. `maker/model` also goes by `model`.
    #[must_use]
    pub fn of(&self, model: &str) -> Option<&Price> {
        of_model(&self.0, model)
    }
}

impl FromIterator<(String, Price)> for Prices {
    fn from_iter<I: IntoIterator<Item = (String, Price)>>(prices: I) -> Self {
        Self(prices.into_iter().collect())
    }
}
