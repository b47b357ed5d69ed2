//! A cache of the objects of one kind, fed by a reflector's deltas.
//!
//! It holds what the deltas add up to, in order of keys, with any number of indices that a
//! closure computes. It asks nobody and decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::client::Object;
use crate::key::Key;
use crate::reflector::Delta;

/// A handle on one index of a [`Store`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexId(usize);

type Values<T> = Box<dyn Fn(&T) -> Vec<String> + Send + Sync>;

struct Index<T> {
    values: Values<T>,
    keys: BTreeMap<String, BTreeSet<Key>>,
}

/// What one delta did to a store.
#[derive(Debug, Clone)]
pub enum Replaced<T> {
    /// Nothing: a list is complete.
    Nothing,
    /// An object came, changed or went.
    State {
        /// Which.
        key: Key,
        /// The uid of its state now, or of the object that went.
        uid: Box<str>,
        /// Its state before; `None` when it is new, or could never be read.
        old: Option<Arc<T>>,
        /// Its state now; `None` when it is gone.
        new: Option<Arc<T>>,
    },
    /// An object is there in a state that cannot be read. The last one that could stays.
    Unreadable {
        /// Which.
        key: Key,
        /// What is wrong with it.
        error: String,
    },
}

/// The objects of one kind.
///
/// An object whose state cannot be read is kept in the last state that could, since it is
/// anything but gone. One that could never be read has no state here; that it exists is
/// told by [`Store::is_unreadable`], and to whoever manages it by [`Store::never_read`].
pub struct Store<T> {
    objects: BTreeMap<Key, Arc<T>>,
    /// Each with the uid of the owner that manages it.
    unreadable: BTreeMap<Key, Option<Box<str>>>,
    indices: Vec<Index<T>>,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), unreadable: BTreeMap::new(), indices: Vec::new() }
    }
}

impl<T: Object> Store<T> {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an index: `values` says under which texts an object is found.
    pub fn add_index(
        &mut self,
        values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) -> IndexId {
        let mut index = Index { values: Box::new(values), keys: BTreeMap::new() };
        for (key, object) in &self.objects {
            index.insert(key, object);
        }
        self.indices.push(index);
        IndexId(self.indices.len() - 1)
    }

    /// Takes a delta and says what it replaced.
    pub fn apply(&mut self, delta: Delta<T>) -> Replaced<T> {
        let (key, uid, new) = match delta {
            Delta::Synced => return Replaced::Nothing,
            Delta::Malformed { key, controller, error } => {
                self.unreadable.insert(key.clone(), controller);
                return Replaced::Unreadable { key, error };
            }
            Delta::Upserted(object) => {
                let who = object.identity();
                (who.key(), who.uid.into(), Some(Arc::new(object)))
            }
            Delta::Deleted { key, uid } => (key, uid, None),
        };
        self.unreadable.remove(&key);
        let old = match &new {
            Some(object) => self.objects.insert(key.clone(), object.clone()),
            None => self.objects.remove(&key),
        };
        for index in &mut self.indices {
            if let Some(old) = &old {
                index.remove(&key, old);
            }
            if let Some(new) = &new {
                index.insert(&key, new);
            }
        }
        Replaced::State { key, uid, old, new }
    }

    /// Whether an object is there whose present state cannot be read.
    #[must_use]
    pub fn is_unreadable(&self, key: &Key) -> bool {
        self.unreadable.contains_key(key)
    }

    /// The objects that are managed by the owner of this uid, are there and never could be read,
    /// in order of their keys.
    pub fn never_read(&self, controller: &str) -> impl Iterator<Item = &Key> {
        let own = move |of: &Option<Box<str>>| of.as_deref() == Some(controller);
        let own = self.unreadable.iter().filter(move |(_, of)| own(of)).map(|(key, _)| key);
        own.filter(|key| !self.objects.contains_key(*key))
    }

    /// One object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Arc<T>> {
        self.objects.get(key)
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// All objects, in order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Arc<T>)> {
        self.objects.iter()
    }

    /// The objects of one namespace, in order of their keys.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = (&Key, &Arc<T>)> {
        let from = Key::namespaced(namespace, "");
        self.objects
            .range(from.clone()..)
            .take_while(move |(key, _)| key.as_str().starts_with(from.as_str()))
    }

    /// The objects that an index finds under `value`, in order of their keys.
    pub fn find(&self, index: IndexId, value: &str) -> impl Iterator<Item = (&Key, &Arc<T>)> {
        let keys = self.indices.get(index.0).and_then(|index| index.keys.get(value));
        keys.into_iter().flatten().filter_map(|key| self.objects.get_key_value(key))
    }
}

impl<T> Index<T> {
    fn insert(&mut self, key: &Key, object: &T) {
        for value in (self.values)(object) {
            self.keys.entry(value).or_default().insert(key.clone());
        }
    }

    fn remove(&mut self, key: &Key, object: &T) {
        for value in (self.values)(object) {
            if let Some(keys) = self.keys.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(&value);
                }
            }
        }
    }
}

/// A store that a controller's watch fills and its reconciler reads. The guards are held
/// for a look, never across an await.
pub struct SharedStore<T>(Arc<RwLock<Store<T>>>);

impl<T> Clone for SharedStore<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Object> Default for SharedStore<T> {
    fn default() -> Self {
        Self::new(Store::new())
    }
}

impl<T: Object> SharedStore<T> {
    /// Shares a store.
    #[must_use]
    pub fn new(store: Store<T>) -> Self {
        Self(Arc::new(RwLock::new(store)))
    }

    /// Looks.
    pub fn read(&self) -> RwLockReadGuard<'_, Store<T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes.
    pub fn write(&self) -> RwLockWriteGuard<'_, Store<T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// One object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.read().get(key).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Nameplate, NameplateMeta};

    fn object(namespace: &str, name: &str, uid: &str) -> Nameplate {
        let metadata = NameplateMeta {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            resource_version: "1".to_owned(),
            ..NameplateMeta::default()
        };
        Nameplate { metadata }
    }

    #[test]
    fn indices_follow_every_change() {
        let mut store = Store::new();
        store.apply(Delta::Upserted(object("shop", "a", "blue")));
        let by_uid = store.add_index(|object: &Nameplate| vec![object.metadata.uid.clone()]);
        let found = |store: &Store<Nameplate>, value: &str| {
            store.find(by_uid, value).map(|(key, _)| key.to_string()).collect::<Vec<_>>()
        };
        store.apply(Delta::Upserted(object("shop", "b", "blue")));
        assert_eq!(found(&store, "blue"), ["shop/a", "shop/b"]);
        let replaced = store.apply(Delta::Upserted(object("shop", "a", "red")));
        assert!(
            matches!(replaced, Replaced::State { old: Some(old), .. } if old.metadata.uid == "blue")
        );
        assert_eq!(
            (found(&store, "blue"), found(&store, "red")),
            (vec!["shop/b".into()], vec!["shop/a".into()])
        );
        store.apply(Delta::Deleted { key: Key::namespaced("shop", "b"), uid: "blue".into() });
        store.apply(Delta::Deleted { key: Key::namespaced("shop", "a"), uid: "red".into() });
        assert!(store.is_empty() && found(&store, "blue").is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_not_gone() {
        let mut store = Store::new();
        let by_uid = store.add_index(|object: &Nameplate| vec![object.metadata.uid.clone()]);
        let key = |name| Key::namespaced("shop", name);
        let broken = |name| {
            let (key, controller) = (key(name), Some("owner".into()));
            Delta::Malformed { key, controller, error: "no number".to_owned() }
        };
        store.apply(Delta::Upserted(object("shop", "a", "red")));
        for name in ["a", "b"] {
            let replaced = store.apply(broken(name));
            assert!(matches!(replaced, Replaced::Unreadable { error, .. } if error == "no number"));
            assert!(store.is_unreadable(&key(name)));
        }
        // The last state that could be read stays, in the indices too.
        assert!(store.get(&key("a")).is_some() && store.find(by_uid, "red").count() == 1);
        assert_eq!((store.get(&key("b")).is_none(), store.len()), (true, 1));
        assert_eq!(store.never_read("owner").collect::<Vec<_>>(), [&key("b")]);
        assert_eq!(store.never_read("other").count(), 0);
        // Read again, and gone.
        store.apply(Delta::Upserted(object("shop", "b", "blue")));
        store.apply(Delta::Deleted { key: key("a"), uid: "red".into() });
        assert!(!store.is_unreadable(&key("a")) && !store.is_unreadable(&key("b")));
        assert_eq!((store.len(), store.find(by_uid, "red").count()), (1, 0));
    }

    #[test]
    fn a_namespace_is_a_range_of_keys() {
        let mut store = Store::new();
        for (namespace, name) in [("shop", "a"), ("shop-2", "b"), ("shop", "c"), ("s", "d")] {
            store.apply(Delta::Upserted(object(namespace, name, "u")));
        }
        let names: Vec<_> = store.in_namespace("shop").map(|(key, _)| key.name()).collect();
        assert_eq!(names, ["a", "c"]);
        let replaced = store.apply(Delta::Synced);
        assert!(matches!(replaced, Replaced::Nothing) && store.len() == 4);
    }
}
