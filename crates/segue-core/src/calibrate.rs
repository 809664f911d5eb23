//! How an agent counts, learned from what it reported.
//!
//! An agent sends more than was said to it (its own instructions, its tools: a fixed number of tokens), and its model
//! may have another vocabulary than the one we count with (a factor). The two are learned apart, from pairs of our own
//! estimate and what was reported, by medians, so that a few wrong pairs change nothing.

/// How many pairs are needed before anything is said.
const ENOUGH: usize = 5;

/// By how much two estimates must differ to tell something of the factor: less is lost in what varies anyway.
const APART: u64 = 1_000;

/// Factors beyond these, in thousandths, are no vocabulary but a misunderstanding.
const FACTORS: std::ops::RangeInclusive<i64> = 500..=3_000;

/// How large a request was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// By our count of what the native session holds.
    pub estimate: u64,
    /// By the agent.
    pub reported: u64,
}

/// How an agent counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calibration {
    /// What it sends along with every request.
    pub overhead: u64,
    /// How many of its tokens a thousand of ours are.
    pub per_thousand: u64,
}

impl Calibration {
    /// How large a request with so many of our tokens is for the agent.
    #[must_use]
    pub fn reported(self, tokens: u64) -> u64 {
        let scaled = u128::from(tokens) * u128::from(self.per_thousand) / 1_000;
        let scaled = u64::try_from(scaled).unwrap_or(u64::MAX);
        scaled.saturating_add(self.overhead)
    }

    /// How many of our tokens a request of that size has room for.
    #[must_use]
    pub fn room(self, reported: u64) -> u64 {
        let scaled = reported.saturating_sub(self.overhead);
        let ours = u128::from(scaled) * 1_000 / u128::from(self.per_thousand.max(1));
        u64::try_from(ours).unwrap_or(u64::MAX)
    }
}

/// Learns from pairs, in any order; none until there are enough.
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

/// How many of our tokens a brief and its prompt may have: as configured, or what a smaller context of the model has
/// room for. A quarter of that stays free for what the agent says and does, which else would end at once.
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
    // An agent that needs more than half of it for itself was misunderstood.
    configured.min(ours.max(window / 4))
}

/// By how much each two samples differ in what was reported, for each thousand by which they differ in the estimate.
/// Too few of them are none.
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
        // The agent compacted by itself, and once it reported nonsense.
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
