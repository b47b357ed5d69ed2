//! What is told after the work: notes wait while Bindings are under way, and not for long.
//!
//! To hold a note back helps only where the work ends before the note is due: then all the work
//! comes first, and all notes after it. Where the work goes on for longer, a note that is held
//! takes as much from the work later as it would take now.

use std::collections::VecDeque;
use std::time::Duration;

/// How long a note waits at most. What is written of it is there a second later, where the server
/// keeps up.
const HELD_MAX: Duration = Duration::from_secs(4);
/// How long work is watched to see how quickly it goes.
const WINDOW: Duration = Duration::from_millis(250);

/// Notes in the order in which they came.
#[derive(Debug)]
pub(crate) struct Later<T> {
    notes: VecDeque<(Duration, T)>,
    pace: Pace,
}

/// How quickly work is done, and how much of it is left.
#[derive(Debug, Default)]
struct Pace {
    /// When this window began, and what was done in it.
    window: Option<(Duration, u32)>,
    /// The most that was done in a second since the work began.
    best: f64,
    left: usize,
}

impl Pace {
    fn done(&mut self, now: Duration, left: usize) {
        let (begun, count) = self.window.get_or_insert((now, 0));
        *count += 1;
        let passed = now.saturating_sub(*begun);
        if passed >= WINDOW {
            self.best = self.best.max(f64::from(*count) / passed.as_secs_f64());
            self.window = Some((now, 0));
        }
        self.left = left;
    }

    /// For how long work goes on if nothing but work is done; nothing is known of it at first.
    fn rest(&self) -> Option<Duration> {
        let seconds = self.left as f64 / self.best;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

impl<T> Default for Later<T> {
    fn default() -> Self {
        Self { notes: VecDeque::new(), pace: Pace::default() }
    }
}

impl<T> Later<T> {
    /// Takes a note of something that was done at the monotonic time `now`, with so much left to
    /// do.
    pub(crate) fn put(&mut self, now: Duration, left: usize, note: T) {
        self.pace.done(now, left);
        self.notes.push_back((now, note));
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// The next note to be told; while there is work, only one that is due, or would be before the
    /// work ends.
    pub(crate) fn next(&mut self, now: Duration, is_busy: bool) -> Option<T> {
        if !is_busy {
            self.pace = Pace::default();
        }
        let (since, _) = self.notes.front()?;
        let ends = now.saturating_add(self.pace.rest().unwrap_or_default());
        if is_busy && ends < since.saturating_add(HELD_MAX) {
            return None;
        }
        self.notes.pop_front().map(|(_, note)| note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn notes_wait_for_work_and_not_for_long() {
        let mut later = Later::default();
        later.put(at(1.0), 0, "a");
        later.put(at(2.0), 0, "b");
        later.put(at(9.0), 0, "c");
        assert_eq!(later.next(at(4.9), true), None);
        assert_eq!(later.next(at(5.0), true), Some("a"));
        assert_eq!(later.next(at(5.0), true), None);
        assert_eq!(later.next(at(5.0), false), Some("b"));
        assert!(!later.is_empty());
        assert_eq!(later.next(at(9.0), false), Some("c"));
        assert_eq!((later.next(at(9.0), false), later.is_empty()), (None, true));
    }

    #[test]
    fn notes_wait_only_for_work_that_ends_before_they_are_due() {
        // A thousand a second are done, once that is known.
        let told_with_left = |left: usize| {
            let mut later = Later::default();
            for done in 0..1_000_u32 {
                later.put(at(f64::from(done) / 1000.0), left, done);
            }
            later.next(at(1.0), true).is_some()
        };
        assert!(!told_with_left(0));
        assert!(!told_with_left(2_900));
        assert!(told_with_left(3_100));
        assert!(told_with_left(100_000));
    }

    #[test]
    fn how_quickly_work_goes_is_forgotten_when_it_ends() {
        let mut later = Later::default();
        for done in 0..100_u32 {
            later.put(at(f64::from(done) / 100.0), 100_000, done);
        }
        while later.next(at(1.0), false).is_some() {}
        later.put(at(2.0), 100_000, 7);
        assert_eq!(later.next(at(2.0), true), None);
    }
}
