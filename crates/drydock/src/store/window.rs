//! The recent past of a table: events in order, bounded by age and by size.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Revision, Stored};

/// How much of the past a table remembers. Watches resume, and pages of a list go on, from
/// what is remembered.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// Events older than this are forgotten,
    pub age_max: SignedDuration,
    /// and the oldest, while all of a table take more bytes than this,
    pub bytes_max: usize,
    /// but never the last so many.
    pub events_min: usize,
}

impl Default for Memory {
    /// As long as kube-apiserver lets etcd remember, where memory allows.
    fn default() -> Self {
        Self { age_max: SignedDuration::from_mins(5), bytes_max: 64 << 20, events_min: 64 }
    }
}

/// What an event takes beside the text of its object.
const EVENT_BYTES: usize = 256;

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It came to be.
    Added,
    /// It was written again.
    Modified,
    /// It was removed.
    Deleted,
}

/// One commit, as watchers see it.
#[derive(Debug)]
pub struct Event {
    /// What happened.
    pub change: Change,
    /// The object as it is now; after a deletion, its last form at the revision of the deletion.
    pub object: Arc<Stored>,
    /// The object as it was before.
    pub previous: Option<Arc<Stored>>,
}

impl Event {
    /// When it happened.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.object.revision
    }
}

#[derive(Debug)]
pub(super) struct Window {
    events: VecDeque<(Timestamp, Arc<Event>)>,
    bytes: usize,
    memory: Memory,
    /// Every event after this revision is in `events`.
    complete_after: Revision,
}

impl Window {
    pub(super) fn new(memory: Memory, now: Revision) -> Self {
        Self { events: VecDeque::new(), bytes: 0, memory, complete_after: now }
    }

    pub(super) fn push(&mut self, at: Timestamp, event: Event) {
        self.bytes += bytes(&event);
        self.events.push_back((at, Arc::new(event)));
        let too_old = |oldest: &Timestamp| at.duration_since(*oldest) > self.memory.age_max;
        while self.events.len() > self.memory.events_min.max(1)
            && let Some((oldest, event)) = self.events.front()
            && (self.bytes > self.memory.bytes_max || too_old(oldest))
        {
            self.complete_after = event.revision();
            self.bytes -= bytes(event);
            self.events.pop_front();
        }
    }

    /// Forgets all events up to now.
    pub(super) fn forget(&mut self, now: Revision) {
        self.events.clear();
        self.bytes = 0;
        self.complete_after = now;
    }

    /// The events after `revision`, or nothing where some are forgotten.
    fn since(&self, revision: Revision) -> Option<impl Iterator<Item = &Arc<Event>>> {
        let start = self.events.partition_point(|(_, event)| event.revision() <= revision);
        (revision >= self.complete_after)
            .then(|| self.events.range(start..).map(|(_, event)| event))
    }

    /// The oldest revision a watch can start from.
    pub(super) fn complete_after(&self) -> Revision {
        self.complete_after
    }

    /// At most `max` events after `revision`, or nothing where some are forgotten.
    pub(super) fn after(&self, revision: Revision, max: usize) -> Option<Vec<Arc<Event>>> {
        Some(self.since(revision)?.take(max).cloned().collect())
    }

    /// What the keys touched after `revision` held at `revision`.
    pub(super) fn undo(
        &self,
        revision: Revision,
    ) -> Option<BTreeMap<Arc<str>, Option<Arc<Stored>>>> {
        let mut held = BTreeMap::new();
        for event in self.since(revision)? {
            held.entry(Arc::clone(&event.object.key)).or_insert_with(|| event.previous.clone());
        }
        Some(held)
    }
}

fn bytes(event: &Event) -> usize {
    event.object.body.len() + EVENT_BYTES
}
