//! How long something may take, on the clock of the runtime, which a test can pause and move.
//!
//! **Invariant:** outside of `serve`, nothing else in this crate waits for time to pass. What a
//! client can read out of an answer comes from the [`Env`](crate::env::Env).
#![expect(clippy::disallowed_methods, reason = "this is where the runtime's clock enters")]

use std::time::Duration;

use tokio::time::Instant;

/// Longer than any process runs.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A moment that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// So long from now; what no clock can show is as good as never.
    pub(crate) fn after(duration: Duration) -> Self {
        let now = Instant::now();
        Self(now.checked_add(duration).unwrap_or_else(|| now + NEVER))
    }

    /// Whether the moment has come.
    pub(crate) fn has_passed(self) -> bool {
        Instant::now() >= self.0
    }

    /// How long it is until then.
    #[cfg(test)]
    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// What `future` gives, if it does so in time.
    pub(crate) async fn bound<F: Future>(self, future: F) -> Option<F::Output> {
        tokio::time::timeout_at(self.0, future).await.ok()
    }

    /// Waits for the moment.
    pub(crate) async fn reached(self) {
        tokio::time::sleep_until(self.0).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deadline_passes_when_its_time_has_come() {
        let deadline = Deadline::after(Duration::from_secs(5));
        assert!(!deadline.has_passed());
        assert_eq!(deadline.bound(std::future::ready(1)).await, Some(1));
        assert_eq!(deadline.bound(std::future::pending::<()>()).await, None);
        assert!(deadline.has_passed());
        deadline.reached().await;
        let never = Deadline::after(Duration::MAX);
        assert!(!never.has_passed() && never > deadline);
    }
}
