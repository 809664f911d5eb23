//! Token usage and cost by day, provider, model and project.

mod cost;
mod grouping;
mod price;
#[cfg(test)]
mod tests;

use std::ops::Add as _;

use jiff::civil::Date;

use crate::id::ProviderId;
use crate::session::{Usage, add_known};

pub use cost::Cost;
pub use grouping::{SpendGroup, SpendGroupKey, SpendGrouping, Spending};
use price::ExactCost;
pub use price::{Price, Prices};

/// Usage of one provider with one model in one project on one day.
///
/// Usage with a reported cost and usage without one are separate values, so that `cost` always covers all of `usage`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendRecord {
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

/// Sum of several [`SpendRecord`] values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpendTotal {
    /// Number of turns.
    pub turns: u64,
    /// Number of turns without reported usage.
    pub unreported_turns: u64,
    /// Usage of the other turns, without context sizes, because these cannot be added.
    pub usage: Usage,
    /// Cost of the turns, as far as it is known.
    pub cost: CostBreakdown,
}

/// Cost, with the usage for which it is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CostBreakdown {
    /// Cost that agents reported; `None` if they reported none.
    pub reported: Option<Cost>,
    /// Cost of the remaining usage by the price list. It is rounded only after summing.
    computed: Option<ExactCost>,
    /// Number of tokens without a price.
    pub unpriced_tokens: u64,
    /// Whether a turn reported neither usage nor cost.
    pub has_unreported: bool,
}

/// A cost, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostEstimate {
    /// No cost is known.
    Unknown,
    /// A minimum, because part of the usage has no price.
    Minimum(Cost),
    /// The complete cost.
    Complete(Cost),
}

impl CostBreakdown {
    /// Returns the cost by the price list of usage without a reported cost; `None` if no such usage has a price.
    #[must_use]
    pub fn computed(&self) -> Option<Cost> {
        self.computed.map(ExactCost::to_rounded_cost)
    }

    /// Returns the sum of reported and computed cost.
    #[must_use]
    pub fn estimate(&self) -> CostEstimate {
        let known_cost = add_costs(self.reported, self.computed());
        let is_complete = self.unpriced_tokens == 0 && !self.has_unreported;
        match known_cost {
            None => CostEstimate::Unknown,
            Some(cost) if is_complete => CostEstimate::Complete(cost),
            Some(cost) => CostEstimate::Minimum(cost),
        }
    }
}

impl SpendTotal {
    /// Returns the number of all tokens; `None` if no usage is known.
    #[must_use]
    pub fn tokens(&self) -> Option<u64> {
        tokens(&self.usage)
    }

    fn add_record(&mut self, record: &SpendRecord, prices: &Prices) {
        self.turns = self.turns.saturating_add(record.turns);
        let usage = &record.usage;
        let Some(tokens) = tokens(usage) else {
            self.unreported_turns = self.unreported_turns.saturating_add(record.turns);
            self.cost.reported = add_costs(self.cost.reported, record.cost);
            self.cost.has_unreported |= record.cost.is_none();
            return;
        };
        self.usage = self.usage.saturating_add(Usage {
            total_tokens: Some(tokens),
            context_tokens: None,
            context_window: None,
            ..*usage
        });
        if record.cost.is_some() {
            self.cost.reported = add_costs(self.cost.reported, record.cost);
            return;
        }
        let price = record
            .model
            .as_deref()
            .and_then(|model| prices.find_price(model));
        match price.and_then(|price| price.compute_cost(usage)) {
            Some(cost) => self.cost.computed = Some(cost.saturating_add(self.cost.computed)),
            None => self.cost.unpriced_tokens = self.cost.unpriced_tokens.saturating_add(tokens),
        }
    }
}

/// Returns the number of all tokens; `None` if no usage is known.
fn tokens(usage: &Usage) -> Option<u64> {
    let input_and_output = add_known(usage.input_tokens, usage.output_tokens);
    usage.total_tokens.or(input_and_output)
}

fn add_costs(a: Option<Cost>, b: Option<Cost>) -> Option<Cost> {
    a.into_iter().chain(b).reduce(Cost::add)
}
