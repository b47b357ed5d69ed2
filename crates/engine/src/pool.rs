//! Values that many share, kept once and known by a small number.
//!
//! Equal values get the same number. Each holder counts, and the number of a value that nobody
//! holds any longer goes to another value, so that what comes and goes leaves nothing behind.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use rustc_hash::FxBuildHasher;

use crate::shared::{Chunked, Sharded};

/// The number of a value in a [`Pool`].
pub struct Id<T> {
    number: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    /// The id with this number.
    pub(crate) fn at(number: usize) -> Self {
        let number = u32::try_from(number).expect("a pool holds fewer than four billion values");
        Self { number, of: PhantomData }
    }

    /// The number itself, for tables with one place for each value.
    #[must_use]
    pub fn get(self) -> usize {
        self.number as usize
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.number.cmp(&other.number)
    }
}

impl<T> Hash for Id<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.number)
    }
}

#[derive(Debug, Clone)]
struct Slot<T> {
    /// Nothing while nobody holds the number.
    value: Option<T>,
    /// Which of all values ever held this is.
    stamp: u64,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { value: None, stamp: 0 }
    }
}

/// The numbers of values that share a hash.
#[derive(Debug, Clone)]
enum Numbers {
    One(u32),
    Several(Vec<u32>),
}

impl Numbers {
    fn as_slice(&self) -> &[u32] {
        match self {
            Self::One(number) => std::slice::from_ref(number),
            Self::Several(numbers) => numbers,
        }
    }

    fn add(&mut self, number: u32) {
        let mut numbers = self.as_slice().to_vec();
        numbers.push(number);
        *self = Self::Several(numbers);
    }

    /// What is left without one of them.
    fn without(&self, number: u32) -> Option<Self> {
        let left = self.as_slice().iter().copied().filter(|own| *own != number);
        let left: Vec<u32> = left.collect();
        match left[..] {
            [] => None,
            [one] => Some(Self::One(one)),
            _ => Some(Self::Several(left)),
        }
    }
}

/// Values by number and numbers by value.
#[derive(Debug, Clone)]
pub struct Pool<T> {
    slots: Chunked<Slot<T>>,
    /// By number, how many hold it. It changes more often than anything else here.
    holders: Vec<u32>,
    /// Numbers by the hash of their values; different values may share a hash.
    by_hash: Sharded<u64, Numbers>,
    free: Vec<u32>,
    stamps: u64,
    /// The number that was last held by its value: who comes next is mostly one of the same sort.
    recent: u32,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self {
            slots: Chunked::default(),
            holders: Vec::new(),
            by_hash: Sharded::default(),
            free: Vec::new(),
            stamps: 0,
            recent: 0,
        }
    }
}

impl<T: Hash + Eq + Clone> Pool<T> {
    /// The number of a value, held once more. The second part tells whether the value is new.
    pub fn hold(&mut self, value: T) -> (Id<T>, bool) {
        if let Some(id) = self.find_recent(&value) {
            self.hold_again(id);
            return (id, false);
        }
        let hash = FxBuildHasher.hash_one(&value);
        if let Some(id) = self.find_hashed(hash, &value) {
            self.recent = id.number;
            self.hold_again(id);
            return (id, false);
        }
        self.stamps += 1;
        let slot = Slot { value: Some(value), stamp: self.stamps };
        let id = match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = slot;
                self.holders[number as usize] = 1;
                Id { number, of: PhantomData }
            }
            None => {
                self.slots.push(slot);
                self.holders.push(1);
                Id::at(self.slots.len() - 1)
            }
        };
        match self.by_hash.get_mut(&hash) {
            Some(numbers) => numbers.add(id.number),
            None => drop(self.by_hash.insert(hash, Numbers::One(id.number))),
        }
        self.recent = id.number;
        (id, true)
    }

    /// The number of a value, held once more; the value is made only when it is new.
    pub fn hold_as<Q: ?Sized + Hash + Eq>(&mut self, value: &Q, make: impl FnOnce() -> T) -> Id<T>
    where
        T: Borrow<Q>,
    {
        match self.find_recent(value).or_else(|| self.find(value)) {
            Some(id) => {
                self.recent = id.number;
                self.hold_again(id);
                id
            }
            None => self.hold(make()).0,
        }
    }

    /// Holds a value that is held already once more.
    pub fn hold_again(&mut self, id: Id<T>) {
        self.holders[id.get()] += 1;
    }

    /// Ends one hold, and returns the value when it was the last.
    pub fn release(&mut self, id: Id<T>) -> Option<T> {
        let holders = &mut self.holders[id.get()];
        *holders -= 1;
        if *holders > 0 {
            return None;
        }
        let value = self.slots[id.get()].value.take()?;
        let hash = FxBuildHasher.hash_one(&value);
        if let Some(numbers) = self.by_hash.remove(&hash)
            && let Some(left) = numbers.without(id.number)
        {
            self.by_hash.insert(hash, left);
        }
        self.free.push(id.number);
        Some(value)
    }

    /// The number of a value that somebody holds.
    #[must_use]
    pub fn find<Q: ?Sized + Hash + Eq>(&self, value: &Q) -> Option<Id<T>>
    where
        T: Borrow<Q>,
    {
        self.find_hashed(FxBuildHasher.hash_one(value), value)
    }

    fn find_recent<Q: ?Sized + Eq>(&self, value: &Q) -> Option<Id<T>>
    where
        T: Borrow<Q>,
    {
        if self.holders.is_empty() {
            return None;
        }
        let held = self.slots[self.recent as usize].value.as_ref()?;
        (held.borrow() == value).then_some(Id { number: self.recent, of: PhantomData })
    }

    fn find_hashed<Q: ?Sized + Eq>(&self, hash: u64, value: &Q) -> Option<Id<T>>
    where
        T: Borrow<Q>,
    {
        let numbers = self.by_hash.get(&hash)?;
        let same = |number: &&u32| {
            let held = &self.slots[**number as usize].value;
            held.as_ref().is_some_and(|held| held.borrow() == value)
        };
        numbers.as_slice().iter().find(same).map(|number| Id { number: *number, of: PhantomData })
    }
}

impl<T> Pool<T> {
    /// The value with this number.
    ///
    /// # Panics
    /// When nobody holds it: an id outlived its hold.
    #[must_use]
    pub fn get(&self, id: Id<T>) -> &T {
        self.slots[id.get()].value.as_ref().expect("an id is used only while it is held")
    }

    /// Whether one hold is left.
    #[must_use]
    pub fn is_last_hold(&self, id: Id<T>) -> bool {
        self.holders[id.get()] == 1
    }

    /// Which of all values ever held this is: unlike the number, it never means another value.
    #[must_use]
    pub fn stamp(&self, id: Id<T>) -> u64 {
        self.slots[id.get()].stamp
    }

    /// The values that are held, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(number, slot)| slot.value.as_ref().map(|value| (Id::at(number), value)))
    }

    /// Numbers of values are below this.
    #[must_use]
    pub fn places(&self) -> usize {
        self.slots.len()
    }

    /// How many values are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether no value is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_a_number_until_the_last_holder_leaves() {
        let mut pool = Pool::default();
        let (a, new) = pool.hold("a");
        assert!(new);
        let (again, new) = pool.hold("a");
        assert!(!new);
        assert_eq!(a, again);
        let (b, _) = pool.hold("b");
        assert_ne!(a, b);
        assert_eq!(pool.release(a), None);
        assert_eq!(pool.find(&"a"), Some(a));
        assert_eq!(pool.release(a), Some("a"));
        assert_eq!(pool.find(&"a"), None);
        let (c, new) = pool.hold("c");
        assert!(new);
        assert_eq!(c.get(), a.get(), "the number goes to the next value");
        assert_eq!(pool.len(), 2);
    }
}
