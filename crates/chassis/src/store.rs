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

/// What one delta replaced.
#[derive(Debug, Clone)]
pub struct Replaced<T> {
    /// The object that the delta is about; `None` for [`Delta::Synced`].
    pub key: Option<Key>,
    /// Its state before.
    pub old: Option<Arc<T>>,
    /// Its state now.
    pub new: Option<Arc<T>>,
}

/// The objects of one kind.
pub struct Store<T> {
    objects: BTreeMap<Key, Arc<T>>,
    indices: Vec<Index<T>>,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), indices: Vec::new() }
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

    /// Takes a delta and says what it replaced. An object that can no longer be read is
    /// no longer there.
    pub fn apply(&mut self, delta: Delta<T>) -> Replaced<T> {
        let (key, new) = match delta {
            Delta::Synced => return Replaced { key: None, old: None, new: None },
            Delta::Upserted(object) => (object.identity().key(), Some(Arc::new(object))),
            Delta::Deleted { key, .. } | Delta::Malformed { key, .. } => (key, None),
        };
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
        Replaced { key: Some(key), old, new }
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
        assert_eq!(replaced.old.unwrap().metadata.uid, "blue");
        assert_eq!(
            (found(&store, "blue"), found(&store, "red")),
            (vec!["shop/b".into()], vec!["shop/a".into()])
        );
        store.apply(Delta::Deleted { key: Key::namespaced("shop", "b"), uid: "blue".into() });
        store.apply(Delta::Malformed { key: Key::namespaced("shop", "a"), error: String::new() });
        assert!(store.is_empty() && found(&store, "blue").is_empty());
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
        assert!(replaced.key.is_none() && store.len() == 4);
    }
}
