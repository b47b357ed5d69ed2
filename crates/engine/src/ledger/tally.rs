//! Counts of pods by node, few of which are not zero.

use rustc_hash::FxHashMap;

use super::NodeIndex;

/// Pods on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The node.
    pub node: NodeIndex,
    /// How many.
    pub all: u32,
    /// How many of them are not being deleted.
    pub staying: u32,
}

/// Counts of pods by node. Nodes without any are not kept.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    entries: Vec<Entry>,
    places: FxHashMap<NodeIndex, u32>,
}

impl Tally {
    /// The nodes with pods, in no order that means anything.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The count of a node.
    #[must_use]
    pub fn at(&self, node: NodeIndex) -> Entry {
        let none = Entry { node, all: 0, staying: 0 };
        self.places.get(&node).map_or(none, |place| self.entries[*place as usize])
    }

    /// Adds pods to a node.
    pub fn add(&mut self, node: NodeIndex, all: u32, staying: u32) {
        if all == 0 {
            return;
        }
        let next = u32::try_from(self.entries.len()).expect("there are fewer nodes than that");
        let place = *self.places.entry(node).or_insert(next);
        if place == next {
            self.entries.push(Entry { node, all: 0, staying: 0 });
        }
        let entry = &mut self.entries[place as usize];
        entry.all += all;
        entry.staying += staying;
    }

    /// Takes pods from a node.
    pub fn take(&mut self, node: NodeIndex, all: u32, staying: u32) {
        let Some(place) = self.places.get(&node).copied() else { return };
        let entry = &mut self.entries[place as usize];
        entry.all -= all;
        entry.staying -= staying;
        if entry.all == 0 {
            self.places.remove(&node);
            self.entries.swap_remove(place as usize);
            if let Some(moved) = self.entries.get(place as usize) {
                self.places.insert(moved.node, place);
            }
        }
    }

    /// Adds all pods of another tally.
    pub fn add_all(&mut self, other: &Self) {
        for Entry { node, all, staying } in other.entries.iter().copied() {
            self.add(node, all, staying);
        }
    }

    /// Takes all pods of another tally, which were added before.
    pub fn take_all(&mut self, other: &Self) {
        for Entry { node, all, staying } in other.entries.iter().copied() {
            self.take(node, all, staying);
        }
    }

    /// Whether there is no pod.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_tally_counts_as_a_map_does(
            steps in proptest::collection::vec((0_usize..6, any::<bool>(), any::<bool>()), 0..80),
        ) {
            let (mut tally, mut map) = (Tally::default(), BTreeMap::<usize, (u32, u32)>::new());
            for (node, adds, stays) in steps {
                let own = map.entry(node).or_default();
                let staying = u32::from(stays);
                if adds {
                    tally.add(NodeIndex::at(node), 1, staying);
                    *own = (own.0 + 1, own.1 + staying);
                } else if own.0 > 0 && own.1 >= staying && own.0 > own.1 - staying {
                    tally.take(NodeIndex::at(node), 1, staying);
                    *own = (own.0 - 1, own.1 - staying);
                }
                map.retain(|_, count| count.0 > 0);
                let told: BTreeMap<usize, (u32, u32)> = tally
                    .entries()
                    .iter()
                    .map(|entry| (entry.node.get(), (entry.all, entry.staying)))
                    .collect();
                prop_assert_eq!(&told, &map);
                let count = map.get(&node).copied().unwrap_or_default();
                let at = tally.at(NodeIndex::at(node));
                prop_assert_eq!((at.all, at.staying), count);
            }
        }
    }
}
