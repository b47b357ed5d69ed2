//! The state of a server: every object as final bytes, one revision over all.
//!
//! **Invariant:** [`Store::commit`] is the only function that changes an object,
//! and events of a table leave it in revision order; [`Store::forget_history`] only
//! lets go of old events, and [`Store::succeed`] moves objects as they are to another
//! table. Nothing here knows what a pod is.

mod encode;
mod news;
mod table;
mod window;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use bytes::Bytes;
use jiff::Timestamp;

use crate::UNPOISONED;

pub use encode::Draft;
pub use table::{Gate, Gone, Table, Tail};
pub use window::{Change, Event, Memory};

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

/// A commit that did not happen, because something else stands under the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contradicted;

/// All tables of a server under one revision.
pub struct Store {
    tables: RwLock<BTreeMap<Arc<str>, Arc<Table>>>,
    revision: Arc<AtomicU64>,
    /// Held by whoever makes the next revision, after the lock of its table.
    committing: Mutex<()>,
    memory: Memory,
}

impl Default for Store {
    fn default() -> Self {
        Self::new(Memory::default())
    }
}

impl Store {
    /// An empty store whose tables remember so much of their past.
    #[must_use]
    pub fn new(memory: Memory) -> Self {
        Self {
            tables: RwLock::default(),
            // etcd starts at one too, and clients read zero as "any".
            revision: Arc::new(AtomicU64::new(1)),
            committing: Mutex::new(()),
            memory,
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
        let table = tables
            .entry(resource.into())
            .or_insert_with(|| Arc::new(Table::new(Arc::clone(&self.revision), self.memory)));
        Arc::clone(table)
    }

    /// Closes the table of a resource, and puts another with the same objects and no history in
    /// its place. The old one stays readable to those who hold it.
    pub fn succeed(
        &self,
        resource: &str,
        fields: impl Fn(&Stored) -> Box<[Box<str>]>,
    ) -> Arc<Table> {
        let new = Arc::new(self.table(resource).successor(self.memory, fields));
        self.tables.write().expect(UNPOISONED).insert(resource.into(), Arc::clone(&new));
        new
    }

    /// Closes the table of a resource and forgets it.
    pub fn retire(&self, resource: &str) {
        let table = self.tables.write().expect(UNPOISONED).remove(resource);
        if let Some(table) = table {
            table.close();
        }
    }

    /// Begins history here: what happened before can be neither listed nor watched.
    pub fn forget_history(&self) {
        for table in self.tables.read().expect(UNPOISONED).values() {
            table.forget_history();
        }
    }

    /// Writes one object if the key is as expected, and tells the watchers. `at` is the time,
    /// by which the past is forgotten.
    ///
    /// # Errors
    /// When the key is not as expected; nothing has changed then.
    pub fn commit(
        &self,
        table: &Table,
        key: &Arc<str>,
        expect: Expect,
        write: Write,
        at: Timestamp,
    ) -> Result<Arc<Stored>, Contradicted> {
        table.apply(&self.committing, key, expect, write, at)
    }
}

#[cfg(test)]
mod tests;
