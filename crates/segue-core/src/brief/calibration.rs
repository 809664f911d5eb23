//! Calibration of token estimates, learned from the counts that an agent reports.
//!
//! An agent sends more than the messages of the session (its own instructions and tools: a fixed number of tokens), and
//! its model may have another vocabulary than the one that segue counts with (a factor). The overhead and the factor
//! are learned separately, from pairs of segue's estimate and the reported count. Medians are used, so that a few wrong
//! pairs change nothing.

/// Minimum number of samples for a calibration, and of pairs of samples for its factor.
const MIN_SAMPLES: usize = 5;

/// Minimum difference between two estimates that is used for the factor. A smaller difference is lost in the variation
/// between requests.
const MIN_ESTIMATE_DIFFERENCE_TOKENS: u64 = 1_000;

/// Plausible factors, in thousandths. A factor outside this range is not due to the vocabulary but to a misinterpreted
/// count.
const PLAUSIBLE_FACTOR_THOUSANDTHS: std::ops::RangeInclusive<i64> = 500..=3_000;

/// Size of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalibrationSample {
    /// Tokens in the native session by segue's own estimate.
    pub estimate: u64,
    /// Tokens that the agent reported.
    pub reported: u64,
}

/// Relation between segue's token counts and those of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calibration {
    /// Tokens that the agent adds to every request.
    pub overhead: u64,
    /// Number of the agent's tokens for a thousand of segue's tokens.
    pub factor_per_thousand: u64,
}

impl Calibration {
    /// Returns the size that the agent reports for a request of `tokens` by segue's count.
    #[must_use]
    pub fn to_reported(self, tokens: u64) -> u64 {
        let scaled = u128::from(tokens) * u128::from(self.factor_per_thousand) / 1_000;
        let scaled = u64::try_from(scaled).unwrap_or(u64::MAX);
        scaled.saturating_add(self.overhead)
    }

    /// Returns the number of tokens, by segue's count, that fit into a request for which the agent reports
    /// `reported` tokens.
    #[must_use]
    pub fn to_estimate(self, reported: u64) -> u64 {
        let scaled = reported.saturating_sub(self.overhead);
        let estimate = u128::from(scaled) * 1_000 / u128::from(self.factor_per_thousand.max(1));
        u64::try_from(estimate).unwrap_or(u64::MAX)
    }
}

/// Computes the calibration from samples, in any order. `None` for fewer than five samples.
#[must_use]
pub fn calibrate(samples: &[CalibrationSample]) -> Option<Calibration> {
    if samples.len() < MIN_SAMPLES {
        return None;
    }
    let slope = median(pairwise_slopes(samples)).unwrap_or(1_000);
    let factor_per_thousand = slope.clamp(
        *PLAUSIBLE_FACTOR_THOUSANDTHS.start(),
        *PLAUSIBLE_FACTOR_THOUSANDTHS.end(),
    );
    let residual = |sample: &CalibrationSample| {
        let scaled = i128::from(sample.estimate) * i128::from(factor_per_thousand) / 1_000;
        i64::try_from(i128::from(sample.reported) - scaled).unwrap_or(0)
    };
    let overhead = median(samples.iter().map(residual).collect())?;
    Some(Calibration {
        overhead: u64::try_from(overhead).unwrap_or(0),
        factor_per_thousand: u64::try_from(factor_per_thousand).unwrap_or(1_000),
    })
}

/// Returns the number of tokens, by segue's count, that a brief and its prompt may use: the configured number, or less
/// if the model's context window is too small for it. A quarter of the window stays free for the agent's output and
/// tool results, because otherwise the context would be full at once.
#[must_use]
pub fn budget_for_window(
    configured: u64,
    window: Option<u64>,
    calibration: Option<Calibration>,
) -> u64 {
    let Some(window) = window else {
        return configured;
    };
    let usable = window / 4 * 3;
    let fitting_tokens = calibration.map_or(usable, |learned| learned.to_estimate(usable));
    // An overhead of more than half of the window is a misinterpreted count, so at least a quarter of the window is
    // used.
    configured.min(fitting_tokens.max(window / 4))
}

/// Returns, for each pair of samples, the difference of the reported counts for each thousand tokens of difference in
/// the estimates. Pairs whose estimates differ by less than [`MIN_ESTIMATE_DIFFERENCE_TOKENS`] are ignored. Empty if
/// fewer than [`MIN_SAMPLES`] pairs remain.
fn pairwise_slopes(samples: &[CalibrationSample]) -> Vec<i64> {
    let mut slopes = Vec::new();
    for (index, first) in samples.iter().enumerate() {
        for second in samples.iter().skip(index + 1) {
            if first.estimate.abs_diff(second.estimate) < MIN_ESTIMATE_DIFFERENCE_TOKENS {
                continue;
            }
            let difference = |a: u64, b: u64| i128::from(a) - i128::from(b);
            let run = difference(first.estimate, second.estimate);
            let rise = difference(first.reported, second.reported);
            slopes.extend(i64::try_from(rise * 1_000 / run));
        }
    }
    if slopes.len() < MIN_SAMPLES {
        slopes.clear();
    }
    slopes
}

fn median(mut values: Vec<i64>) -> Option<i64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_samples(estimates: &[u64], reported: impl Fn(u64) -> u64) -> Vec<CalibrationSample> {
        let sample = |estimate: &u64| CalibrationSample {
            estimate: *estimate,
            reported: reported(*estimate),
        };
        estimates.iter().map(sample).collect()
    }

    fn calibrated_values(samples: &[CalibrationSample]) -> Option<(u64, u64)> {
        calibrate(samples)
            .map(|calibration| (calibration.overhead, calibration.factor_per_thousand))
    }

    const SPREAD_ESTIMATES: [u64; 8] = [100, 2_000, 5_000, 9_000, 20_000, 40_000, 70_000, 90_000];

    #[test]
    fn calibration_learns_the_overhead_and_the_factor() {
        let few = build_samples(&SPREAD_ESTIMATES[..4], |tokens| tokens + 18_000);
        assert_eq!(calibrated_values(&few), None, "too few samples");
        assert_eq!(calibrated_values(&[]), None);
        let same = build_samples(&[300, 320, 350, 330, 310], |tokens| tokens + 18_000);
        assert_eq!(
            calibrated_values(&same),
            Some((18_000, 1_000)),
            "similar estimates determine only the overhead"
        );
        let both = build_samples(&SPREAD_ESTIMATES, |tokens| tokens * 12 / 10 + 18_000);
        assert_eq!(calibrated_values(&both), Some((18_000, 1_200)));
        let smaller = build_samples(&SPREAD_ESTIMATES, |tokens| tokens * 9 / 10);
        assert_eq!(calibrated_values(&smaller), Some((0, 900)));
    }

    #[test]
    fn outliers_change_little() {
        let mut samples = build_samples(&SPREAD_ESTIMATES, |tokens| tokens * 12 / 10 + 18_000);
        // The agent compacted its own context in one sample, and reported a wrong number in another.
        samples[6].reported = 25_000;
        samples[1].reported = 900_000;
        let calibration = calibrate(&samples).unwrap();
        assert!(
            (1_100..=1_300).contains(&calibration.factor_per_thousand),
            "{calibration:?}"
        );
        assert!(
            (16_000..=20_000).contains(&calibration.overhead),
            "{calibration:?}"
        );
    }

    #[test]
    fn implausible_samples_give_a_plausible_factor() {
        let falling = build_samples(&SPREAD_ESTIMATES, |tokens| 100_000 - tokens);
        let calibration = calibrate(&falling).unwrap();
        assert_eq!(calibration.factor_per_thousand, 500);
        let huge = build_samples(&[u64::MAX, 0, 1 << 60, 5, 7], |_| u64::MAX);
        assert!(calibrate(&huge).is_some());
    }

    #[test]
    fn a_small_context_window_reduces_the_budget() {
        let claude = Some(Calibration {
            overhead: 18_000,
            factor_per_thousand: 1_200,
        });
        let implausible = Some(Calibration {
            overhead: 350_000,
            factor_per_thousand: 1_000,
        });
        let cases = [
            (None, None, 100_000),
            (None, claude, 100_000),
            (Some(1_000_000), claude, 100_000),
            (Some(200_000), claude, 100_000),
            (Some(128_000), None, 96_000),
            (Some(128_000), claude, 65_000),
            (Some(8_000), claude, 2_000),
            (Some(258_000), implausible, 64_500),
        ];
        for (window, calibration, expected) in cases {
            let budget = budget_for_window(100_000, window, calibration);
            assert_eq!(budget, expected, "{window:?} {calibration:?}");
        }
    }

    #[test]
    fn estimates_and_reported_counts_convert_both_ways() {
        let calibration = Calibration {
            overhead: 18_000,
            factor_per_thousand: 1_200,
        };
        assert_eq!(calibration.to_reported(10_000), 30_000);
        assert_eq!(calibration.to_estimate(30_000), 10_000);
        assert_eq!(calibration.to_estimate(5), 0);
        assert_eq!(calibration.to_reported(u64::MAX), u64::MAX);
    }
}
