//! Conditions of automatic compaction.

use crate::session::Session;

/// Sessions that segue compacts automatically.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AutoCompaction {
    /// Sessions with a role, because they run within a budget.
    #[default]
    WithRole,
    /// All sessions.
    Always,
    /// No sessions. segue compacts only on request, or if the brief of a new native session would not fit otherwise.
    Never,
}

impl AutoCompaction {
    /// Derives the setting from the configuration. The switch decides if it is set. Otherwise a configured budget
    /// enables compaction in all sessions, because a user who sets a budget wants segue to stay within it.
    #[must_use]
    pub fn from_config(switch: Option<bool>, budget_is_set: bool) -> Self {
        match (switch, budget_is_set) {
            (Some(false), _) => Self::Never,
            (Some(true), _) | (None, true) => Self::Always,
            (None, false) => Self::WithRole,
        }
    }

    /// Returns `true` if segue compacts a session automatically.
    #[must_use]
    pub fn should_compact(self, session: &Session) -> bool {
        let purpose = session.purpose.as_ref();
        match self {
            Self::WithRole => purpose.is_some_and(|purpose| purpose.role.is_some()),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// Returns `true` if a native session that contains `tokens` tokens is to be compacted: from 90 % of the budget on.
#[must_use]
pub fn is_compaction_due(tokens: u64, budget: u64) -> bool {
    u128::from(tokens) * 10 >= u128::from(budget) * 9
}

/// Returns `true` if compaction helps a native session that contains `tokens` tokens, close to the budget. `min_brief`
/// is the minimum size of the brief of the next native session. Compaction helps if it frees a tenth of the budget, or
/// if the budget is already used up. Otherwise each turn would cause another compaction without benefit.
#[must_use]
pub fn is_compaction_worthwhile(tokens: u64, min_brief: u64, budget: u64) -> bool {
    tokens >= budget || u128::from(tokens.saturating_sub(min_brief)) * 10 >= u128::from(budget)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compaction_is_worthwhile_if_it_frees_a_tenth_of_the_budget() {
        let cases = [
            (90_000, 0, 100_000, true),
            (90_000, 80_000, 100_000, true),
            (90_000, 80_001, 100_000, false),
            (99_999, 95_000, 100_000, false),
            (90_000, 95_000, 100_000, false),
            // The budget is used up, so the number of freed tokens does not matter.
            (100_000, 95_000, 100_000, true),
            (0, 0, 0, true),
            (u64::MAX - 1, 0, u64::MAX, true),
        ];
        for (tokens, min_brief, budget, expected) in cases {
            let actual = is_compaction_worthwhile(tokens, min_brief, budget);
            assert_eq!(actual, expected, "{tokens}, {min_brief} of {budget}");
        }
    }

    #[test]
    fn the_switch_and_the_budget_select_the_compacted_sessions() {
        let cases = [
            (None, false, AutoCompaction::WithRole),
            (None, true, AutoCompaction::Always),
            (Some(true), false, AutoCompaction::Always),
            (Some(true), true, AutoCompaction::Always),
            (Some(false), false, AutoCompaction::Never),
            (Some(false), true, AutoCompaction::Never),
        ];
        for (switch, budget, expected) in cases {
            let actual = AutoCompaction::from_config(switch, budget);
            assert_eq!(actual, expected, "{switch:?} {budget}");
        }
    }

    #[test]
    fn compaction_is_due_from_nine_tenths_of_the_budget() {
        let cases = [
            (0, 100_000, false),
            (89_999, 100_000, false),
            (90_000, 100_000, true),
            (100_001, 100_000, true),
            // The exact limit is 2,250 of 2,500 and 9.9 of 11.
            (2_249, 2_500, false),
            (2_250, 2_500, true),
            (9, 11, false),
            (10, 11, true),
            (u64::MAX, u64::MAX, true),
            (0, u64::MAX, false),
        ];
        for (tokens, budget, expected) in cases {
            assert_eq!(
                is_compaction_due(tokens, budget),
                expected,
                "{tokens} of {budget}"
            );
        }
    }
}
