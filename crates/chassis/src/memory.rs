//! A map that is bounded by forgetting.

use std::collections::BTreeMap;

/// A map of at most so many entries, which forgets what was put longest ago.
#[derive(Debug)]
pub struct Memory<K, V> {
    values: BTreeMap<K, (u64, V)>,
    order: BTreeMap<u64, K>,
    turn: u64,
    entries_max: usize,
}

impl<K: Ord + Clone, V> Memory<K, V> {
    pub fn new(entries_max: usize) -> Self {
        Self { values: BTreeMap::new(), order: BTreeMap::new(), turn: 0, entries_max }
    }

    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.values.get(key).map(|(_, value)| value)
    }

    /// Puts a value, and returns the one that is forgotten for it, if any.
    pub fn put(&mut self, key: K, value: V) -> Option<V> {
        self.take(&key);
        self.turn += 1;
        self.order.insert(self.turn, key.clone());
        self.values.insert(key, (self.turn, value));
        if self.values.len() <= self.entries_max {
            return None;
        }
        let (_, oldest) = self.order.pop_first()?;
        self.values.remove(&oldest).map(|(_, value)| value)
    }

    pub fn take<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
    {
        let (turn, value) = self.values.remove(key)?;
        self.order.remove(&turn);
        Some(value)
    }

    /// Keeps what `keep` says to keep.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut V) -> bool) {
        let order = &mut self.order;
        self.values.retain(|_, (turn, value)| {
            let keeps = keep(value);
            if !keeps {
                order.remove(turn);
            }
            keeps
        });
    }

    /// Forgets everything, and returns it.
    pub fn drain(&mut self) -> impl Iterator<Item = V> + use<K, V> {
        self.order.clear();
        std::mem::take(&mut self.values).into_values().map(|(_, value)| value)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        assert_eq!(self.values.len(), self.order.len());
        self.values.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_keeps_what_was_put_last() {
        const MAX: usize = 100;
        let mut memory = Memory::new(MAX);
        for n in 0..MAX + 50 {
            let forgotten = memory.put(n.to_string(), n);
            assert_eq!(forgotten, n.checked_sub(MAX - 1));
            assert_eq!(memory.put("often".to_owned(), n), None);
        }
        assert_eq!(memory.len(), MAX);
        assert_eq!(memory.get("often"), Some(&(MAX + 49)));
        assert_eq!((memory.get("0"), memory.get("99")), (None, Some(&99)));
        memory.retain(|n| *n % 2 == 0);
        assert_eq!(
            (memory.len(), memory.get("99"), memory.get("100")),
            (MAX / 2 - 1, None, Some(&100))
        );
        assert_eq!((memory.drain().count(), memory.len()), (MAX / 2 - 1, 0));
    }
}
