//! Limits on what a client sends: how much at once, and how much in a second (a token bucket).
//!
//! There is no rate by default, since the API server has its own fairness; it is for a
//! component that must leave room for others on a server without it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::clock::Clock;

/// So many requests a second on average, and so many at once after a pause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Requests per second, averaged.
    pub qps: f64,
    /// How many may be sent at once when none were sent for a while.
    pub burst: u32,
}

/// Counts of what is under way of all clients that have it in their options.
#[derive(Debug, Clone, Default)]
pub struct UnderWay(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicUsize,
    lists: AtomicUsize,
}

impl UnderWay {
    /// How many requests there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.requests.load(Ordering::Relaxed)
    }

    /// How many of them are lists.
    #[must_use]
    pub fn lists(&self) -> usize {
        self.0.lists.load(Ordering::Relaxed)
    }

    fn begin(&self) -> OneUnderWay<'_> {
        OneUnderWay::of(&self.0.requests)
    }

    fn begin_list(&self) -> OneUnderWay<'_> {
        OneUnderWay::of(&self.0.lists)
    }
}

/// Counts as one that is under way until it is dropped.
pub(crate) struct OneUnderWay<'a>(&'a AtomicUsize);

impl<'a> OneUnderWay<'a> {
    fn of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for OneUnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request's place among those under way.
pub(crate) struct Turn<'a> {
    _place: Option<SemaphorePermit<'a>>,
    _counted: OneUnderWay<'a>,
}

/// The limits of one client.
pub(crate) struct Limits {
    in_flight: Semaphore,
    under_way: UnderWay,
    bucket: Option<Mutex<Bucket>>,
}

impl Limits {
    pub(crate) fn new(in_flight_max: usize, rate: Option<Rate>, under_way: UnderWay) -> Self {
        let in_flight_max = in_flight_max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            in_flight: Semaphore::new(in_flight_max),
            under_way,
            bucket: rate.and_then(Bucket::new).map(Mutex::new),
        }
    }

    /// Others beside these, whose requests are counted with theirs.
    pub(crate) fn beside(&self, in_flight_max: usize, rate: Option<Rate>) -> Self {
        Self::new(in_flight_max, rate, self.under_way.clone())
    }

    /// A list is under way from now on.
    pub(crate) fn list(&self) -> OneUnderWay<'_> {
        self.under_way.begin_list()
    }

    /// Waits until one more request may be under way, which it is from then on.
    pub(crate) async fn turn(&self, clock: &Clock) -> Turn<'_> {
        self.wait_for_rate(clock).await;
        // They are closed only when they are dropped.
        let place = self.in_flight.acquire().await.ok();
        Turn { _place: place, _counted: self.under_way.begin() }
    }

    /// Waits until one more request may be sent.
    pub(crate) async fn wait_for_rate(&self, clock: &Clock) {
        let Some(bucket) = &self.bucket else { return };
        let now = clock.monotonic();
        let wait = bucket.lock().unwrap_or_else(PoisonError::into_inner).take(now);
        if !wait.is_zero() {
            clock.sleep(wait).await;
        }
    }
}

/// The bucket: it gives each request the time at which it may be sent.
#[derive(Debug)]
pub(crate) struct Bucket {
    interval: Duration,
    slack: Duration,
    /// When the next request would be due if requests came evenly.
    next: Duration,
}

impl Bucket {
    /// `None` where the rate is not one: zero, negative or not a number.
    pub(crate) fn new(rate: Rate) -> Option<Self> {
        if !rate.qps.is_finite() || rate.qps <= 0.0 || rate.burst == 0 {
            return None;
        }
        let interval = Duration::try_from_secs_f64(1.0 / rate.qps).ok()?;
        Some(Self {
            interval,
            slack: interval.saturating_mul(rate.burst - 1),
            next: Duration::ZERO,
        })
    }

    /// Takes a token and returns how long to wait before it may be used.
    pub(crate) fn take(&mut self, now: Duration) -> Duration {
        // The debt model: `next` runs ahead of the present by what was sent in a burst.
        let due = self.next.max(now);
        self.next = due.saturating_add(self.interval);
        due.saturating_sub(self.slack).saturating_sub(now)
    }

    /// Takes a token that may be used at once; false where there is none, and none is taken.
    pub(crate) fn try_take(&mut self, now: Duration) -> bool {
        let is_there = self.next.max(now).saturating_sub(self.slack) <= now;
        is_there && self.take(now).is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_at_once_and_the_rest_evenly() {
        let mut bucket = Bucket::new(Rate { qps: 10.0, burst: 3 }).unwrap();
        let mut take = |now_ms| bucket.take(Duration::from_millis(now_ms)).as_millis();
        assert_eq!([take(0), take(0), take(0), take(0), take(0)], [0, 0, 0, 100, 200]);
        assert_eq!(take(1000), 0);
        assert_eq!([take(5000), take(5000), take(5000), take(5000)], [0, 0, 0, 100]);
    }

    #[test]
    fn who_does_not_wait_goes_only_while_there_are_tokens() {
        let mut bucket = Bucket::new(Rate { qps: 10.0, burst: 2 }).unwrap();
        let mut take = |now_ms| bucket.try_take(Duration::from_millis(now_ms));
        assert_eq!([take(0), take(0), take(0), take(99)], [true, true, false, false]);
        assert_eq!([take(100), take(100), take(300), take(300)], [true, false, true, true]);
    }

    #[test]
    fn the_slowest_rate_with_the_largest_burst_is_one() {
        let mut bucket = Bucket::new(Rate { qps: 1e-19, burst: u32::MAX }).unwrap();
        assert_eq!(bucket.take(Duration::ZERO), Duration::ZERO);
        assert_eq!(bucket.take(Duration::MAX), Duration::ZERO);
    }

    #[test]
    fn a_rate_that_is_none_is_refused() {
        for (qps, burst) in [(0.0, 1), (-1.0, 1), (f64::NAN, 1), (5.0, 0), (f64::INFINITY, 1)] {
            assert!(Bucket::new(Rate { qps, burst }).is_none(), "{qps} {burst}");
        }
    }
}
