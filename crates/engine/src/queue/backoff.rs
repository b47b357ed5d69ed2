//! How long a pod that was refused is left alone.

use std::time::Duration;

/// A moment: nanoseconds since 1970. Windows of back-off begin with its whole seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

/// Pods whose back-off ends within one window go by priority.
const WINDOW: u64 = 1_000_000_000;

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Moment {
    /// So much later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// How long it is since an earlier moment; nothing since a later one.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The start of its window.
    #[must_use]
    pub fn window(self) -> Self {
        Self(self.0 - self.0 % WINDOW)
    }

    /// The start of the window after its own: when a back-off until this moment is over.
    #[must_use]
    pub fn next_window(self) -> Self {
        Self(self.window().0.saturating_add(WINDOW))
    }

    /// The last of the moments that are whole intervals after a start.
    pub(super) fn last_beat(self, start: Self, interval: Duration) -> Self {
        let passed = self.0.saturating_sub(start.0);
        Self(start.0 + passed - passed % nanos(interval).max(1))
    }
}

/// How long a pod is left alone after so many failures in a row.
pub(super) fn backoff(initial: Duration, most: Duration, failures: u32) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    initial.saturating_mul(factor).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_back_off_doubles_up_to_its_most() {
        let check = |failures, expected| {
            let (initial, most) = (Duration::from_secs(1), Duration::from_secs(10));
            assert_eq!(backoff(initial, most, failures), Duration::from_secs(expected));
        };
        check(0, 0);
        check(1, 1);
        check(2, 2);
        check(4, 8);
        check(5, 10);
        check(33, 10);
        check(u32::MAX, 10);
    }

    #[test]
    fn windows_begin_with_whole_seconds() {
        let moment = Moment(1_999_999_999);
        assert_eq!(moment.window(), Moment(1_000_000_000));
        assert_eq!(moment.next_window(), Moment(2_000_000_000));
        let beat = Moment(95).last_beat(Moment(5), Duration::from_nanos(30));
        assert_eq!(beat, Moment(95));
        assert_eq!(Moment(94).last_beat(Moment(5), Duration::from_nanos(30)), Moment(65));
    }
}
