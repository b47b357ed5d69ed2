//! What is told after the work: notes wait while Bindings are under way, and not for long. So do words on
//! why pods have no node, which keep to the same [`Pace`].
//!
//! Work comes first, and notes when there is none, or when they are due. Where as much work is under way
//! as can be, the server cannot take both in time: then notes that are due get a share of the writes, and
//! the work the rest. Notes are handed over no faster than they are written, so that work which comes back
//! after a moment finds few of them before it. What is held is bounded.

use std::collections::VecDeque;
use std::time::Duration;

/// How long a note waits for work. What is written of it is there within 5 s, where the server
/// keeps up.
pub(crate) const HELD_MAX: Duration = Duration::from_millis(4500);
/// How much work is done for each note that is due.
const WORK_PER_NOTE: u32 = 5;
/// How much work counts at most for notes that come after it.
const WORK_COUNTED_MAX: u32 = 8 * WORK_PER_NOTE;
/// How many notes are held; with more of them, one is told for each that comes.
const NOTES_MAX: usize = 16_000;
/// Work of which nothing was done for so long stands still, and nothing waits for it.
const STANDSTILL: Duration = Duration::from_millis(250);

/// How much work is under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    /// None.
    #[default]
    None,
    /// Some.
    Some,
    /// About as much as can be.
    Crowded,
}

/// What is being written.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Busy {
    /// Work.
    pub(crate) work: Work,
    /// Whether as many notes wait to be written as are handed over.
    pub(crate) notes: bool,
}

impl Busy {
    /// Whether nothing is being written that anything else would have to wait for.
    pub(crate) fn is_idle(self) -> bool {
        self.work == Work::None && !self.notes
    }
}

/// When there is time for notes.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When work was last begun or done.
    worked: Duration,
    /// The work that was done and for which no note was told yet.
    done: u32,
}

impl Pace {
    /// Work is begun, or was then.
    pub(crate) fn begin(&mut self, at: Duration) {
        self.worked = self.worked.max(at);
    }

    /// Work is done.
    pub(crate) fn done(&mut self, now: Duration) {
        self.worked = now;
        self.done = (self.done + 1).min(WORK_COUNTED_MAX);
    }

    /// Whether there is time for a note of that age: while there is work, only for one that is due, and
    /// while work crowds only where that has its share.
    pub(crate) fn has_time(&self, since: Duration, now: Duration, work: Work) -> bool {
        let is_due = || now >= since.saturating_add(HELD_MAX);
        let stands_still = || now >= self.worked.saturating_add(STANDSTILL);
        match work {
            Work::None => true,
            Work::Some => is_due() || stands_still(),
            Work::Crowded => (is_due() && self.done >= WORK_PER_NOTE) || stands_still(),
        }
    }

    /// A note is told.
    pub(crate) fn tell(&mut self) {
        self.done = self.done.saturating_sub(WORK_PER_NOTE);
    }
}

/// Notes in the order in which they came.
#[derive(Debug)]
pub(crate) struct Later<T> {
    notes: VecDeque<(Duration, T)>,
    pace: Pace,
}

impl<T> Default for Later<T> {
    fn default() -> Self {
        Self { notes: VecDeque::new(), pace: Pace::default() }
    }
}

impl<T> Later<T> {
    /// Takes a note of something that was done at the monotonic time `now`.
    pub(crate) fn put(&mut self, now: Duration, note: T) {
        self.pace.done(now);
        self.notes.push_back((now, note));
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.notes.len()
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// The next note to be told; none while enough were handed over, or while there is no time for it.
    pub(crate) fn next(&mut self, now: Duration, busy: Busy) -> Option<T> {
        let (since, _) = self.notes.front()?;
        let must_wait = busy.notes || !self.pace.has_time(*since, now, busy.work);
        if must_wait && self.notes.len() <= NOTES_MAX {
            return None;
        }
        self.pace.tell();
        self.notes.pop_front().map(|(_, note)| note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Busy = Busy { work: Work::None, notes: false };
    const SOME: Busy = Busy { work: Work::Some, notes: false };
    const WORK: Busy = Busy { work: Work::Crowded, notes: false };
    const NOTES: Busy = Busy { work: Work::None, notes: true };

    fn at(millis: usize) -> Duration {
        Duration::from_millis(u64::try_from(millis).unwrap())
    }

    /// Work that is done once a millisecond, so many times, and what was told meanwhile.
    fn told_in(busy: Busy, count: usize) -> Vec<usize> {
        let mut later = Later::default();
        let mut told = Vec::new();
        for number in 0..count {
            later.put(at(number), number);
            while let Some(note) = later.next(at(number), busy) {
                told.push(note);
            }
        }
        told
    }

    #[test]
    fn notes_wait_for_work_that_ends_before_they_are_due() {
        assert_eq!(told_in(WORK, 4_500), [0_usize; 0]);
        let mut later = Later::default();
        later.put(at(0), "a");
        later.put(at(100), "b");
        assert_eq!(later.next(at(200), WORK), None);
        assert_eq!(later.next(at(200), NONE), Some("a"));
        assert!(!later.is_empty());
        assert_eq!(later.next(at(200), NONE), Some("b"));
        assert_eq!((later.next(at(200), NONE), later.is_empty()), (None, true));
    }

    #[test]
    fn notes_that_are_due_get_a_share() {
        let told = told_in(WORK, 5_500);
        let few = usize::try_from(WORK_COUNTED_MAX / WORK_PER_NOTE).unwrap() - 1;
        assert_eq!(told, (0..200 + few).collect::<Vec<_>>(), "one for each five after 4.5 s");
    }

    #[test]
    fn where_work_leaves_room_notes_are_told_when_they_are_due() {
        assert_eq!(told_in(SOME, 4_500), [0_usize; 0]);
        assert_eq!(told_in(SOME, 9_000), (0..4_500).collect::<Vec<_>>(), "none is late");
    }

    #[test]
    fn notes_are_handed_over_no_faster_than_they_are_written() {
        assert_eq!(told_in(NONE, 3), [0, 1, 2]);
        assert_eq!(told_in(NOTES, 10_000), [0_usize; 0], "whether they are due or not");
    }

    #[test]
    fn what_is_held_is_bounded() {
        let count = 40_000;
        for busy in [WORK, NOTES, Busy { notes: true, ..WORK }, Busy { notes: true, ..SOME }] {
            assert_eq!(told_in(busy, count).len(), count - NOTES_MAX, "{busy:?}");
        }
    }

    #[test]
    fn nothing_waits_for_work_that_stands_still() {
        let mut later = Later::default();
        later.put(at(0), "a");
        later.put(at(10), "b");
        assert_eq!(later.next(at(259), WORK), None);
        assert_eq!(later.next(at(260), WORK), Some("a"));
        assert_eq!(later.next(at(260), WORK), Some("b"));
    }
}
