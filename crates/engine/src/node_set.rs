//! Sets of nodes, as bits.

use std::fmt;

use crate::ledger::NodeIndex;

const BITS: usize = u64::BITS as usize;

/// A set of nodes, one bit for each place in the ledger's node table.
///
/// Sets of different lengths are equal when they hold the same nodes, and work together: what a
/// set does not reach it does not hold.
#[derive(Clone, Default)]
pub struct NodeSet {
    words: Vec<u64>,
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

    /// Takes out what the other set does not hold.
    pub fn keep(&mut self, other: &Self) {
        for (index, word) in self.words.iter_mut().enumerate() {
            *word &= other.words.get(index).copied().unwrap_or(0);
        }
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
        }
    }
}
