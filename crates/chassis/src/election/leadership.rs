//! What a leader carries, and what watches over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Clock;
use crate::serve::Health;

/// The name of the health check, as Kubernetes' components have it.
const CHECK_NAME: &str = "leaderElection";
/// Nothing is held.
const NEVER: u64 = u64::MAX;

/// A time of the monotonic clock in an atomic: it is asked before each write.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER - 1)
}

/// One time of leading, from its start to its end; clones share it.
///
/// It is valid for the renew deadline after the last renewal was sent, which is over before
/// anyone else may lead. The rest of the lease duration (5 s by default) is what a write that
/// was begun while it was valid may take to land.
#[derive(Debug, Clone)]
pub struct Leadership {
    epoch: u64,
    /// Monotonic nanoseconds; zero when it is over for good.
    until: Arc<AtomicU64>,
}

impl Leadership {
    /// Whether a write may be sent at the monotonic time `now`. Once lost it stays lost; while
    /// renewals fail it may be invalid for a while and come back.
    #[must_use]
    pub fn is_valid(&self, now: Duration) -> bool {
        !self.left(now).is_zero()
    }

    /// How long it stays valid if it is not renewed.
    #[must_use]
    pub fn left(&self, now: Duration) -> Duration {
        let until = self.until.load(Ordering::Acquire);
        Duration::from_nanos(until.saturating_sub(nanos(now)))
    }

    /// A number that is greater than that of every term before, on this Lease or one of the
    /// same name that was deleted: the resource version that began the term.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// The end of a [`Leadership`] that grants and takes.
#[derive(Debug)]
pub(super) struct Term(Leadership);

impl Term {
    pub(super) fn new(epoch: u64, until: Duration) -> Self {
        Self(Leadership { epoch, until: Arc::new(AtomicU64::new(nanos(until))) })
    }

    pub(super) fn leadership(&self) -> Leadership {
        self.0.clone()
    }

    pub(super) fn renew(&self, until: Duration) {
        self.0.until.store(nanos(until), Ordering::Release);
    }

    pub(super) fn revoke(&self) {
        self.0.until.store(0, Ordering::Release);
    }
}

impl Drop for Term {
    /// Whatever ends the election ends the leadership.
    fn drop(&mut self) {
        self.revoke();
    }
}

/// Notices a leader that neither renews its Lease nor ends; clones share what they know.
#[derive(Debug, Clone)]
pub struct Watchdog {
    name: Arc<str>,
    clock: Clock,
    lease_duration: Duration,
    /// Monotonic nanoseconds of the last renewal.
    renewed: Arc<AtomicU64>,
}

impl Watchdog {
    pub(super) fn new(name: &str, clock: Clock, lease_duration: Duration) -> Self {
        let renewed = Arc::new(AtomicU64::new(NEVER));
        Self { name: name.into(), clock, lease_duration, renewed }
    }

    pub(super) fn renewed(&self) {
        self.renewed.store(nanos(self.clock.monotonic()), Ordering::Release);
    }

    pub(super) fn gave_up(&self) {
        self.renewed.store(NEVER, Ordering::Release);
    }

    /// Fails when the Lease is ours and should have been renewed more than `tolerance` ago.
    /// Candidates are well.
    ///
    /// # Errors
    /// In client-go's words.
    pub fn check(&self, tolerance: Duration) -> Result<(), String> {
        let renewed = self.renewed.load(Ordering::Acquire);
        let silent = nanos(self.clock.monotonic()).saturating_sub(renewed);
        if renewed == NEVER || silent <= nanos(self.lease_duration.saturating_add(tolerance)) {
            return Ok(());
        }
        Err(format!("failed election to renew leadership on lease {}", self.name))
    }

    /// Adds the check to those of the process, as `leaderElection`. Kubernetes' components
    /// tolerate 20 s.
    pub fn watch(&self, health: &Health, tolerance: Duration) {
        let own = self.clone();
        health.add_live(CHECK_NAME, move || own.check(tolerance));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_leadership_is_valid_until_its_end_and_never_after_it_is_revoked() {
        let term = Term::new(7, 10 * SECOND);
        let (own, clone) = (term.leadership(), term.leadership().clone());
        assert_eq!(own.epoch(), 7);
        assert!(own.is_valid(Duration::ZERO));
        assert!(own.is_valid(10 * SECOND - Duration::from_nanos(1)));
        assert!(!own.is_valid(10 * SECOND));
        assert_eq!(own.left(4 * SECOND), 6 * SECOND);
        term.renew(12 * SECOND);
        assert!(clone.is_valid(11 * SECOND));
        drop(term);
        assert!(!own.is_valid(Duration::ZERO) && !clone.is_valid(Duration::ZERO));
    }

    #[test]
    fn the_watchdog_barks_at_a_holder_that_is_silent_beyond_the_tolerance() {
        let (clock, hand) = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
        let dog = Watchdog::new("kube-scheduler", clock, 15 * SECOND);
        let health = Health::new();
        dog.watch(&health, 20 * SECOND);
        hand.advance(1000 * SECOND);
        assert_eq!(health.check("leaderElection"), Ok(()), "a candidate");
        dog.renewed();
        hand.advance(35 * SECOND);
        assert_eq!(health.check("leaderElection"), Ok(()), "not yet");
        hand.advance(Duration::from_nanos(1));
        let words = "failed election to renew leadership on lease kube-scheduler";
        assert_eq!(health.check("leaderElection"), Err(words.to_owned()));
        dog.renewed();
        assert_eq!(dog.check(Duration::ZERO), Ok(()));
        hand.advance(1000 * SECOND);
        dog.gave_up();
        assert_eq!(dog.check(Duration::ZERO), Ok(()));
    }
}
