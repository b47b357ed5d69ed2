//! Whether the engine's thread goes on, for those who look from outside: it may panic, which ends the
//! process, or stay in one turn, which nobody would notice while the lease is renewed beside it.
//!
//! What a turn does is nothing to this.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chassis::clock::Clock;
use chassis::serve::Health;

/// The name of the check under `/livez`.
const CHECK: &str = "engine";
/// A turn takes milliseconds; one that takes so long is told in the log.
const SLOW: Duration = Duration::from_secs(5);
/// After so long nobody waits for the end of a turn.
pub(crate) const STALLED: Duration = Duration::from_mins(1);
/// How often it is looked whether the thread goes on.
const LOOK: Duration = Duration::from_secs(1);
/// How often a turn has to be seen before it counts: a process that was stopped for a while finds all
/// its turns old.
const LOOKS_MIN: u32 = 5;
/// No turn is under way.
const IDLE: u64 = u64::MAX;

/// When the turn under way began; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Pulse {
    clock: Clock,
    /// Monotonic nanoseconds.
    begun: Arc<AtomicU64>,
}

impl Pulse {
    /// No turn is under way.
    pub(crate) fn new(clock: &Clock) -> Self {
        Self { clock: clock.clone(), begun: Arc::new(AtomicU64::new(IDLE)) }
    }

    /// A turn begins.
    pub(crate) fn begin(&self) {
        self.begun.store(nanos(self.clock.monotonic()), Ordering::Relaxed);
    }

    /// It is over.
    pub(crate) fn end(&self) {
        self.begun.store(IDLE, Ordering::Relaxed);
    }

    /// Which turn is under way, and for how long.
    fn turn(&self) -> Option<(u64, Duration)> {
        let begun = self.begun.load(Ordering::Relaxed);
        let lasts = self.clock.monotonic().saturating_sub(Duration::from_nanos(begun));
        (begun != IDLE).then_some((begun, lasts))
    }

    /// Fails while a turn takes longer than any should.
    fn check(&self) -> Result<(), String> {
        match self.turn() {
            Some((_, lasts)) if lasts >= STALLED => {
                Err(format!("the engine is in one turn for {} s", lasts.as_secs()))
            }
            _ => Ok(()),
        }
    }

    /// Adds the check to those of the process.
    pub(crate) fn watch(&self, health: &Health) {
        let own = self.clone();
        health.add_live(CHECK, move || own.check());
    }

    /// Comes when a turn takes longer than any should, and tells of slow ones before.
    pub(crate) async fn stalled(&self) {
        let (mut seen, mut looks, mut is_told) = (IDLE, 0, false);
        loop {
            self.clock.sleep(LOOK).await;
            let Some((begun, lasts)) = self.turn() else { continue };
            if begun != seen {
                (seen, looks, is_told) = (begun, 0, false);
            }
            looks += 1;
            if lasts >= SLOW && !std::mem::replace(&mut is_told, true) {
                tracing::warn!(seconds = lasts.as_secs(), "the engine is in one turn for long");
            }
            if lasts >= STALLED && looks >= LOOKS_MIN {
                return;
            }
        }
    }
}

/// The nanoseconds of a duration, up to some centuries.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(IDLE - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_turn_that_does_not_end_is_a_stall() {
        let (clock, hand) = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
        let (pulse, health) = (Pulse::new(&clock), Health::new());
        pulse.watch(&health);
        let own = pulse.clone();
        let watching = tokio::spawn(async move { own.stalled().await });
        let pass = async |time: Duration| {
            for _ in 0..time.as_secs() {
                for _ in 0..5 {
                    tokio::task::yield_now().await;
                }
                hand.advance(LOOK);
            }
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
        };
        // It waits for messages.
        pass(2 * STALLED).await;
        assert_eq!(health.check(CHECK), Ok(()));
        // It takes turns, none of them for long.
        for _ in 0..5 {
            pulse.begin();
            pass(STALLED / 2).await;
            pulse.end();
        }
        assert_eq!(health.check(CHECK), Ok(()));
        // The process was stopped in the middle of a turn.
        pulse.begin();
        hand.advance(3 * STALLED);
        pass(2 * LOOK).await;
        pulse.end();
        pass(STALLED).await;
        assert!(!watching.is_finished());
        pulse.begin();
        pass(STALLED - LOOK).await;
        assert!(health.check(CHECK).is_ok() && !watching.is_finished());
        pass(2 * LOOK).await;
        let words = "the engine is in one turn for 61 s";
        assert_eq!(health.check(CHECK), Err(words.to_owned()));
        assert!(watching.is_finished());
    }
}
