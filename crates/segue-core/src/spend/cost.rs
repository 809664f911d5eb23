//! Money in millionths of a dollar, stored as an integer so that sums are exact.

use std::fmt;
use std::ops::Add;

/// An amount of money. An unknown cost is `None` around this type, never 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u64);

const MICROS_PER_DOLLAR: u64 = 1_000_000;

impl Cost {
    /// Creates a cost from millionths of a dollar.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Converts an amount that an agent reported, rounded to a millionth. `None` if it is not a valid amount of money.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "checked to be within the range that a float holds exactly"
    )]
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        const MAX_EXACT_MICROS: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;
        let micros = (dollars * MICROS_PER_DOLLAR as f64).round();
        (0.0..=MAX_EXACT_MICROS)
            .contains(&micros)
            .then_some(Self(micros as u64))
    }

    /// Returns the cost in millionths of a dollar.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.0
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Formats the cost as `$12.34`. Amounts below ten cents have four decimals, and amounts below a hundredth of a cent
/// are `<$0.0001`.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, width) = if self.0 == 0 || self.0 >= MICROS_PER_DOLLAR / 10 {
            (MICROS_PER_DOLLAR / 100, 2)
        } else {
            (MICROS_PER_DOLLAR / 10_000, 4)
        };
        if self.0 > 0 && self.0 < unit {
            return f.pad("<$0.0001");
        }
        let rounded = self.0.saturating_add(unit / 2) / unit;
        let units_per_dollar = MICROS_PER_DOLLAR / unit;
        let (dollars, fraction) = (rounded / units_per_dollar, rounded % units_per_dollar);
        f.pad(&format!("${dollars}.{fraction:0width$}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_become_millionths() {
        let cases = [
            (0.0, Some(0)),
            (0.1 + 0.2, Some(300_000)),
            (0.000_000_4, Some(0)),
            (0.000_000_6, Some(1)),
            (12.345_678, Some(12_345_678)),
            (-0.01, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
            (1e300, None),
        ];
        for (dollars, micros) in cases {
            let cost = Cost::from_dollars(dollars).map(Cost::micros);
            assert_eq!(cost, micros, "{dollars}");
        }
    }

    #[test]
    fn small_amounts_have_more_decimals() {
        let cases = [
            (0, "$0.00"),
            (7, "<$0.0001"),
            (99, "<$0.0001"),
            (100, "$0.0001"),
            (12_340, "$0.0123"),
            (99_999, "$0.1000"),
            (100_000, "$0.10"),
            (3_204_999, "$3.20"),
            (3_205_000, "$3.21"),
            (1_234_560_000, "$1234.56"),
            (u64::MAX, "$18446744073709.55"),
        ];
        for (micros, text) in cases {
            assert_eq!(Cost::from_micros(micros).to_string(), text);
        }
    }

    #[test]
    fn sums_are_exact_and_never_wrap() {
        let tenth = Cost::from_dollars(0.1).unwrap();
        assert_eq!(tenth + tenth + tenth, Cost::from_micros(300_000));
        let max = Cost::from_micros(u64::MAX);
        assert_eq!(max + tenth, max);
    }
}
