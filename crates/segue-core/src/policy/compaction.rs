//! When what was said is summed up by itself.

use crate::Session;

/// In which sessions that happens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AutoCompaction {
    /// In those with a role: they live within a budget.
    #[default]
    WithRole,
    /// In all of them.
    Always,
    /// In none; it is done only where it is asked for, or where a new native session could not be told otherwise.
    Never,
}

impl AutoCompaction {
    /// What is configured comes to: a switch, if there is one; else whoever sets a budget wants it kept.
    #[must_use]
    pub fn of(switch: Option<bool>, budget_is_set: bool) -> Self {
        match (switch, budget_is_set) {
            (Some(false), _) => Self::Never,
            (Some(true), _) | (None, true) => Self::Always,
            (None, false) => Self::WithRole,
        }
    }

    /// Whether it happens in a session.
    #[must_use]
    pub fn applies_to(self, session: &Session) -> bool {
        let purpose = session.purpose.as_ref();
        match self {
            Self::WithRole => purpose.is_some_and(|purpose| purpose.role.is_some()),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// Whether a native session that holds so many tokens is to be followed by one that is told less: from 0.9 of the budget
/// on.
#[must_use]
pub fn is_due(held: u64, budget: u64) -> bool {
    u128::from(held) * 10 >= u128::from(budget) * 9
}

/// Whether it helps a native session that holds so many tokens, and near the budget, to be followed by another one that
/// has to be told `least` of them at least: it frees a tenth of the budget, or there is no other way to stay within it.
/// Else each turn would be followed by another one, for nothing.
#[must_use]
pub fn is_worth_it(held: u64, least: u64, budget: u64) -> bool {
    held >= budget || u128::from(held.saturating_sub(least)) * 10 >= u128::from(budget)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_done_where_it_helps() {
        let cases = [
            (90_000, 0, 100_000, true),
            (90_000, 80_000, 100_000, true),
            (90_000, 80_001, 100_000, false),
            (99_999, 95_000, 100_000, false),
            (90_000, 95_000, 100_000, false),
            // Whatever is freed, it is over the budget.
            (100_000, 95_000, 100_000, true),
            (0, 0, 0, true),
            (u64::MAX - 1, 0, u64::MAX, true),
        ];
        for (held, least, budget, worth_it) in cases {
            let found = is_worth_it(held, least, budget);
            assert_eq!(found, worth_it, "{held}, {least} of {budget}");
        }
    }

    #[test]
    fn what_is_configured_decides_in_which_sessions() {
        let cases = [
            (None, false, AutoCompaction::WithRole),
            (None, true, AutoCompaction::Always),
            (Some(true), false, AutoCompaction::Always),
            (Some(true), true, AutoCompaction::Always),
            (Some(false), false, AutoCompaction::Never),
            (Some(false), true, AutoCompaction::Never),
        ];
        for (switch, budget, expected) in cases {
            let found = AutoCompaction::of(switch, budget);
            assert_eq!(found, expected, "{switch:?} {budget}");
        }
    }

    #[test]
    fn it_is_due_exactly_from_nine_tenths_on() {
        let cases = [
            (0, 100_000, false),
            (89_999, 100_000, false),
            (90_000, 100_000, true),
            (100_001, 100_000, true),
            // Nine tenths of it are no whole number.
            (2_249, 2_500, false),
            (2_250, 2_500, true),
            (9, 11, false),
            (10, 11, true),
            (u64::MAX, u64::MAX, true),
            (0, u64::MAX, false),
        ];
        for (held, budget, due) in cases {
            assert_eq!(is_due(held, budget), due, "{held} of {budget}");
        }
    }
}
