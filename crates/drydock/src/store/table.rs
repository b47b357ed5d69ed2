//! The objects of one resource, now and a little while ago.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use tokio::sync::watch;

use super::window::Window;
use super::{Change, Contradicted, Event, Expect, Revision, Stored, UNPOISONED, Write};

/// The revision asked for is no longer known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone {
    /// The oldest revision that still is.
    pub oldest: Revision,
}

/// The objects of one resource.
pub struct Table {
    state: RwLock<State>,
    revision: Arc<AtomicU64>,
    latest: watch::Sender<Revision>,
}

struct State {
    objects: BTreeMap<Arc<str>, Arc<Stored>>,
    window: Window,
    gate: Gate,
}

/// What a table still takes. It only ever takes less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Everything.
    Open,
    /// Nothing new: what it holds may change and go.
    Ending,
    /// Nothing: another table has taken its place, or none. Its readers come to an end.
    Closed,
}

impl Table {
    pub(super) fn new(revision: Arc<AtomicU64>, window_events: usize) -> Self {
        let now = revision.load(Ordering::Acquire);
        let window = Window::new(window_events, now);
        let state = State { objects: BTreeMap::new(), window, gate: Gate::Open };
        Self { state: RwLock::new(state), revision, latest: watch::Sender::new(now) }
    }

    /// The object under `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Arc<Stored>> {
        self.state.read().expect(UNPOISONED).objects.get(key).cloned()
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.read().expect(UNPOISONED).objects.len()
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects whose key starts with `prefix`, in key order, and the revision they show.
    #[must_use]
    pub fn list(&self, prefix: &str) -> (Vec<Arc<Stored>>, Revision) {
        let state = self.state.read().expect(UNPOISONED);
        // Read under the table's lock: no commit to this table can be half seen.
        let revision = self.revision.load(Ordering::Acquire);
        (range(&state.objects, prefix).map(|(_, stored)| Arc::clone(stored)).collect(), revision)
    }

    /// The same list as it was at `revision`.
    ///
    /// # Errors
    /// When that is too long ago.
    pub fn list_at(&self, prefix: &str, revision: Revision) -> Result<Vec<Arc<Stored>>, Gone> {
        let state = self.state.read().expect(UNPOISONED);
        let oldest = state.window.complete_after();
        let held = state.window.undo(revision).ok_or(Gone { oldest })?;
        let mut then: BTreeMap<&str, Arc<Stored>> = range(&state.objects, prefix)
            .filter(|(key, _)| !held.contains_key(*key))
            .map(|(key, stored)| (&**key, Arc::clone(stored)))
            .collect();
        for (key, stored) in held.iter().filter(|(key, _)| key.starts_with(prefix)) {
            if let Some(stored) = stored {
                then.insert(key, Arc::clone(stored));
            }
        }
        Ok(then.into_values().collect())
    }

    /// Everything that happens after `revision`.
    ///
    /// # Errors
    /// When that is too long ago.
    pub fn tail(self: &Arc<Self>, revision: Revision) -> Result<Tail, Gone> {
        let oldest = self.state.read().expect(UNPOISONED).window.complete_after();
        if revision < oldest {
            return Err(Gone { oldest });
        }
        Ok(Tail { table: Arc::clone(self), seen: revision, latest: self.latest.subscribe() })
    }

    /// What the table still takes.
    #[must_use]
    pub fn gate(&self) -> Gate {
        self.state.read().expect(UNPOISONED).gate
    }

    /// Takes nothing new from now on.
    pub fn end(&self) {
        let mut state = self.state.write().expect(UNPOISONED);
        if state.gate == Gate::Open {
            state.gate = Gate::Ending;
        }
    }

    /// Takes nothing from now on, and tells the readers.
    pub(super) fn close(&self) {
        self.state.write().expect(UNPOISONED).gate = Gate::Closed;
        self.latest.send_modify(|_| ());
    }

    /// Fills a new table with the objects of another, each with the selectable fields that
    /// `fields` finds, and closes the other.
    pub(super) fn take_over(&self, other: &Self, fields: impl Fn(&Stored) -> Box<[Box<str>]>) {
        let (objects, gate) = {
            let state = other.state.read().expect(UNPOISONED);
            (state.objects.clone(), state.gate)
        };
        other.close();
        let objects = objects.into_iter().map(|(key, stored)| {
            let fields = fields(&stored);
            if fields == stored.fields {
                return (key, stored);
            }
            let (body, labels) = (stored.body.clone(), stored.labels.clone());
            let stored =
                Stored { key: Arc::clone(&key), revision: stored.revision, body, labels, fields };
            (key, Arc::new(stored))
        });
        let mut state = self.state.write().expect(UNPOISONED);
        state.objects = objects.collect();
        state.gate = gate;
    }

    pub(super) fn forget_history(&self, now: Revision) {
        self.state.write().expect(UNPOISONED).window.forget(now);
    }

    pub(super) fn apply(
        &self,
        revision: Revision,
        key: &Arc<str>,
        expect: Expect,
        write: Write,
    ) -> Result<Arc<Stored>, Contradicted> {
        let mut state = self.state.write().expect(UNPOISONED);
        let previous = state.objects.get(key).cloned();
        let met = match (expect, &previous) {
            (Expect::Absent, None) => true,
            (Expect::At(expected), Some(stored)) => stored.revision == expected,
            _ => false,
        };
        let met = met
            && match state.gate {
                Gate::Open => true,
                Gate::Ending => expect != Expect::Absent,
                Gate::Closed => false,
            };
        if !met {
            return Err(Contradicted { current: previous });
        }
        let (object, change) = match write {
            Write::Put(draft) => {
                let object = Arc::new(draft.at(key, revision));
                state.objects.insert(Arc::clone(key), Arc::clone(&object));
                (object, if previous.is_none() { Change::Added } else { Change::Modified })
            }
            Write::Remove(draft) => {
                state.objects.remove(key);
                (Arc::new(draft.at(key, revision)), Change::Deleted)
            }
        };
        state.window.push(Event { change, object: Arc::clone(&object), previous });
        self.revision.store(revision, Ordering::Release);
        drop(state);
        self.latest.send_replace(revision);
        Ok(object)
    }
}

fn range<'a>(
    objects: &'a BTreeMap<Arc<str>, Arc<Stored>>,
    prefix: &'a str,
) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<Stored>)> {
    objects
        .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
        .take_while(move |(key, _)| key.starts_with(prefix))
}

/// A reader that follows a table from some revision on. It holds no queue: a
/// reader that falls behind the window is told so.
pub struct Tail {
    table: Arc<Table>,
    seen: Revision,
    latest: watch::Receiver<Revision>,
}

impl Tail {
    /// The revision up to which everything has been returned.
    #[must_use]
    pub fn seen(&self) -> Revision {
        self.seen
    }

    /// At most `max` further events, at once; empty when there are none yet.
    ///
    /// # Errors
    /// When the reader is too slow and events it has not seen are forgotten.
    pub fn take(&mut self, max: usize) -> Result<Vec<Arc<Event>>, Gone> {
        let state = self.table.state.read().expect(UNPOISONED);
        let current = self.table.revision.load(Ordering::Acquire);
        let oldest = state.window.complete_after();
        let events = state.window.after(self.seen, max).ok_or(Gone { oldest })?;
        drop(state);
        self.seen = match events.last() {
            Some(last) if events.len() == max => last.revision(),
            // A table at rest has seen all that other tables did, so that bookmarks advance.
            _ => self.seen.max(current),
        };
        Ok(events)
    }

    /// Whether everything has been returned and nothing will follow.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let state = self.table.state.read().expect(UNPOISONED);
        let rest = state.window.after(self.seen, 1);
        state.gate == Gate::Closed && rest.is_some_and(|rest| rest.is_empty())
    }

    /// Waits until the table has changed since it was last asked.
    pub async fn changed(&mut self) {
        // The sender lives in the table this reader holds, so it cannot be gone.
        let _ = self.latest.changed().await;
    }
}
