//! The recent past of a table: a bounded ring of events.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Revision, Stored};

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
    events: VecDeque<Arc<Event>>,
    capacity: usize,
    /// Every event after this revision is in `events`.
    complete_after: Revision,
}

impl Window {
    pub(super) fn new(capacity: usize, now: Revision) -> Self {
        Self { events: VecDeque::new(), capacity: capacity.max(1), complete_after: now }
    }

    pub(super) fn push(&mut self, event: Event) {
        if self.events.len() == self.capacity
            && let Some(oldest) = self.events.pop_front()
        {
            self.complete_after = oldest.revision();
        }
        self.events.push_back(Arc::new(event));
    }

    /// Forgets all events up to now.
    pub(super) fn forget(&mut self, now: Revision) {
        self.events.clear();
        self.complete_after = now;
    }

    /// The oldest revision a watch can start from.
    pub(super) fn complete_after(&self) -> Revision {
        self.complete_after
    }

    /// At most `max` events after `revision`, or nothing where some are forgotten.
    pub(super) fn after(&self, revision: Revision, max: usize) -> Option<Vec<Arc<Event>>> {
        if revision < self.complete_after {
            return None;
        }
        let start = self.events.partition_point(|event| event.revision() <= revision);
        Some(self.events.range(start..).take(max).cloned().collect())
    }

    /// What the keys touched after `revision` held at `revision`.
    pub(super) fn undo(
        &self,
        revision: Revision,
    ) -> Option<BTreeMap<Arc<str>, Option<Arc<Stored>>>> {
        if revision < self.complete_after {
            return None;
        }
        let start = self.events.partition_point(|event| event.revision() <= revision);
        let mut held = BTreeMap::new();
        for event in self.events.range(start..) {
            held.entry(Arc::clone(&event.object.key)).or_insert_with(|| event.previous.clone());
        }
        Some(held)
    }
}
