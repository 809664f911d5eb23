//! Sums of usage by day, provider, model and so on.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::civil::Date;

use super::{Prices, Spent, Sum};
use crate::enum_names::names;

/// Criterion by which usage is grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Usage on one day.
    Day,
    /// Usage in one week, which begins on Monday.
    Week,
    /// Usage in one month.
    Month,
    /// Usage of one provider.
    Provider,
    /// Usage of one model.
    Model,
    /// Usage in one project.
    Project,
}

names!(By {
    Day => "day",
    Week => "week",
    Month => "month",
    Provider => "provider",
    Model => "model",
    Project => "project",
});

impl By {
    /// Returns `true` if the criterion is a period of time.
    #[must_use]
    pub fn is_time(self) -> bool {
        matches!(self, Self::Day | Self::Week | Self::Month)
    }

    fn key(self, spent: &Spent) -> Key {
        let day = spent.day;
        match self {
            Self::Day => Key::Time(day),
            Self::Week => {
                let since_monday = i64::from(day.weekday().to_monday_zero_offset());
                // The first days of the calendar have no Monday before them.
                let monday = day.checked_sub(jiff::Span::new().days(since_monday));
                Key::Time(monday.unwrap_or(day))
            }
            Self::Month => Key::Time(day.first_of_month()),
            Self::Provider => Key::Name(Some(spent.provider.to_string())),
            Self::Model => Key::Name(spent.model.clone()),
            Self::Project => Key::Name(spent.project.clone()),
        }
    }
}

/// Key of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// First day of the period.
    Time(Date),
    /// Name of the provider, model or project; `None` if it is unknown.
    Name(Option<String>),
}

/// Usage with the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Key of the group.
    pub key: Key,
    /// Sum of the group.
    pub sum: Sum,
    /// Groups of the next level; empty if there is none.
    pub parts: Vec<Group>,
}

/// All usage, with its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spending {
    /// Groups of the first level: periods in chronological order, all others by size, largest first.
    pub groups: Vec<Group>,
    /// Sum of all usage.
    pub total: Sum,
}

impl Spending {
    /// Sums usage, and groups it by the criteria in `by`, one level for each.
    #[must_use]
    pub fn of(spent: &[Spent], by: &[By], prices: &Prices) -> Self {
        let spent: Vec<&Spent> = spent.iter().collect();
        Self {
            groups: groups(&spent, by, prices),
            total: sum(&spent, prices),
        }
    }

    /// Returns the fraction of all tokens that a sum contains, from 0 to 1; `None` if no tokens are known.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share needs a few digits")]
    pub fn share(&self, of: &Sum) -> Option<f64> {
        let all = self.total.tokens().filter(|&all| all > 0)?;
        Some(of.tokens().unwrap_or(0) as f64 / all as f64)
    }
}

fn sum(spent: &[&Spent], prices: &Prices) -> Sum {
    let mut sum = Sum::default();
    for spent in spent {
        sum.add(spent, prices);
    }
    sum
}

fn groups(spent: &[&Spent], by: &[By], prices: &Prices) -> Vec<Group> {
    let Some((first, rest)) = by.split_first() else {
        return Vec::new();
    };
    let mut together: BTreeMap<Key, Vec<&Spent>> = BTreeMap::new();
    for &one in spent {
        together.entry(first.key(one)).or_default().push(one);
    }
    let group = |(key, spent): (Key, Vec<&Spent>)| Group {
        key,
        sum: sum(&spent, prices),
        parts: groups(&spent, rest, prices),
    };
    let mut groups: Vec<Group> = together.into_iter().map(group).collect();
    if !first.is_time() {
        let unknown = |group: &Group| group.key == Key::Name(None);
        groups.sort_by_key(|group| (Reverse(group.sum.tokens()), unknown(group)));
    }
    groups
}
