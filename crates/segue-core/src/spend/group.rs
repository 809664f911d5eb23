//! Sums by day, by agent, by model and so on.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::civil::Date;

use super::{Prices, Spent, Sum};
use crate::names::names;

/// What is put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// What was spent on one day.
    Day,
    /// In one week, which begins with a Monday.
    Week,
    /// In one month.
    Month,
    /// By one agent.
    Provider,
    /// With one model.
    Model,
    /// In one project.
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
    /// Whether it is about when.
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
                // The first days there are have no Monday before them.
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

/// What tells one group from the others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The first day of it.
    Time(Date),
    /// Its name; none where that is not known.
    Name(Option<String>),
}

/// What belongs together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Which.
    pub key: Key,
    /// All of it.
    pub sum: Sum,
    /// Its parts, where it was to be taken apart further.
    pub parts: Vec<Group>,
}

/// What was spent in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spending {
    /// Its parts: times in their order, else the largest first.
    pub groups: Vec<Group>,
    /// All of it.
    pub total: Sum,
}

impl Spending {
    /// Adds up what was spent, and takes it apart level by level.
    #[must_use]
    pub fn of(spent: &[Spent], by: &[By], prices: &Prices) -> Self {
        let spent: Vec<&Spent> = spent.iter().collect();
        Self {
            groups: groups(&spent, by, prices),
            total: sum(&spent, prices),
        }
    }

    /// Which part of all tokens a group is, from 0 to 1. None where there are none.
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
