//! The state of a server: every object as final bytes, one revision over all.
//!
//! **Invariant:** [`Store::commit`] is the only function that changes anything,
//! and events of a table leave it in revision order. Nothing here knows what a
//! pod is.

mod encode;
mod table;
mod window;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use bytes::Bytes;

pub use encode::Draft;
pub use table::{Gate, Gone, Table, Tail};
pub use window::{Change, Event};

/// How many of a table's events a watch can be resumed from.
pub const WINDOW_EVENTS: usize = 8192;

/// The order of everything that ever happened in one store.
pub type Revision = u64;

/// An object as the store keeps it. `body` is the object's JSON without
/// `apiVersion` and `kind`, which depend on the version it is asked for in.
#[derive(Debug)]
pub struct Stored {
    /// `namespace/name`, or `name` for what has no namespace.
    pub key: Arc<str>,
    /// When it was last written.
    pub revision: Revision,
    /// `{"metadata":…}`.
    pub body: Bytes,
    /// Labels, for selectors.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// Values of the kind's selectable fields, in the kind's order.
    pub fields: Box<[Box<str>]>,
}

impl Stored {
    /// The namespace and the name that make up the key.
    #[must_use]
    pub fn namespace_and_name(&self) -> (&str, &str) {
        self.key.split_once('/').unwrap_or(("", &self.key))
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(name, _)| **name == *key).map(|(_, value)| &**value)
    }
}

/// What must be true of a key for a commit to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing is stored under the key.
    Absent,
    /// What is stored was last written at this revision.
    At(Revision),
}

/// What a commit does.
#[derive(Debug)]
pub enum Write {
    /// Store this object.
    Put(Draft),
    /// Remove the object; watchers see its last form.
    Remove(Draft),
}

/// A commit that did not happen, with what stands under the key instead.
#[derive(Debug)]
pub struct Contradicted {
    /// What is stored now.
    pub current: Option<Arc<Stored>>,
}

/// All tables of a server under one revision.
pub struct Store {
    tables: RwLock<BTreeMap<Arc<str>, Arc<Table>>>,
    revision: Arc<AtomicU64>,
    committing: Mutex<()>,
    window_events: usize,
}

impl Default for Store {
    fn default() -> Self {
        Self::new(WINDOW_EVENTS)
    }
}

impl Store {
    /// An empty store whose tables remember `window_events` events each.
    #[must_use]
    pub fn new(window_events: usize) -> Self {
        Self {
            tables: RwLock::default(),
            // etcd starts at one too, and clients read zero as "any".
            revision: Arc::new(AtomicU64::new(1)),
            committing: Mutex::new(()),
            window_events,
        }
    }

    /// The revision of the last commit.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision.load(Ordering::Acquire)
    }

    /// The table of a resource, such as `pods` or `deployments.apps`; made on first use.
    pub fn table(&self, resource: &str) -> Arc<Table> {
        if let Some(table) = self.tables.read().expect(UNPOISONED).get(resource) {
            return Arc::clone(table);
        }
        let mut tables = self.tables.write().expect(UNPOISONED);
        let table = tables.entry(resource.into()).or_insert_with(|| {
            Arc::new(Table::new(Arc::clone(&self.revision), self.window_events))
        });
        Arc::clone(table)
    }

    /// Closes the table of a resource, and puts another with the same objects and no history in
    /// its place. The old one stays readable to those who hold it.
    pub fn succeed(
        &self,
        resource: &str,
        fields: impl Fn(&Stored) -> Box<[Box<str>]>,
    ) -> Arc<Table> {
        let old = self.table(resource);
        let _committing = self.committing.lock().expect(UNPOISONED);
        let new = Arc::new(Table::new(Arc::clone(&self.revision), self.window_events));
        new.take_over(&old, fields);
        self.tables.write().expect(UNPOISONED).insert(resource.into(), Arc::clone(&new));
        new
    }

    /// Closes the table of a resource and forgets it.
    pub fn retire(&self, resource: &str) {
        let table = self.tables.write().expect(UNPOISONED).remove(resource);
        if let Some(table) = table {
            let _committing = self.committing.lock().expect(UNPOISONED);
            table.close();
        }
    }

    /// Begins history here: what happened before can be neither listed nor watched.
    pub fn forget_history(&self) {
        let _committing = self.committing.lock().expect(UNPOISONED);
        let now = self.revision();
        for table in self.tables.read().expect(UNPOISONED).values() {
            table.forget_history(now);
        }
    }

    /// Writes one object if the key is as expected, and tells the watchers.
    ///
    /// # Errors
    /// When the key is not as expected; nothing has changed then.
    pub fn commit(
        &self,
        table: &Table,
        key: &Arc<str>,
        expect: Expect,
        write: Write,
    ) -> Result<Arc<Stored>, Contradicted> {
        let _committing = self.committing.lock().expect(UNPOISONED);
        table.apply(self.revision() + 1, key, expect, write)
    }
}

/// Why locking cannot fail: no code that holds one of these locks can panic.
const UNPOISONED: &str = "no holder of this lock panics";

#[cfg(test)]
mod tests;
