//! What was spent: on which day, by whom, with which model, on what, and what that cost.

mod group;
mod price;
#[cfg(test)]
mod tests;

use jiff::civil::Date;

use crate::{Cost, ProviderId, Usage};

pub use group::{By, Group, Key, Spending};
use price::Exact;
pub use price::{Price, Prices};

/// What was spent by one agent with one model in one project on one day.
///
/// What an agent tells the cost of is one of these, and what it does not tell the cost of is another: so `cost` is
/// always that of all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent {
    /// The day, in the zone of whoever asks.
    pub day: Date,
    /// The agent.
    pub provider: ProviderId,
    /// The model, where it is told.
    pub model: Option<String>,
    /// What tells the project from others, where it is known.
    pub project: Option<String>,
    /// How many turns it was.
    pub turns: u64,
    /// What they used.
    pub usage: Usage,
    /// What the agent says that it cost.
    pub cost: Option<Cost>,
}

/// Several of these, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many turns.
    pub turns: u64,
    /// How many of them do not tell what they used.
    pub untold: u64,
    /// What the others used. It has no context: that is no sum.
    pub usage: Usage,
    /// What is known of the cost.
    pub cost: Costs,
}

/// What is known of a cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Costs {
    /// What agents said.
    pub reported: Option<Cost>,
    /// What the price list makes of the rest: rounded only once it is all there.
    computed: Option<Exact>,
    /// How many tokens there is no price for.
    pub unpriced: u64,
    /// Whether something else is missing: a turn that does not tell what it used.
    pub lacking: bool,
}

/// A cost, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paid {
    /// Nothing is known.
    Unknown,
    /// At least this much: some of it has no price.
    AtLeast(Cost),
    /// This much.
    All(Cost),
}

impl Costs {
    /// What the price list makes of what agents said nothing of.
    #[must_use]
    pub fn computed(&self) -> Option<Cost> {
        self.computed.map(Exact::rounded)
    }

    /// What it comes to.
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
    /// All tokens, where any are known.
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

/// All tokens, where any are known.
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
