//! How long to wait before another try: doubling, bounded, spread by a seed.

use std::time::Duration;

/// The first wait after a failure.
const DELAY_MIN: Duration = Duration::from_millis(500);
/// The longest wait between tries.
const DELAY_MAX: Duration = Duration::from_secs(30);
/// The odd constant of the splitmix64 sequence.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence of waits. The spread comes from the seed, so that many reflectors do not
/// come back at the same moment and one seed gives the same run again.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    failures: u32,
    random: u64,
}

impl Backoff {
    pub(crate) fn new(seed: u64) -> Self {
        Self { failures: 0, random: seed }
    }

    /// A wait between half and all of the doubled delay, and no less than the server asked.
    pub(crate) fn fail(&mut self, asked: Option<Duration>) -> Duration {
        let doubled = DELAY_MIN.saturating_mul(1 << self.failures.min(16)).min(DELAY_MAX);
        self.failures = self.failures.saturating_add(1);
        let half = doubled / 2;
        let wait = half + self.spread(half);
        wait.max(asked.unwrap_or_default().min(DELAY_MAX))
    }

    /// Something went well: the next failure is a first one.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// A duration below `limit`.
    pub(crate) fn spread(&mut self, limit: Duration) -> Duration {
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1);
        Duration::from_millis(self.draw() % millis)
    }

    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(GOLDEN);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_start_over_after_success() {
        let mut backoff = Backoff::new(7);
        for n in 0..40 {
            let full = DELAY_MIN.saturating_mul(1 << n.min(16)).min(DELAY_MAX);
            let wait = backoff.fail(None);
            assert!(wait >= full / 2 && wait <= full, "{n}: {wait:?} of {full:?}");
        }
        backoff.reset();
        assert!(backoff.fail(None) <= DELAY_MIN);
        assert_eq!(backoff.fail(Some(Duration::from_secs(9))), Duration::from_secs(9));
        assert_eq!(backoff.fail(Some(Duration::from_secs(9999))), DELAY_MAX);
    }

    #[test]
    fn one_seed_gives_one_sequence() {
        let waits = |seed| {
            let mut backoff = Backoff::new(seed);
            [(); 8].map(|()| backoff.fail(None))
        };
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
    }
}
