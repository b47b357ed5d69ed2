//! Numbers that look random and are the same in every run with the same seed.
//!
//! They spread waits and choose between equals. Nothing that must not be guessed comes from
//! here.

use std::time::Duration;

/// The odd constant of the splitmix64 sequence.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// The number that splitmix64 gives for another.
#[must_use]
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The seed of one part of a program, from the seed of the whole and the part's name: parts
/// that share a seed do not share their numbers.
///
/// ```
/// use chassis::random::seed_for;
/// assert_eq!(seed_for(1, &["job"]), seed_for(1, &["job"]));
/// assert_ne!(seed_for(1, &["job"]), seed_for(1, &["deployment"]));
/// assert_ne!(seed_for(1, &["job"]), seed_for(2, &["job"]));
/// assert_ne!(seed_for(1, &["ab", "c"]), seed_for(1, &["a", "bc"]));
/// ```
#[must_use]
pub fn seed_for(seed: u64, name: &[&str]) -> u64 {
    let mut hash = FNV_OFFSET;
    for (place, part) in name.iter().enumerate() {
        let separator = (place > 0).then_some(0);
        for byte in separator.into_iter().chain(part.bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
    }
    mix(hash ^ mix(seed))
}

/// A sequence of numbers that its seed decides.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(GOLDEN);
        number
    }

    /// A duration of whole milliseconds below `limit`; zero where there is none.
    pub fn below(&mut self, limit: Duration) -> Duration {
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1);
        Duration::from_millis(self.draw() % millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [(); 8].map(|()| random.draw())
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
        let distinct: std::collections::BTreeSet<u64> = numbers(1).into();
        assert_eq!(distinct.len(), 8);
    }

    #[test]
    fn a_duration_is_below_its_limit() {
        let mut random = Random::new(3);
        for millis in [0, 1, 2, 1000] {
            let limit = Duration::from_millis(millis);
            assert!(random.below(limit) < limit.max(Duration::from_millis(1)), "{limit:?}");
        }
        assert!(random.below(Duration::MAX) < Duration::MAX);
    }
}
