//! Token usage and cost.

use jiff::Timestamp;
use jiff::civil::Date;
use schemars::JsonSchema;
use segue_core::spend::SpendGrouping;
use serde::{Deserialize, Serialize};

use crate::index::UnreadableFiles;

/// Token usage and cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatsReport {
    /// The grouping: one or two criteria.
    pub by: Vec<SpendGrouping>,
    /// Start of the period; null for all times.
    pub since: Option<Timestamp>,
    /// Time zone of the days: an IANA name, or an offset such as `UTC-05`.
    pub zone: String,
    /// The groups: periods in chronological order, other groups by size, largest first.
    pub groups: Vec<StatsGroup>,
    /// Numbers of all groups together.
    pub total: StatsNumbers,
    /// Sources that could not be read.
    pub unreadable: Vec<UnreadableFiles>,
}

/// A group of turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatsGroup {
    /// Key of the group, in a field with the name of the grouping.
    #[serde(flatten)]
    pub key: StatsGroupKey,
    /// Numbers of the group.
    #[serde(flatten)]
    pub numbers: StatsNumbers,
    /// Groups by the second criterion; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<StatsGroup>>,
}

/// Key of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StatsGroupKey {
    /// A day.
    Day(Date),
    /// A week, by its Monday.
    Week(Date),
    /// A month, such as `2026-11`.
    Month(String),
    /// An agent.
    Provider(Option<String>),
    /// A model; null if it is unknown.
    Model(Option<String>),
    /// A project; null if it is unknown.
    Project(Option<String>),
}

/// Numbers of a group, or of all groups together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatsNumbers {
    /// Number of turns.
    pub turns: u64,
    /// Number of tokens that were sent to models, including cached tokens.
    pub input_tokens: Option<u64>,
    /// Number of input tokens that were read from a cache.
    pub cached_tokens: Option<u64>,
    /// Number of tokens that models generated.
    pub output_tokens: Option<u64>,
    /// Number of all tokens.
    pub total_tokens: Option<u64>,
    /// Fraction of all tokens, from 0 to 1.
    pub share: Option<f64>,
    /// Cost in US dollars; null if it is unknown.
    pub cost_usd: Option<f64>,
    /// Whether the complete cost is known. If not, `cost_usd` is a minimum.
    pub cost_complete: bool,
    /// Part of the cost that agents reported.
    pub reported_usd: Option<f64>,
    /// Number of tokens without a price.
    pub unpriced_tokens: u64,
    /// Number of turns without reported usage.
    pub untold_turns: u64,
}
