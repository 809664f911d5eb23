//! Pseudo-random numbers, identical in every run.

/// Hashes a number with splitmix64.
pub fn splitmix64(n: u64) -> u64 {
    let n = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Pseudo-random number generator with a seed.
pub(crate) struct Prng(u64);

impl Prng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(splitmix64(seed))
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        splitmix64(self.0)
    }

    /// Returns a number below `limit`, uniformly distributed.
    pub(crate) fn next_below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next_u64() % limit as u64).unwrap()
    }

    /// Returns a number from 0 to less than 1, uniformly distributed.
    #[allow(clippy::cast_precision_loss, reason = "53 bits")]
    pub(crate) fn next_fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a log-normally distributed number with this median, from 1 to `limit`. One number in six is greater than
    /// `median * spread`, and one in six is less than `median / spread`. The lengths of files and texts have such a
    /// distribution.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped"
    )]
    pub(crate) fn next_log_normal(&mut self, median: f64, spread: f64, limit: u64) -> u64 {
        let radius = (-2.0 * (1.0 - self.next_fraction()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * self.next_fraction()).cos();
        let number = median * (spread.ln() * normal).exp();
        (number as u64).clamp(1, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_normal_numbers_have_the_median_and_a_long_tail() {
        let mut prng = Prng::new(1);
        let mut numbers: Vec<u64> = (0..10_000)
            .map(|_| prng.next_log_normal(100.0, 3.0, 5000))
            .collect();
        numbers.sort_unstable();
        assert!((90..110).contains(&numbers[5000]), "{}", numbers[5000]);
        assert!((270..330).contains(&numbers[8413]), "{}", numbers[8413]);
        assert!(numbers[0] >= 1 && numbers[9999] <= 5000);
    }
}
