//! How long to wait before another try: doubling, bounded, spread by a seed.

use std::time::Duration;

use crate::random::Random;

/// After so many doublings a wait has long reached any bound.
const DOUBLINGS_MAX: u32 = 20;

/// Waits between tries. The spread comes from the seed, so that many who failed together do
/// not come back together, and one seed gives the same run again.
#[derive(Debug, Clone)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    random: Random,
}

impl Backoff {
    /// Waits that begin at `min` and never go beyond `max`.
    #[must_use]
    pub fn new(min: Duration, max: Duration, seed: u64) -> Self {
        Self { min, max, random: Random::new(seed) }
    }

    /// The wait after one more failure than the `failures` before it: between half and all
    /// of the doubled delay.
    pub fn wait(&mut self, failures: u32) -> Duration {
        let full = doubled(self.min, self.max, failures);
        let half = full / 2;
        half + self.random.below(half)
    }

    /// A duration below `limit`, from the same sequence.
    pub fn spread(&mut self, limit: Duration) -> Duration {
        self.random.below(limit)
    }
}

/// `min`, doubled for each failure, and no more than `max`.
#[must_use]
pub fn doubled(min: Duration, max: Duration, failures: u32) -> Duration {
    min.saturating_mul(1 << failures.min(DOUBLINGS_MAX)).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Duration = Duration::from_millis(500);
    const MAX: Duration = Duration::from_secs(30);

    #[test]
    fn waits_double_up_to_a_bound_and_start_over_after_success() {
        let mut backoff = Backoff::new(MIN, MAX, 7);
        for n in 0..40 {
            let full = MIN.saturating_mul(1 << n.min(16)).min(MAX);
            let wait = backoff.wait(n);
            assert!(wait >= full / 2 && wait <= full, "{n}: {wait:?} of {full:?}");
        }
        assert!(backoff.wait(0) <= MIN);
        assert!(backoff.wait(u32::MAX) <= MAX);
    }

    #[test]
    fn one_seed_gives_one_sequence() {
        let waits = |seed| {
            let mut backoff = Backoff::new(MIN, MAX, seed);
            [0, 1, 2, 3, 4, 5, 6, 7].map(|failures| backoff.wait(failures))
        };
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
    }
}
