//! The time as the core is told it, and what is due when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use jiff::Timestamp;

/// The time of a step: one that never jumps, to count delays by, and the one that is
/// written into objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Since some start.
    pub monotonic: Duration,
    /// As a calendar tells it.
    pub wall: Timestamp,
}

impl Now {
    /// Milliseconds since the start.
    pub(crate) fn ms(self) -> u64 {
        u64::try_from(self.monotonic.as_millis()).unwrap_or(u64::MAX)
    }

    /// Seconds of the calendar, in the four bytes that are kept of them.
    pub(crate) fn stamp(self) -> Stamp {
        Stamp::of(self.wall)
    }

    /// When, on the clock that never jumps, `ms` after a time of the calendar is. What is
    /// past is now.
    pub(crate) fn due_after(self, from: Stamp, ms: u64) -> u64 {
        let from = i64::from(from.0).saturating_mul(1000);
        let passed = self.wall.as_millisecond().saturating_sub(from);
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        let left = u64::try_from(ms.saturating_sub(passed)).unwrap_or(0);
        self.ms().saturating_add(left)
    }
}

/// A calendar time in whole seconds; zero for none. Good until the year 2106.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u32);

impl Stamp {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn of(time: Timestamp) -> Self {
        Self(u32::try_from(time.as_second().max(0)).unwrap_or(u32::MAX))
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn seconds(self) -> u32 {
        self.0
    }

    /// As an object has it.
    pub(crate) fn time(self) -> object::time::Time {
        Timestamp::from_second(i64::from(self.0)).unwrap_or(Timestamp::UNIX_EPOCH).into()
    }
}

impl From<object::time::Time> for Stamp {
    fn from(time: object::time::Time) -> Self {
        if time.is_zero() { Self::NONE } else { Self::of(time.timestamp()) }
    }
}

/// What is due, soonest first; of what is due at one time, what was asked for first.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    heap: BinaryHeap<Reverse<(u64, u64, T)>>,
    asked: u64,
}

impl<T: Ord> Timers<T> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), asked: 0 }
    }

    pub(crate) fn set(&mut self, due_ms: u64, what: T) {
        self.heap.push(Reverse((due_ms, self.asked, what)));
        self.asked += 1;
    }

    /// When the next one is due.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((due, ..))| *due)
    }

    /// The next one, if it is due, and when it was.
    pub(crate) fn take(&mut self, now_ms: u64) -> Option<(u64, T)> {
        if self.next_ms()? > now_ms {
            return None;
        }
        self.heap.pop().map(|Reverse((due, _, what))| (due, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_in_order_and_never_early() {
        let mut timers = Timers::new();
        for (due, what) in [(30, 'c'), (10, 'b'), (10, 'a'), (20, 'd')] {
            timers.set(due, what);
        }
        assert_eq!(timers.next_ms(), Some(10));
        assert_eq!(timers.take(9), None);
        let taken: Vec<_> = std::iter::from_fn(|| timers.take(25)).collect();
        assert_eq!(taken, [(10, 'b'), (10, 'a'), (20, 'd')]);
    }

    #[test]
    fn a_time_of_the_calendar_is_found_on_the_other_clock() {
        let now =
            Now { monotonic: Duration::from_secs(5), wall: Timestamp::from_second(1_000).unwrap() };
        let from = |second| Stamp::of(Timestamp::from_second(second).unwrap());
        assert_eq!(now.due_after(from(999), 3_000), 7_000);
        assert_eq!(now.due_after(from(1), 3_000), 5_000);
        assert_eq!(now.due_after(from(1), u64::MAX), i64::MAX as u64 - 999_000 + 5_000);
    }
}
