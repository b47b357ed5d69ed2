//! Time as the engine is told it.

use std::time::Duration;

use object::time::Time;

/// A moment: nanoseconds since 1970. Windows of back-off begin with its whole seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

/// Pods whose back-off ends within one window go by priority.
const WINDOW: u64 = 1_000_000_000;

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl From<Time> for Moment {
    /// What is before 1970 is long ago, and what is beyond the last moment is the last one.
    fn from(time: Time) -> Self {
        let nanos = time.timestamp().as_nanosecond().clamp(0, i128::from(u64::MAX));
        Self(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
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
    pub(crate) fn last_beat(self, start: Self, interval: Duration) -> Self {
        let passed = self.0.saturating_sub(start.0);
        Self(start.0 + passed - passed % nanos(interval).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_no_moment_is_the_nearest_one() {
        let check = |time: &str, expected: u64| {
            assert_eq!(Moment::from(time.parse::<Time>().unwrap()), Moment(expected), "{time}");
        };
        check("1970-01-01T00:00:07Z", 7_000_000_000);
        check("1969-12-31T23:59:59Z", 0);
        check("0001-01-01T00:00:00Z", 0);
        check("2555-01-01T00:00:00Z", u64::MAX);
        check("9999-12-31T23:59:59Z", u64::MAX);
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
