//! Choices that a seed decides.

use std::time::Duration;

use chassis::random::{Random, seed_for};

/// A sequence of choices.
#[derive(Debug, Clone)]
pub struct Draw(Random);

impl Draw {
    /// The sequence of one part of a run.
    pub fn new(seed: u64, part: &str) -> Self {
        Self(Random::new(seed_for(seed, &[part])))
    }

    pub fn number(&mut self) -> u64 {
        self.0.draw()
    }

    /// One of so many.
    pub fn below(&mut self, count: usize) -> usize {
        let count = u64::try_from(count.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.0.draw() % count).unwrap_or(0)
    }

    /// True in so many of a thousand cases.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.0.draw() % 1000 < per_mille
    }

    /// One of these.
    pub fn among<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        if all.is_empty() { None } else { all.get(self.below(all.len())) }
    }

    /// So many milliseconds, the last one excluded.
    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.0.draw() % (to - from).max(1))
    }
}
