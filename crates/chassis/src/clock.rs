//! The time, as a thing that is handed to a component.
//!
//! A component asks its [`Clock`] and never the operating system, so that a test can
//! hold the time still, move it by an hour and see what the component does. Deadlines
//! and delays are counted in [`Clock::monotonic`] time, which never jumps; what is
//! written into objects is [`Clock::now`].

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::oneshot;

/// A handle on the time; clones share it.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System { started: std::time::Instant },
    Manual(Arc<Mutex<Manual>>),
}

#[derive(Debug)]
struct Manual {
    epoch: Timestamp,
    elapsed: Duration,
    next_id: u64,
    sleepers: BTreeMap<(Duration, u64), oneshot::Sender<()>>,
}

/// The hand that moves a manual clock.
#[derive(Clone, Debug)]
pub struct Hand(Arc<Mutex<Manual>>);

impl Clock {
    /// The clock of the machine.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System { started: std::time::Instant::now() })
    }

    /// A clock that stands at `start` until its hand is moved.
    #[must_use]
    pub fn manual(start: Timestamp) -> (Self, Hand) {
        let state = Arc::new(Mutex::new(Manual {
            epoch: start,
            elapsed: Duration::ZERO,
            next_id: 0,
            sleepers: BTreeMap::new(),
        }));
        (Self(Source::Manual(state.clone())), Hand(state))
    }

    /// The time of day, for what is written into objects.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System { .. } => Timestamp::now(),
            Source::Manual(state) => {
                let state = state.lock().unwrap_or_else(PoisonError::into_inner);
                state.epoch.saturating_add(state.elapsed).unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// The time since the clock was made; it never goes back.
    #[must_use]
    pub fn monotonic(&self) -> Duration {
        match &self.0 {
            Source::System { started } => started.elapsed(),
            Source::Manual(state) => state.lock().unwrap_or_else(PoisonError::into_inner).elapsed,
        }
    }

    /// Waits for `delay`.
    pub async fn sleep(&self, delay: Duration) {
        match &self.0 {
            Source::System { .. } => tokio::time::sleep(delay).await,
            Source::Manual(state) => sleep_manually(state, delay).await,
        }
    }

    /// Waits until [`Clock::monotonic`] reaches `due`.
    pub async fn sleep_until(&self, due: Duration) {
        self.sleep(due.saturating_sub(self.monotonic())).await;
    }

    /// The output of `work`, or `None` where it takes longer than `limit`.
    pub async fn timeout<F: Future>(&self, limit: Duration, work: F) -> Option<F::Output> {
        match &self.0 {
            Source::System { .. } => tokio::time::timeout(limit, work).await.ok(),
            Source::Manual(_) => tokio::select! {
                biased;
                output = work => Some(output),
                () = self.sleep(limit) => None,
            },
        }
    }
}

async fn sleep_manually(state: &Arc<Mutex<Manual>>, delay: Duration) {
    let woken = {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if delay.is_zero() {
            return;
        }
        let (wake, woken) = oneshot::channel();
        let due = state.elapsed.saturating_add(delay);
        let id = state.next_id;
        state.next_id += 1;
        // A sleeper whose future was dropped is forgotten here, not kept for ever.
        state.sleepers.retain(|_, sleeper| !sleeper.is_closed());
        state.sleepers.insert((due, id), wake);
        woken
    };
    // The sender lives in the clock that this handle keeps alive, so an error means only
    // that the clock is being torn down.
    let _ = woken.await;
}

impl Hand {
    /// Moves the clock on and wakes who is due, in order of their due times.
    pub fn advance(&self, by: Duration) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.elapsed = state.elapsed.saturating_add(by);
        let elapsed = state.elapsed;
        while let Some(sleeper) = state.sleepers.first_entry()
            && sleeper.key().0 <= elapsed
        {
            // Who no longer listens needs no waking.
            let _ = sleeper.remove().send(());
        }
    }

    /// How long until the next sleeper is due; `None` when nobody sleeps.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ((due, _), _) = state.sleepers.iter().find(|(_, sleeper)| !sleeper.is_closed())?;
        Some(due.saturating_sub(state.elapsed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_wakes_sleepers_when_their_time_has_come() {
        let (clock, hand) = Clock::manual(Timestamp::UNIX_EPOCH);
        assert_eq!(hand.next_due(), None);
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep(Duration::from_secs(3600)).await }
        });
        while hand.next_due().is_none() {
            tokio::task::yield_now().await;
        }
        hand.advance(Duration::from_secs(3599));
        assert_eq!(hand.next_due(), Some(Duration::from_secs(1)));
        hand.advance(Duration::from_secs(1));
        sleeper.await.unwrap();
        assert_eq!(clock.now().as_second(), 3600);
        assert_eq!(clock.monotonic(), Duration::from_secs(3600));
    }

    #[tokio::test]
    async fn a_timeout_on_a_manual_clock_fires_only_when_the_hand_moves() {
        let (clock, hand) = Clock::manual(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.timeout(Duration::from_secs(1), async { 7 }).await, Some(7));
        let waiting = tokio::spawn({
            let clock = clock.clone();
            async move { clock.timeout(Duration::from_secs(1), std::future::pending::<()>()).await }
        });
        while hand.next_due().is_none() {
            tokio::task::yield_now().await;
        }
        hand.advance(Duration::from_secs(1));
        assert_eq!(waiting.await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_dropped_sleeper_is_not_due() {
        let (clock, hand) = Clock::manual(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.timeout(Duration::from_secs(9), std::future::ready(1)).await, Some(1));
        assert_eq!(hand.next_due(), None);
    }
}
