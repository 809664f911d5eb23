//! Token usage and cost by day, provider, model and project.

mod cost;
mod grouping;
mod price;
#[cfg(test)]
mod tests;

use jiff::civil::Date;

use crate::id::ProviderId;
use crate::session::Usage;

pub use cost::Cost;
pub use grouping::{By, Group, Key, Spending};
use price::Exact;
pub use price::{Price, Prices};

/// Usage of one provider with one model in one project on one day.
///
/// Usage with a reported cost and usage without one are separate values, so that `cost` always covers all of `usage`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent {
    /// Day, in the time zone of the caller.
    pub day: Date,
    /// Provider that was used.
    pub provider: ProviderId,
    /// Model that was used; `None` if the agent did not report it.
    pub model: Option<String>,
    /// Key of the project; `None` if it is unknown.
    pub project: Option<String>,
    /// Number of turns.
    pub turns: u64,
    /// Tokens that the turns used.
    pub usage: Usage,
    /// Cost that the agent reported; `None` if it reported none.
    pub cost: Option<Cost>,
}

/// Sum of several [`Spent`] values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of turns.
    pub turns: u64,
    /// Number of turns without reported usage.
    pub untold: u64,
    /// Usage of the other turns, without context sizes, because these cannot be added.
    pub usage: Usage,
    /// Cost of the turns, as far as it is known.
    pub cost: Costs,
}

/// Cost, with the usage for which it is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Costs {
    /// Cost that agents reported; `None` if they reported none.
    pub reported: Option<Cost>,
    /// Cost of the remaining usage by the price list. It is rounded only after summing.
    computed: Option<Exact>,
    /// Number of tokens without a price.
    pub unpriced: u64,
    /// Whether a turn reported neither usage nor cost.
    pub lacking: bool,
}

/// A cost, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paid {
    /// No cost is known.
    Unknown,
    /// A minimum, because part of the usage has no price.
    AtLeast(Cost),
    /// The complete cost.
    All(Cost),
}

impl Costs {
    /// Returns the cost by the price list of usage without a reported cost; `None` if no such usage has a price.
    #[must_use]
    pub fn computed(&self) -> Option<Cost> {
        self.computed.map(Exact::rounded)
    }

    /// Returns the sum of reported and computed cost.
    #[must_use]
    pub fn paid(&self) -> Paid {
        let known = plus(self.reported, self.computed());
        let complete = self.unpriced == 0 && !self.lacking;
        match known {
            None => Paid::Unknown,
            Some(cost) if complete => Paid::All(cost),
            Some(cost) => Paid::AtLeast(cost),
        }
    }
}

impl Sum {
    /// Returns the number of all tokens; `None` if no usage is known.
    #[must_use]
    pub fn tokens(&self) -> Option<u64> {
        tokens(&self.usage)
    }

    fn add(&mut self, spent: &Spent, prices: &Prices) {
        self.turns = self.turns.saturating_add(spent.turns);
        let usage = &spent.usage;
        let Some(tokens) = tokens(usage) else {
            self.untold = self.untold.saturating_add(spent.turns);
            self.cost.reported = plus(self.cost.reported, spent.cost);
            self.cost.lacking |= spent.cost.is_none();
            return;
        };
        self.usage = self.usage.plus(Usage {
            total_tokens: Some(tokens),
            context_tokens: None,
            context_window: None,
            ..*usage
        });
        if spent.cost.is_some() {
            self.cost.reported = plus(self.cost.reported, spent.cost);
            return;
        }
        let price = spent.model.as_deref().and_then(|model| prices.of(model));
        match price.and_then(|price| price.of(usage)) {
            Some(cost) => self.cost.computed = Some(cost.plus(self.cost.computed)),
            None => self.cost.unpriced = self.cost.unpriced.saturating_add(tokens),
        }
    }
}

/// Returns the number of all tokens; `None` if no usage is known.
fn tokens(usage: &Usage) -> Option<u64> {
    let both = || match (usage.input_tokens, usage.output_tokens) {
        (None, None) => None,
        (input, output) => Some(input.unwrap_or(0).saturating_add(output.unwrap_or(0))),
    };
    usage.total_tokens.or_else(both)
}

fn plus(a: Option<Cost>, b: Option<Cost>) -> Option<Cost> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}
