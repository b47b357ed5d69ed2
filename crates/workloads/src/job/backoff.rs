//! How long a job waits after failures before it tries again.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The wait after one failure.
const WAIT_MIN: SignedDuration = SignedDuration::from_secs(10);
/// The longest wait.
const WAIT_MAX: SignedDuration = SignedDuration::from_mins(10);

/// The failures of a job since its last success.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
    last: Option<Timestamp>,
}

impl Backoff {
    /// So many failures, the last of them at this time.
    #[must_use]
    pub fn new(failures: u32, last: Timestamp) -> Self {
        Self { failures, last: Some(last) }
    }

    /// The same after more pods have succeeded and failed, at these times. Failures before
    /// the last success do not count.
    #[must_use]
    pub fn after(self, succeeded: &[Timestamp], failed: &[Timestamp]) -> Self {
        let Some(success) = succeeded.iter().max() else {
            let failures = u32::try_from(failed.len()).unwrap_or(u32::MAX);
            let last = self.last.max(failed.iter().max().copied());
            return Self { failures: self.failures.saturating_add(failures), last };
        };
        let later = || failed.iter().filter(|at| *at > success);
        Self {
            failures: u32::try_from(later().count()).unwrap_or(u32::MAX),
            last: later().max().copied(),
        }
    }

    /// How long to wait from now; `None` when there is no need.
    #[must_use]
    pub fn wait(self, now: Timestamp) -> Option<Duration> {
        let last = self.last.filter(|_| self.failures > 0)?;
        let doublings = (self.failures - 1).min(16);
        let wait = (WAIT_MIN * (1 << doublings)).min(WAIT_MAX);
        let left = wait - now.duration_since(last);
        Duration::try_from(left).ok().filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::testing::at;

    #[test]
    fn the_wait_doubles_with_each_failure_and_ends_with_a_success() {
        let check = |succeeded: &[i64], failed: &[i64], now, want: Option<u64>| {
            let times = |list: &[i64]| list.iter().map(|n| at(*n)).collect::<Vec<_>>();
            let backoff = Backoff::default().after(&times(succeeded), &times(failed));
            assert_eq!(backoff.wait(at(now)).map(|wait| wait.as_secs()), want);
        };
        check(&[], &[], 0, None);
        check(&[], &[5], 5, Some(10));
        check(&[], &[5], 12, Some(3));
        check(&[], &[5], 15, None);
        check(&[], &[5, 6], 6, Some(20));
        check(&[], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 10, Some(600));
        check(&[7], &[5, 6], 8, None);
        check(&[5], &[4, 6], 8, Some(8));
    }
}
