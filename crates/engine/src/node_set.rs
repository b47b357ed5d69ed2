//! Sets of nodes, as bits.

use std::fmt;

use crate::ledger::NodeIndex;

const BITS: usize = u64::BITS as usize;

/// A set of nodes, one bit for each place in the ledger's node table.
///
/// Sets of different lengths are equal when they hold the same nodes, and work together: what a
/// set does not reach it does not hold.
#[derive(Default)]
pub struct NodeSet {
    words: Vec<u64>,
}

impl Clone for NodeSet {
    fn clone(&self) -> Self {
        Self { words: self.words.clone() }
    }

    /// Becomes the other set in the memory that is there already.
    fn clone_from(&mut self, other: &Self) {
        self.words.clone_from(&other.words);
    }
}

impl NodeSet {
    /// An empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// The set of one node.
    #[must_use]
    pub fn only(node: NodeIndex) -> Self {
        let mut set = Self::new();
        set.insert(node);
        set
    }

    /// Adds a node.
    pub fn insert(&mut self, node: NodeIndex) {
        let (word, bit) = place(node);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
    }

    /// Takes a node out.
    pub fn remove(&mut self, node: NodeIndex) {
        let (word, bit) = place(node);
        if let Some(word) = self.words.get_mut(word) {
            *word &= !bit;
        }
    }

    /// Adds a node or takes it out.
    pub fn set(&mut self, node: NodeIndex, member: bool) {
        if member { self.insert(node) } else { self.remove(node) }
    }

    /// Whether a node is in the set.
    #[must_use]
    pub fn contains(&self, node: NodeIndex) -> bool {
        let (word, bit) = place(node);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Whether there is no node in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// How many nodes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Takes all nodes out.
    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// Takes out what the other set does not hold.
    pub fn keep(&mut self, other: &Self) {
        self.words.truncate(other.words.len());
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    /// Whether every node of this set is in the other one.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        let shared = self.words.len().min(other.words.len());
        let (own, rest) = self.words.split_at(shared);
        own.iter().zip(&other.words).all(|(own, other)| own & !other == 0)
            && rest.iter().all(|word| *word == 0)
    }

    /// Takes out what the other set holds.
    pub fn take_out(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= !other;
        }
    }

    /// Takes out the nodes for which the test says no.
    pub fn keep_where(&mut self, mut test: impl FnMut(NodeIndex) -> bool) {
        for (index, word) in self.words.iter_mut().enumerate() {
            let mut left = *word;
            while left != 0 {
                let bit = left & left.wrapping_neg();
                left ^= bit;
                if !test(NodeIndex::at(index * BITS + bit.trailing_zeros() as usize)) {
                    *word ^= bit;
                }
            }
        }
    }

    /// Takes out the nodes for which a test of columns says no. It is asked without branches, and
    /// so of places between nodes of the set as well: it must be cheap and answer for any place.
    pub fn keep_dense(&mut self, test: impl Fn(usize) -> bool) {
        for (index, word) in self.words.iter_mut().enumerate() {
            let (first, count) = (index * BITS, (u64::BITS - word.leading_zeros()) as usize);
            let mut kept = 0;
            for bit in 0..count {
                kept |= u64::from(test(first + bit)) << bit;
            }
            *word &= kept;
        }
    }

    /// Takes out the nodes that a mask leaves out. It is asked for places in a row, 64 at most, by
    /// the first of them and how many there are, and answers with one bit for each.
    pub fn keep_masked(&mut self, mut mask: impl FnMut(usize, usize) -> u64) {
        for (index, word) in self.words.iter_mut().enumerate() {
            if *word != 0 {
                *word &= mask(index * BITS, (u64::BITS - word.leading_zeros()) as usize);
            }
        }
    }

    /// Calls for each node with its place, in order.
    #[inline]
    pub fn each(&self, mut call: impl FnMut(usize)) {
        for (index, word) in self.words.iter().enumerate() {
            let first = index * BITS;
            if *word == u64::MAX {
                (first..first + BITS).for_each(&mut call);
                continue;
            }
            let mut left = *word;
            while left != 0 {
                call(first + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }

    /// Calls for each node that the other set does not hold.
    pub fn each_beyond(&self, other: &Self, mut call: impl FnMut(usize)) {
        for (index, word) in self.words.iter().enumerate() {
            let mut left = word & !other.words.get(index).copied().unwrap_or(0);
            while left != 0 {
                call(index * BITS + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }

    /// Calls for each place below `places` whose node is not in the set.
    pub fn each_other(&self, places: usize, mut call: impl FnMut(usize)) {
        for index in 0..places.div_ceil(BITS) {
            let mut left = !self.words.get(index).copied().unwrap_or(0);
            while left != 0 {
                let place = index * BITS + left.trailing_zeros() as usize;
                if place >= places {
                    return;
                }
                call(place);
                left &= left - 1;
            }
        }
    }

    /// The nodes, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                if left == 0 {
                    return None;
                }
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                Some(NodeIndex::at(index * BITS + bit))
            })
        })
    }

    /// Bytes that the set takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

fn place(node: NodeIndex) -> (usize, u64) {
    (node.get() / BITS, 1 << (node.get() % BITS))
}

impl PartialEq for NodeSet {
    fn eq(&self, other: &Self) -> bool {
        let (long, short) = if self.words.len() >= other.words.len() {
            (&self.words, &other.words)
        } else {
            (&other.words, &self.words)
        };
        long[..short.len()] == short[..] && long[short.len()..].iter().all(|word| *word == 0)
    }
}

impl Eq for NodeSet {}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(NodeIndex::get)).finish()
    }
}

impl FromIterator<NodeIndex> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeIndex>>(nodes: I) -> Self {
        let mut set = Self::new();
        for node in nodes {
            set.insert(node);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(nodes: &BTreeSet<usize>) -> NodeSet {
        nodes.iter().copied().map(NodeIndex::at).collect()
    }

    fn nodes() -> impl Strategy<Value = BTreeSet<usize>> {
        proptest::collection::btree_set(0_usize..300, 0..60)
    }

    proptest! {
        #[test]
        fn a_set_is_what_a_set_of_numbers_is(a in nodes(), b in nodes()) {
            let told = |set: &NodeSet| set.iter().map(NodeIndex::get).collect::<BTreeSet<_>>();
            prop_assert_eq!(told(&set(&a)), a.clone());
            prop_assert_eq!(set(&a).len(), a.len());
            prop_assert_eq!(set(&a) == set(&b), a == b);
            let mut both = set(&a);
            both.keep(&set(&b));
            prop_assert_eq!(told(&both), a.intersection(&b).copied().collect());
            let mut rest = set(&a);
            rest.take_out(&set(&b));
            prop_assert_eq!(told(&rest), a.difference(&b).copied().collect());
            let mut even = set(&a);
            even.keep_where(|node| node.get() % 2 == 0);
            prop_assert_eq!(told(&even), a.iter().copied().filter(|n| n % 2 == 0).collect());
            let mut even = set(&a);
            even.keep_dense(|place| place % 2 == 0);
            prop_assert_eq!(told(&even), a.iter().copied().filter(|n| n % 2 == 0).collect());
            let mut even = set(&a);
            even.keep_masked(|first, count| {
                (0..count).map(|bit| u64::from((first + bit) % 2 == 0) << bit).sum()
            });
            prop_assert_eq!(told(&even), a.iter().copied().filter(|n| n % 2 == 0).collect());
            prop_assert_eq!(set(&a).is_within(&set(&b)), a.is_subset(&b));
            let mut each = BTreeSet::new();
            set(&a).each(|place| { each.insert(place); });
            prop_assert_eq!(&each, &a);
            let mut beyond = BTreeSet::new();
            set(&a).each_beyond(&set(&b), |place| { beyond.insert(place); });
            prop_assert_eq!(beyond, a.difference(&b).copied().collect());
            let mut others = BTreeSet::new();
            set(&a).each_other(300, |place| { others.insert(place); });
            prop_assert_eq!(others, (0..300).filter(|place| !a.contains(place)).collect());
            let mut copy = set(&b);
            copy.clone_from(&set(&a));
            prop_assert_eq!(told(&copy), a);
        }
    }
}
