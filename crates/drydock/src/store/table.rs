//! The objects of one resource, now and a little while ago.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use jiff::Timestamp;

use super::news::{Listener, News};
use super::window::{Memory, Window};
use super::{Change, Contradicted, Event, Expect, Revision, Stored, Write};
use crate::UNPOISONED;

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
    news: News,
}

struct State {
    objects: BTreeMap<Arc<str>, Arc<Stored>>,
    window: Window,
    gate: Gate,
    /// The last revision that the objects show, once the table is closed. The revision goes on
    /// with other tables, and what happens in a successor is not seen here.
    closed_at: Revision,
}

impl State {
    /// The newest revision that the objects show. `revision` is read while the state is held, so
    /// that no commit to this table can be half seen.
    fn shows(&self, revision: &AtomicU64) -> Revision {
        revision.load(Ordering::Acquire).min(self.closed_at)
    }
}

/// What a table still takes. One that is closed stays so.
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
    pub(super) fn new(revision: Arc<AtomicU64>, memory: Memory) -> Self {
        let now = revision.load(Ordering::Acquire);
        Self::holding(BTreeMap::new(), Gate::Open, now, revision, memory)
    }

    /// A table of objects of which none is newer than `now`, where its history begins.
    fn holding(
        objects: BTreeMap<Arc<str>, Arc<Stored>>,
        gate: Gate,
        now: Revision,
        revision: Arc<AtomicU64>,
        memory: Memory,
    ) -> Self {
        let window = Window::new(memory, now);
        let state = State { objects, window, gate, closed_at: Revision::MAX };
        Self { state: RwLock::new(state), revision, news: News::default() }
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

    /// The newest revision that the objects show: the store's, until the table is closed.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.state.read().expect(UNPOISONED).shows(&self.revision)
    }

    /// The objects whose key starts with `prefix`, in key order, and the revision they show.
    #[must_use]
    pub fn list(&self, prefix: &str) -> (Vec<Arc<Stored>>, Revision) {
        let state = self.state.read().expect(UNPOISONED);
        let objects = range(&state.objects, prefix, "").map(|(_, stored)| Arc::clone(stored));
        (objects.collect(), state.shows(&self.revision))
    }

    /// At most `limit` of the objects that are `wanted` (all, where nothing is said), whose key
    /// starts with `prefix` and comes after `after`, as they were at a revision, or as they are now
    /// where nothing is said.
    ///
    /// # Errors
    /// When that revision is too long ago, or one that the table was closed before.
    pub fn page(
        &self,
        prefix: &str,
        after: &str,
        at: Option<Revision>,
        limit: usize,
        wanted: Option<&dyn Fn(&Stored) -> bool>,
    ) -> Result<Page, Gone> {
        let state = self.state.read().expect(UNPOISONED);
        let oldest = state.window.complete_after();
        let revision = at.unwrap_or_else(|| state.shows(&self.revision));
        let held = state.window.undo(revision).filter(|_| revision <= state.closed_at);
        let held = held.ok_or(Gone { oldest })?;
        let mut undone = range(&held, prefix, after).peekable();
        let kept = range(&state.objects, prefix, after).filter(|(key, _)| !held.contains_key(*key));
        let mut page = Page { revision, objects: Vec::new(), more: 0 };
        for (key, stored) in kept {
            while let Some((_, then)) = undone.next_if(|(other, _)| *other < key) {
                page.add(then.as_ref(), limit, wanted);
            }
            page.add(Some(stored), limit, wanted);
            if page.more > 0 && wanted.is_some() {
                return Ok(page);
            }
        }
        for (_, then) in undone {
            page.add(then.as_ref(), limit, wanted);
        }
        Ok(page)
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
        Ok(Tail { table: Arc::clone(self), seen: revision, listener: self.news.listener() })
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

    /// Takes everything again, after an end that was not the last word.
    pub fn reopen(&self) {
        let mut state = self.state.write().expect(UNPOISONED);
        if state.gate == Gate::Ending {
            state.gate = Gate::Open;
        }
    }

    /// Takes nothing from now on, notes what the objects show, tells the readers, and says what
    /// was taken until now.
    pub(super) fn close(&self) -> Gate {
        let mut state = self.state.write().expect(UNPOISONED);
        state.closed_at = state.shows(&self.revision);
        let before = std::mem::replace(&mut state.gate, Gate::Closed);
        drop(state);
        self.news.tell();
        before
    }

    /// Closes the table. Its successor has the same objects, each with the selectable fields that
    /// `fields` finds, takes what this one took, and remembers nothing: its history begins where
    /// the one here ends.
    pub(super) fn successor(
        &self,
        memory: Memory,
        fields: impl Fn(&Stored) -> Box<[Box<str>]>,
    ) -> Self {
        let gate = self.close();
        let (objects, closed_at) = self.list("");
        let objects = objects.into_iter().map(|stored| {
            let (key, fields) = (Arc::clone(&stored.key), fields(&stored));
            if fields == stored.fields {
                return (key, stored);
            }
            let (body, labels) = (stored.body.clone(), stored.labels.clone());
            let revision = stored.revision;
            let stored = Stored { key: Arc::clone(&key), revision, body, labels, fields };
            (key, Arc::new(stored))
        });
        let objects = objects.collect();
        Self::holding(objects, gate, closed_at, Arc::clone(&self.revision), memory)
    }

    pub(super) fn forget_history(&self) {
        let mut state = self.state.write().expect(UNPOISONED);
        state.window.forget(self.revision.load(Ordering::Acquire));
    }

    pub(super) fn apply(
        &self,
        committing: &Mutex<()>,
        key: &Arc<str>,
        expect: Expect,
        write: Write,
        at: Timestamp,
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
            return Err(Contradicted);
        }
        // Taken after the table's own lock, so that a long list of one table holds back no other.
        let _committing = committing.lock().expect(UNPOISONED);
        let revision = self.revision.load(Ordering::Acquire) + 1;
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
        state.window.push(at, Event { change, object: Arc::clone(&object), previous });
        self.revision.store(revision, Ordering::Release);
        drop(state);
        self.news.tell();
        Ok(object)
    }
}

/// Some of the objects of a list.
pub struct Page {
    /// The revision they show.
    pub revision: Revision,
    /// In key order.
    pub objects: Vec<Arc<Stored>>,
    /// How many follow; at least, where not all objects are wanted.
    pub more: usize,
}

impl Page {
    fn add(
        &mut self,
        stored: Option<&Arc<Stored>>,
        limit: usize,
        wanted: Option<&dyn Fn(&Stored) -> bool>,
    ) {
        let Some(stored) = stored else { return };
        if !wanted.is_none_or(|wanted| wanted(stored)) {
            return;
        }
        if self.objects.len() < limit {
            self.objects.push(Arc::clone(stored));
        } else {
            self.more += 1;
        }
    }
}

/// What stands under the keys that start with `prefix` and come after `after`.
fn range<'a, V>(
    map: &'a BTreeMap<Arc<str>, V>,
    prefix: &'a str,
    after: &'a str,
) -> impl Iterator<Item = (&'a Arc<str>, &'a V)> {
    let start = if after < prefix { Bound::Included(prefix) } else { Bound::Excluded(after) };
    map.range::<str, _>((start, Bound::Unbounded))
        .take_while(move |(key, _)| key.starts_with(prefix))
}

/// A reader that follows a table from some revision on. It holds no queue: a
/// reader that falls behind the window is told so.
pub struct Tail {
    table: Arc<Table>,
    seen: Revision,
    listener: Listener,
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
        let current = state.shows(&self.table.revision);
        let oldest = state.window.complete_after();
        let events = state.window.after(self.seen, max).ok_or(Gone { oldest })?;
        drop(state);
        self.seen = match events.last() {
            Some(last) if events.len() == max => last.revision(),
            // A table at rest has seen all that other tables did, so that bookmarks advance; one
            // that is closed sees nothing more.
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
        self.table.news.heard(&mut self.listener).await;
    }
}
