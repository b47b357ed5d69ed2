//! Tables that a copy shares with its original.
//!
//! To copy one costs a pointer for each of its parts. Whoever changes a value afterwards copies the
//! part that it is in, once, and only while the other still has it. So the thread that decides can
//! hand out what it knows at any time, and neither that nor the next change takes long.

use std::borrow::Borrow;
use std::hash::{BuildHasher as _, Hash};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHashMap};

/// Values of a list that are copied together.
const CHUNK: usize = 64;
/// Parts of a map.
const SHARDS: usize = 64;

/// A list.
#[derive(Debug)]
pub struct Chunked<T> {
    /// The last one is filled up with values that mean nothing.
    chunks: Vec<Arc<[T]>>,
    len: usize,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<T> Clone for Chunked<T> {
    fn clone(&self) -> Self {
        Self { chunks: self.chunks.clone(), len: self.len }
    }
}

impl<T> Chunked<T> {
    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The values in their order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).take(self.len)
    }
}

impl<T> Index<usize> for Chunked<T> {
    type Output = T;

    fn index(&self, place: usize) -> &T {
        debug_assert!(place < self.len, "{place} of {}", self.len);
        &self.chunks[place / CHUNK][place % CHUNK]
    }
}

impl<T: Clone> IndexMut<usize> for Chunked<T> {
    fn index_mut(&mut self, place: usize) -> &mut T {
        debug_assert!(place < self.len, "{place} of {}", self.len);
        &mut Arc::make_mut(&mut self.chunks[place / CHUNK])[place % CHUNK]
    }
}

impl<T: Clone + Default> Chunked<T> {
    /// Makes it this long, where it is shorter.
    pub fn grow(&mut self, len: usize) {
        while self.chunks.len() * CHUNK < len {
            self.chunks.push((0..CHUNK).map(|_| T::default()).collect());
        }
        self.len = self.len.max(len);
    }

    /// Adds a value.
    pub fn push(&mut self, value: T) {
        let place = self.len;
        self.grow(place + 1);
        self[place] = value;
    }
}

/// A map.
#[derive(Debug)]
pub struct Sharded<K, V> {
    /// None while the map is empty; a part that is empty is not kept.
    shards: Vec<Option<Arc<FxHashMap<K, V>>>>,
    len: usize,
}

impl<K, V> Default for Sharded<K, V> {
    fn default() -> Self {
        Self { shards: Vec::new(), len: 0 }
    }
}

impl<K, V> Clone for Sharded<K, V> {
    fn clone(&self) -> Self {
        Self { shards: self.shards.clone(), len: self.len }
    }
}

/// The part that a key is in. The bits are not those that the map inside goes by.
fn shard_of<Q: ?Sized + Hash>(key: &Q) -> usize {
    (FxBuildHasher.hash_one(key) >> 32) as usize % SHARDS
}

impl<K, V> Sharded<K, V> {
    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many keys there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Sharded<K, V> {
    /// The value of a key.
    #[must_use]
    pub fn get<Q: ?Sized + Hash + Eq>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.shards.get(shard_of(key))?.as_ref()?.get(key)
    }

    /// The value of a key, to be changed.
    pub fn get_mut<Q: ?Sized + Hash + Eq>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let shard = self.shards.get_mut(shard_of(key))?.as_mut()?;
        // Nothing is copied for a key that is not there.
        if !shard.contains_key(key) {
            return None;
        }
        Arc::make_mut(shard).get_mut(key)
    }

    fn shard(&mut self, key: &K) -> &mut FxHashMap<K, V> {
        if self.shards.is_empty() {
            self.shards.resize_with(SHARDS, || None);
        }
        Arc::make_mut(self.shards[shard_of(key)].get_or_insert_default())
    }

    /// Gives a key a value, and returns the one it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let old = self.shard(&key).insert(key, value);
        self.len += usize::from(old.is_none());
        old
    }

    /// Takes a key out, and returns its value.
    pub fn remove<Q: ?Sized + Hash + Eq>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let place = self.shards.get_mut(shard_of(key))?;
        let shard = place.as_mut().filter(|shard| shard.contains_key(key))?;
        let shard = Arc::make_mut(shard);
        let old = shard.remove(key);
        if shard.is_empty() {
            *place = None;
        }
        self.len -= 1;
        old
    }
}

impl<K: Hash + Eq + Clone, V: Clone + Default> Sharded<K, V> {
    /// The value of a key, made where there is none, to be changed.
    pub fn or_default(&mut self, key: K) -> &mut V {
        let is_new = self.get(&key).is_none();
        self.len += usize::from(is_new);
        self.shard(&key).entry(key).or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_one_changes_the_other_does_not_see(
            steps in proptest::collection::vec((0_u16..300, 0_u8..4), 0..200),
        ) {
            let (mut map, mut model) = (Sharded::<u16, u32>::default(), BTreeMap::new());
            let (mut list, mut listed) = (Chunked::<u32>::default(), Vec::new());
            let mut copies = Vec::new();
            for (value, (key, what)) in (0..).zip(steps) {
                match what {
                    0 => prop_assert_eq!(map.insert(key, value), model.insert(key, value)),
                    1 => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                    2 => {
                        *map.or_default(key) += value;
                        *model.entry(key).or_default() += value;
                    }
                    _ => copies.push((map.clone(), model.clone(), list.clone(), listed.clone())),
                }
                list.push(value);
                listed.push(value);
                let place = usize::from(key) % listed.len();
                list[place] += 1;
                listed[place] += 1;
            }
            copies.push((map, model, list, listed));
            for (mut map, model, list, listed) in copies {
                prop_assert_eq!(map.len(), model.len());
                prop_assert_eq!(map.is_empty(), model.is_empty());
                for key in 0..300 {
                    prop_assert_eq!(map.get(&key), model.get(&key));
                    prop_assert_eq!(map.get_mut(&key).copied(), model.get(&key).copied());
                }
                prop_assert_eq!(list.iter().copied().collect::<Vec<_>>(), listed);
            }
        }
    }
}
