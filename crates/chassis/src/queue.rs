//! Which keys a controller has to look at, and when.
//!
//! A key that is asked for many times before anyone looks is looked at once; a key that is
//! being looked at is never given out a second time, but once more afterwards if it was
//! asked for meanwhile; a key that failed waits, longer each time. The time is an argument.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::backoff::Backoff;

/// The wait after a first failure.
const RETRY_MIN: Duration = Duration::from_millis(5);
/// The longest wait after failures.
const RETRY_MAX: Duration = Duration::from_mins(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Due later, or only remembered for its failures.
    Waiting,
    /// In line.
    Ready,
    /// Given out.
    Running,
    /// Given out, and asked for again.
    RunningAgain,
}

#[derive(Debug)]
struct Entry {
    place: Place,
    due: Option<Duration>,
    failures: u32,
}

/// A queue of keys without doubles.
#[derive(Debug)]
pub struct WorkQueue<K> {
    entries: BTreeMap<K, Entry>,
    ready: VecDeque<K>,
    delayed: BTreeSet<(Duration, K)>,
    backoff: Backoff,
}

impl<K: Ord + Clone> WorkQueue<K> {
    /// An empty queue; `seed` spreads the waits after failures.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            entries: BTreeMap::new(),
            ready: VecDeque::new(),
            delayed: BTreeSet::new(),
            backoff: Backoff::new(RETRY_MIN, RETRY_MAX, seed),
        }
    }

    /// Asks for a key to be looked at as soon as possible, and says whether that is news:
    /// a key that is in line already stays where it is.
    pub fn add(&mut self, key: K) -> bool {
        let entry = self.entries.entry(key.clone()).or_insert(Entry {
            place: Place::Waiting,
            due: None,
            failures: 0,
        });
        match entry.place {
            Place::Ready | Place::RunningAgain => return false,
            Place::Running => entry.place = Place::RunningAgain,
            Place::Waiting => {
                entry.place = Place::Ready;
                if let Some(due) = entry.due.take() {
                    self.delayed.remove(&(due, key.clone()));
                }
                self.ready.push_back(key);
            }
        }
        true
    }

    /// Asks for a key to be looked at when `due` has come; of two times the earlier holds.
    pub fn add_at(&mut self, key: K, due: Duration) {
        let entry = self.entries.entry(key.clone()).or_insert(Entry {
            place: Place::Waiting,
            due: None,
            failures: 0,
        });
        if entry.place == Place::Ready || entry.due.is_some_and(|earlier| earlier <= due) {
            return;
        }
        if let Some(later) = entry.due.replace(due) {
            self.delayed.remove(&(later, key.clone()));
        }
        self.delayed.insert((due, key));
    }

    /// The next key to look at; [`WorkQueue::done`] or [`WorkQueue::failed`] must follow.
    pub fn take(&mut self, now: Duration) -> Option<K> {
        while let Some((due, _)) = self.delayed.first()
            && *due <= now
            && let Some((_, key)) = self.delayed.pop_first()
        {
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.due = None;
            }
            self.add(key);
        }
        let key = self.ready.pop_front()?;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.place = Place::Running;
        }
        Some(key)
    }

    /// The key was looked at, and all is well: its failures are forgotten.
    pub fn done(&mut self, key: &K) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.failures = 0;
        }
        self.release(key);
    }

    /// The key was looked at, and must be again: it is due after a wait, which is
    /// returned. The wait is no shorter than `asked`, within the bound of all waits: a server
    /// that asks for an hour does not stop a controller for one.
    pub fn failed(&mut self, key: &K, now: Duration, asked: Option<Duration>) -> Duration {
        let failures = self.entries.get_mut(key).map_or(0, |entry| {
            entry.failures = entry.failures.saturating_add(1);
            entry.failures - 1
        });
        let wait = self.backoff.wait(failures).max(asked.unwrap_or_default().min(RETRY_MAX));
        self.release(key);
        self.add_at(key.clone(), now.saturating_add(wait));
        wait
    }

    fn release(&mut self, key: &K) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        match entry.place {
            Place::RunningAgain => {
                entry.place = Place::Waiting;
                self.add(key.clone());
            }
            Place::Running => {
                entry.place = Place::Waiting;
                if entry.due.is_none() && entry.failures == 0 {
                    self.entries.remove(key);
                }
            }
            Place::Waiting | Place::Ready => {}
        }
    }

    /// When the next delayed key is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        self.delayed.first().map(|(due, _)| *due)
    }

    /// How many keys are in line now.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Whether the queue holds nothing at all: none in line, delayed or given out.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_key_asked_for_twice_is_given_once() {
        let mut queue = WorkQueue::new(0);
        queue.add("a");
        queue.add("b");
        queue.add("a");
        assert_eq!(
            [queue.take(ms(0)), queue.take(ms(0)), queue.take(ms(0))],
            [Some("a"), Some("b"), None]
        );
    }

    #[test]
    fn a_key_asked_for_while_running_comes_again_afterwards() {
        let mut queue = WorkQueue::new(0);
        queue.add("a");
        assert_eq!(queue.take(ms(0)), Some("a"));
        queue.add("a");
        queue.add("a");
        assert_eq!(queue.take(ms(0)), None);
        queue.done(&"a");
        assert_eq!(queue.take(ms(0)), Some("a"));
        queue.done(&"a");
        assert!(queue.is_idle());
    }

    #[test]
    fn of_two_due_times_the_earlier_holds_and_now_beats_both() {
        let mut queue = WorkQueue::new(0);
        queue.add_at("a", ms(50));
        queue.add_at("a", ms(20));
        queue.add_at("a", ms(70));
        assert_eq!((queue.take(ms(19)), queue.next_due()), (None, Some(ms(20))));
        assert_eq!(queue.take(ms(20)), Some("a"));
        queue.done(&"a");
        assert!(queue.is_idle());
        queue.add_at("b", ms(90));
        queue.add("b");
        assert_eq!((queue.take(ms(0)), queue.next_due()), (Some("b"), None));
    }

    #[test]
    fn failures_wait_longer_each_time_until_one_success() {
        let mut queue = WorkQueue::new(3);
        let mut now = ms(0);
        queue.add("a");
        for n in 0..30 {
            assert_eq!(queue.take(now), Some("a"));
            let full = RETRY_MIN.saturating_mul(1 << n.min(20)).min(RETRY_MAX);
            let wait = queue.failed(&"a", now, None);
            assert!(wait >= full / 2 && wait <= full, "{n} {wait:?}");
            now += wait;
        }
        assert_eq!(queue.take(now), Some("a"));
        queue.done(&"a");
        queue.add("a");
        assert_eq!(queue.take(now), Some("a"));
        assert!(queue.failed(&"a", now, None) <= RETRY_MIN);
        assert_eq!(queue.take(now + RETRY_MIN), Some("a"));
        assert_eq!(queue.failed(&"a", now, Some(ms(7000))), ms(7000));
        now += ms(7000);
        assert_eq!(queue.take(now), Some("a"));
        assert_eq!(queue.failed(&"a", now, Some(Duration::MAX)), RETRY_MAX);
    }

    proptest! {
        /// Every key asked for is given out, never twice at once, and the queue empties.
        #[test]
        fn no_key_is_lost_or_given_twice_at_once(
            steps in prop::collection::vec((0..5u8, 0..4u8, 0..40u64), 0..200),
        ) {
            let mut queue = WorkQueue::new(1);
            let (mut now, mut running, mut owed) = (ms(0), BTreeSet::new(), BTreeSet::new());
            for (action, key, gap) in steps {
                now += ms(gap);
                match action {
                    0 => { queue.add(key); owed.insert(key); }
                    1 => { queue.add_at(key, now + ms(gap)); owed.insert(key); }
                    2 => if let Some(key) = queue.take(now) {
                        prop_assert!(running.insert(key));
                        owed.remove(&key);
                    },
                    3 => if running.remove(&key) { queue.done(&key); },
                    _ => if running.remove(&key) { queue.failed(&key, now, None); owed.insert(key); },
                }
            }
            for key in running {
                queue.done(&key);
            }
            now += RETRY_MAX * 2;
            while let Some(key) = queue.take(now) {
                owed.remove(&key);
                queue.done(&key);
            }
            prop_assert!(owed.is_empty(), "never given: {owed:?}");
            prop_assert!(queue.is_idle());
        }
    }
}
