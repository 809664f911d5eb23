//! Sums of usage by day, provider, model and so on.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::civil::Date;

use super::{Prices, SpendRecord, SpendTotal};
use crate::enum_names::named_enum;

named_enum! {
    /// Criterion by which usage is grouped.
    pub enum SpendGrouping {
        /// Usage on one day.
        Day => "day",
        /// Usage in one week, which begins on Monday.
        Week => "week",
        /// Usage in one month.
        Month => "month",
        /// Usage of one provider.
        Provider => "provider",
        /// Usage of one model.
        Model => "model",
        /// Usage in one project.
        Project => "project",
    }
}

impl SpendGrouping {
    /// Returns `true` if the criterion is a period of time.
    #[must_use]
    pub fn is_period(self) -> bool {
        matches!(self, Self::Day | Self::Week | Self::Month)
    }

    fn group_key(self, record: &SpendRecord) -> SpendGroupKey {
        let day = record.day;
        match self {
            Self::Day => SpendGroupKey::Time(day),
            Self::Week => {
                let since_monday = i64::from(day.weekday().to_monday_zero_offset());
                // The first days of the calendar have no Monday before them.
                let monday = day.checked_sub(jiff::Span::new().days(since_monday));
                SpendGroupKey::Time(monday.unwrap_or(day))
            }
            Self::Month => SpendGroupKey::Time(day.first_of_month()),
            Self::Provider => SpendGroupKey::Name(Some(record.provider.to_string())),
            Self::Model => SpendGroupKey::Name(record.model.clone()),
            Self::Project => SpendGroupKey::Name(record.project.clone()),
        }
    }
}

/// Key of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpendGroupKey {
    /// First day of the period.
    Time(Date),
    /// Name of the provider, model or project; `None` if it is unknown.
    Name(Option<String>),
}

/// Usage with the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendGroup {
    /// Key of the group.
    pub key: SpendGroupKey,
    /// Sum of the group.
    pub total: SpendTotal,
    /// Groups of the next level; empty if there is none.
    pub subgroups: Vec<SpendGroup>,
}

/// All usage, with its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spending {
    /// Groups of the first level: periods in chronological order, all others by size, largest first.
    pub groups: Vec<SpendGroup>,
    /// Sum of all usage.
    pub total: SpendTotal,
}

impl Spending {
    /// Sums usage, and groups it by the criteria in `groupings`, one level for each.
    #[must_use]
    pub fn from_records(
        records: &[SpendRecord],
        groupings: &[SpendGrouping],
        prices: &Prices,
    ) -> Self {
        let records: Vec<&SpendRecord> = records.iter().collect();
        Self {
            groups: group_records(&records, groupings, prices),
            total: sum_records(&records, prices),
        }
    }

    /// Returns the fraction of all tokens that a sum contains, from 0 to 1; `None` if no tokens are known.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "a fraction needs only a few digits"
    )]
    pub fn token_fraction(&self, part: &SpendTotal) -> Option<f64> {
        let total_tokens = self
            .total
            .tokens()
            .filter(|&total_tokens| total_tokens > 0)?;
        Some(part.tokens().unwrap_or(0) as f64 / total_tokens as f64)
    }
}

fn sum_records(records: &[&SpendRecord], prices: &Prices) -> SpendTotal {
    let mut total = SpendTotal::default();
    for record in records {
        total.add_record(record, prices);
    }
    total
}

fn group_records(
    records: &[&SpendRecord],
    groupings: &[SpendGrouping],
    prices: &Prices,
) -> Vec<SpendGroup> {
    let Some((grouping, nested_groupings)) = groupings.split_first() else {
        return Vec::new();
    };
    let mut records_by_key: BTreeMap<SpendGroupKey, Vec<&SpendRecord>> = BTreeMap::new();
    for &record in records {
        records_by_key
            .entry(grouping.group_key(record))
            .or_default()
            .push(record);
    }
    let build_group = |(key, records): (SpendGroupKey, Vec<&SpendRecord>)| SpendGroup {
        key,
        total: sum_records(&records, prices),
        subgroups: group_records(&records, nested_groupings, prices),
    };
    let mut groups: Vec<SpendGroup> = records_by_key.into_iter().map(build_group).collect();
    if !grouping.is_period() {
        let is_unknown = |group: &SpendGroup| group.key == SpendGroupKey::Name(None);
        groups.sort_by_key(|group| (Reverse(group.total.tokens()), is_unknown(group)));
    }
    groups
}
