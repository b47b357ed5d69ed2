//! What is told after the work: notes wait while Bindings are under way, and not for long.

use std::collections::VecDeque;
use std::time::Duration;

/// How long a note waits at most. What is written of it is there two seconds later, where the
/// server keeps up.
const HELD_MAX: Duration = Duration::from_secs(3);

/// Notes in the order in which they came.
#[derive(Debug)]
pub(crate) struct Later<T>(VecDeque<(Duration, T)>);

impl<T> Default for Later<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Later<T> {
    /// Takes a note at the monotonic time `now`.
    pub(crate) fn put(&mut self, now: Duration, note: T) {
        self.0.push_back((now, note));
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next note to be told; while there is work, only one that has waited long enough.
    pub(crate) fn next(&mut self, now: Duration, is_busy: bool) -> Option<T> {
        let (since, _) = self.0.front()?;
        if is_busy && now.saturating_sub(*since) < HELD_MAX {
            return None;
        }
        self.0.pop_front().map(|(_, note)| note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_wait_for_work_and_not_for_long() {
        let at = Duration::from_secs;
        let mut later = Later::default();
        later.put(at(1), "a");
        later.put(at(2), "b");
        later.put(at(9), "c");
        assert_eq!(later.next(at(3), true), None);
        assert_eq!(later.next(at(4), true), Some("a"));
        assert_eq!(later.next(at(4), true), None);
        assert_eq!(later.next(at(4), false), Some("b"));
        assert!(!later.is_empty());
        assert_eq!(later.next(at(9), false), Some("c"));
        assert_eq!((later.next(at(9), false), later.is_empty()), (None, true));
    }
}
