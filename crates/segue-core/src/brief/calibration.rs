//! Calibration of token estimates, learned from the counts that an agent reports.
//!
//! An agent sends more than the messages of the session (its own instructions and tools: a fixed number of tokens), and
//! its model may have another vocabulary than the one that segue counts with (a factor). The overhead and the factor
//! are learned separately, from pairs of segue's estimate and the reported count. Medians are used, so that a few wrong
//! pairs change nothing.

/// Minimum number of samples for a calibration, and of pairs of samples for its factor.
const ENOUGH: usize = 5;

/// Minimum difference between two estimates that is used for the factor. A smaller difference is lost in the variation
/// between requests.
const APART: u64 = 1_000;

/// Plausible factors, in thousandths. A factor outside this range is not due to the vocabulary but to a misinterpreted
/// count.
const FACTORS: std::ops::RangeInclusive<i64> = 500..=3_000;

/// Size of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
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
    pub per_thousand: u64,
}

impl Calibration {
    /// Returns the size that the agent reports for a request of `tokens` by segue's count.
    #[must_use]
    pub fn reported(self, tokens: u64) -> u64 {
        let scaled = u128::from(tokens) * u128::from(self.per_thousand) / 1_000;
        let scaled = u64::try_from(scaled).unwrap_or(u64::MAX);
        scaled.saturating_add(self.overhead)
    }

    /// Returns the number of tokens, by segue's count, that fit into a request for which the agent reports `reported`.
    #[must_use]
    pub fn room(self, reported: u64) -> u64 {
        let scaled = reported.saturating_sub(self.overhead);
        let ours = u128::from(scaled) * 1_000 / u128::from(self.per_thousand.max(1));
        u64::try_from(ours).unwrap_or(u64::MAX)
    }
}

/// Computes the calibration from samples, in any order. `None` for fewer than five samples.
#[must_use]
pub fn calibrate(samples: &[Sample]) -> Option<Calibration> {
    if samples.len() < ENOUGH {
        return None;
    }
    let slope = median(slopes(samples)).unwrap_or(1_000);
    let per_thousand = slope.clamp(*FACTORS.start(), *FACTORS.end());
    let rest = |sample: &Sample| {
        let scaled = i128::from(sample.estimate) * i128::from(per_thousand) / 1_000;
        i64::try_from(i128::from(sample.reported) - scaled).unwrap_or(0)
    };
    let overhead = median(samples.iter().map(rest).collect())?;
    Some(Calibration {
        overhead: u64::try_from(overhead).unwrap_or(0),
        per_thousand: u64::try_from(per_thousand).unwrap_or(1_000),
    })
}

/// Returns the number of tokens, by segue's count, that a brief and its prompt may use: the configured number, or less
/// if the model's context window is too small for it. A quarter of the window stays free for the agent's output and
/// tool results, because otherwise the context would be full at once.
#[must_use]
pub fn budget_within(
    configured: u64,
    window: Option<u64>,
    calibration: Option<Calibration>,
) -> u64 {
    let Some(window) = window else {
        return configured;
    };
    let usable = window / 4 * 3;
    let ours = calibration.map_or(usable, |learned| learned.room(usable));
    // An overhead of more than half of the window is a misinterpreted count, so at least a quarter of the window is
    // used.
    configured.min(ours.max(window / 4))
}

/// Returns, for each pair of samples, the difference of the reported counts for each thousand tokens of difference in
/// the estimates. Pairs whose estimates differ by less than [`APART`] are ignored. Empty if fewer than [`ENOUGH`] pairs
/// remain.
fn slopes(samples: &[Sample]) -> Vec<i64> {
    let mut slopes = Vec::new();
    for (at, one) in samples.iter().enumerate() {
        for other in samples.iter().skip(at + 1) {
            if one.estimate.abs_diff(other.estimate) < APART {
                continue;
            }
            let difference = |a: u64, b: u64| i128::from(a) - i128::from(b);
            let run = difference(one.estimate, other.estimate);
            let rise = difference(one.reported, other.reported);
            slopes.extend(i64::try_from(rise * 1_000 / run));
        }
    }
    if slopes.len() < ENOUGH {
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

    fn pairs(estimates: &[u64], reported: impl Fn(u64) -> u64) -> Vec<Sample> {
        let sample = |estimate: &u64| Sample {
            estimate: *estimate,
            reported: reported(*estimate),
        };
        estimates.iter().map(sample).collect()
    }

    fn learned(samples: &[Sample]) -> Option<(u64, u64)> {
        calibrate(samples).map(|learned| (learned.overhead, learned.per_thousand))
    }

    const SPREAD: [u64; 8] = [100, 2_000, 5_000, 9_000, 20_000, 40_000, 70_000, 90_000];

    #[test]
    fn what_is_learned() {
        let few = pairs(&SPREAD[..4], |tokens| tokens + 18_000);
        assert_eq!(learned(&few), None, "too few");
        assert_eq!(learned(&[]), None);
        let same = pairs(&[300, 320, 350, 330, 310], |tokens| tokens + 18_000);
        assert_eq!(
            learned(&same),
            Some((18_000, 1_000)),
            "without a spread only the overhead is known"
        );
        let both = pairs(&SPREAD, |tokens| tokens * 12 / 10 + 18_000);
        assert_eq!(learned(&both), Some((18_000, 1_200)));
        let smaller = pairs(&SPREAD, |tokens| tokens * 9 / 10);
        assert_eq!(learned(&smaller), Some((0, 900)));
    }

    #[test]
    fn outliers_change_little() {
        let mut samples = pairs(&SPREAD, |tokens| tokens * 12 / 10 + 18_000);
        // The agent compacted its own context in one sample, and reported a wrong number in another.
        samples[6].reported = 25_000;
        samples[1].reported = 900_000;
        let learned = calibrate(&samples).unwrap();
        assert!(
            (1_100..=1_300).contains(&learned.per_thousand),
            "{learned:?}"
        );
        assert!((16_000..=20_000).contains(&learned.overhead), "{learned:?}");
    }

    #[test]
    fn nonsense_stays_within_reason() {
        let falling = pairs(&SPREAD, |tokens| 100_000 - tokens);
        let learned = calibrate(&falling).unwrap();
        assert_eq!(learned.per_thousand, 500);
        let huge = pairs(&[u64::MAX, 0, 1 << 60, 5, 7], |_| u64::MAX);
        assert!(calibrate(&huge).is_some());
    }

    #[test]
    fn a_small_context_makes_the_budget_smaller() {
        let claude = Some(Calibration {
            overhead: 18_000,
            per_thousand: 1_200,
        });
        let misunderstood = Some(Calibration {
            overhead: 350_000,
            per_thousand: 1_000,
        });
        let cases = [
            (None, None, 100_000),
            (None, claude, 100_000),
            (Some(1_000_000), claude, 100_000),
            (Some(200_000), claude, 100_000),
            (Some(128_000), None, 96_000),
            (Some(128_000), claude, 65_000),
            (Some(8_000), claude, 2_000),
            (Some(258_000), misunderstood, 64_500),
        ];
        for (window, calibration, expected) in cases {
            let budget = budget_within(100_000, window, calibration);
            assert_eq!(budget, expected, "{window:?} {calibration:?}");
        }
    }

    #[test]
    fn there_and_back() {
        let calibration = Calibration {
            overhead: 18_000,
            per_thousand: 1_200,
        };
        assert_eq!(calibration.reported(10_000), 30_000);
        assert_eq!(calibration.room(30_000), 10_000);
        assert_eq!(calibration.room(5), 0);
        assert_eq!(calibration.reported(u64::MAX), u64::MAX);
    }
}
