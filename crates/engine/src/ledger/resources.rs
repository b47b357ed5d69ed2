//! Amounts by node, one column for each resource that some node has.
//!
//! What pods take of a resource that no node has is kept apart, node by node: a name that only a pod
//! knows costs no more than the pod itself.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::NodeIndex;
use crate::needs::{Amounts, Requests};

/// Amounts with so many bits are exact as floating-point numbers, and so is a hundred times as much.
pub const EXACT_BITS: u32 = 45;

/// Amounts with so many bits can be taken from each other without an overflow.
pub const SAFE_BITS: u32 = 61;

/// The place of a resource's columns, until a node comes or goes or changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceIndex(u32);

/// How many amounts are below zero or have more bits than loops over all of them can do with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Large {
    inexact: u32,
    overflowing: u32,
}

impl Large {
    /// An amount was one and is another now.
    #[inline]
    fn follow(&mut self, old: i64, new: i64) {
        let is_beyond = |amount: i64, bits: u32| u32::from(amount.cast_unsigned() >> bits != 0);
        if is_beyond(old | new, EXACT_BITS) == 0 {
            return;
        }
        self.inexact += is_beyond(new, EXACT_BITS);
        self.inexact -= is_beyond(old, EXACT_BITS);
        self.overflowing += is_beyond(new, SAFE_BITS);
        self.overflowing -= is_beyond(old, SAFE_BITS);
    }
}

/// What nodes have of a resource, and what their pods take.
#[derive(Debug, Clone, Default)]
pub struct Column {
    /// What pods may request, by node.
    pub allocatable: Vec<i64>,
    /// What pods do request, by node.
    pub requested: Vec<i64>,
    large: Large,
    /// How many nodes have some.
    holders: u32,
}

/// The columns of all resources.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    /// Thousandths of CPUs.
    pub cpu: Column,
    /// Bytes of memory.
    pub memory: Column,
    /// Bytes of local storage.
    pub storage: Column,
    /// What pods request of CPU for scoring.
    pub cpu_scored: Vec<i64>,
    /// What pods request of memory for scoring.
    pub memory_scored: Vec<i64>,
    /// Of both.
    scored_large: Large,
    /// Those of names that no node has any longer are empty and free.
    scalars: Vec<Column>,
    free: Vec<ResourceIndex>,
    by_name: BTreeMap<Box<str>, ResourceIndex>,
    /// What pods take of scalars that no node has.
    unheld: FxHashMap<NodeIndex, BTreeMap<Box<str>, i64>>,
    places: usize,
}

impl Resources {
    /// Makes every column this long.
    pub fn grow(&mut self, places: usize) {
        self.places = places;
        for column in [&mut self.cpu, &mut self.memory, &mut self.storage] {
            column.grow(places);
        }
        for index in self.by_name.values() {
            self.scalars[index.0 as usize].grow(places);
        }
        self.cpu_scored.resize(places, 0);
        self.memory_scored.resize(places, 0);
    }

    /// Where the columns of a scalar resource are; none where no node has it.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ResourceIndex> {
        self.by_name.get(name).copied()
    }

    /// The columns of a scalar resource.
    #[must_use]
    pub fn scalar(&self, index: ResourceIndex) -> &Column {
        &self.scalars[index.0 as usize]
    }

    /// How many scalar resources are kept, in columns or apart.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.by_name.len() + self.unheld.values().map(BTreeMap::len).sum::<usize>()
    }

    /// Whether no scalar resource is kept.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.unheld.is_empty()
    }

    /// What a node has, and whether that is a change.
    pub fn allow(&mut self, node: NodeIndex, amounts: &Amounts) -> bool {
        let mut changed = self.cpu.allow(node, amounts.cpu_millis);
        changed |= self.memory.allow(node, amounts.memory_bytes);
        changed |= self.storage.allow(node, amounts.storage_bytes);
        for (name, amount) in &amounts.scalars {
            if *amount != 0 && !self.by_name.contains_key(name) {
                self.make_column(name);
            }
        }
        let mut given_up = Vec::new();
        for (name, index) in &self.by_name {
            let column = &mut self.scalars[index.0 as usize];
            changed |= column.allow(node, amounts.scalar(name));
            if column.holders == 0 {
                given_up.push(name.clone());
            }
        }
        given_up.into_iter().for_each(|name| self.give_up_column(name));
        changed
    }

    /// What pods request of a resource of a node.
    #[must_use]
    pub fn requested(&self, node: NodeIndex, name: &str) -> i64 {
        let plain = match name {
            "cpu" => Some(&self.cpu),
            "memory" => Some(&self.memory),
            "ephemeral-storage" => Some(&self.storage),
            _ => self.find(name).map(|index| self.scalar(index)),
        };
        match plain {
            Some(column) => column.requested[node.get()],
            None => self.unheld.get(&node).and_then(|own| own.get(name)).copied().unwrap_or(0),
        }
    }

    /// What a node has. A scalar of which it has nothing is left out.
    #[must_use]
    pub fn allowed(&self, node: NodeIndex) -> Amounts {
        let amounts = self
            .by_name
            .iter()
            .map(|(name, index)| (name.clone(), self.scalar(*index).allocatable[node.get()]));
        Amounts {
            cpu_millis: self.cpu.allocatable[node.get()],
            memory_bytes: self.memory.allocatable[node.get()],
            storage_bytes: self.storage.allocatable[node.get()],
            scalars: amounts.filter(|(_, amount)| *amount != 0).collect(),
        }
    }

    /// What all nodes have; no more than a number holds.
    #[must_use]
    pub fn total(&self) -> Amounts {
        let sum = |column: &Column| {
            let sum: i128 = column.allocatable.iter().copied().map(i128::from).sum();
            i64::try_from(sum).unwrap_or(i64::MAX)
        };
        let scalars = self.by_name.iter();
        Amounts {
            cpu_millis: sum(&self.cpu),
            memory_bytes: sum(&self.memory),
            storage_bytes: sum(&self.storage),
            scalars: scalars.map(|(name, at)| (name.clone(), sum(self.scalar(*at)))).collect(),
        }
    }

    /// Whether the pods of a node take more of something than it has.
    #[must_use]
    pub fn is_exceeded(&self, node: NodeIndex) -> bool {
        let own = [&self.cpu, &self.memory, &self.storage];
        let scalars = self.by_name.values().map(|index| self.scalar(*index));
        let mut all = own.into_iter().chain(scalars);
        all.any(|column| column.requested[node.get()] > column.allocatable[node.get()])
            || self.unheld.get(&node).is_some_and(|own| own.values().any(|amount| *amount > 0))
    }

    /// Charges a node for requests, or ends the charge.
    pub fn charge(&mut self, node: NodeIndex, requests: &Requests, sign: i64) {
        let Requests { charged, .. } = requests;
        let at = node.get();
        self.cpu.charge(node, sign * charged.cpu_millis);
        self.memory.charge(node, sign * charged.memory_bytes);
        self.storage.charge(node, sign * charged.storage_bytes);
        let scored = [
            (&mut self.cpu_scored[at], requests.cpu_millis_scored),
            (&mut self.memory_scored[at], requests.memory_bytes_scored),
        ];
        for (sum, amount) in scored {
            let new = sum.wrapping_add(sign * amount);
            self.scored_large.follow(std::mem::replace(sum, new), new);
        }
        for (name, amount) in charged.scalars.iter().filter(|(_, amount)| *amount != 0) {
            match self.by_name.get(name) {
                Some(index) => self.scalars[index.0 as usize].charge(node, sign * amount),
                None => self.charge_apart(node, name, sign * amount),
            }
        }
    }

    /// Whether no amount for scoring is below zero or has more than [`EXACT_BITS`].
    #[must_use]
    pub fn is_scored_exact(&self) -> bool {
        self.scored_large.inexact == 0
    }

    fn charge_apart(&mut self, node: NodeIndex, name: &str, amount: i64) {
        let own = self.unheld.entry(node).or_default();
        match own.get_mut(name) {
            Some(sum) => {
                *sum = sum.wrapping_add(amount);
                if *sum == 0 {
                    own.remove(name);
                }
            }
            None => {
                own.insert(name.into(), amount);
            }
        }
        if own.is_empty() {
            self.unheld.remove(&node);
        }
    }

    /// A node has a resource that none had, though pods may take of it already.
    fn make_column(&mut self, name: &str) {
        let mut column = Column::default();
        column.grow(self.places);
        self.unheld.retain(|node, own| {
            if let Some(amount) = own.remove(name) {
                column.charge(*node, amount);
            }
            !own.is_empty()
        });
        let index = self.free.pop().unwrap_or_else(|| {
            self.scalars.push(Column::default());
            let number = u32::try_from(self.scalars.len() - 1);
            ResourceIndex(number.expect("there is not enough memory for so many columns"))
        });
        self.scalars[index.0 as usize] = column;
        self.by_name.insert(name.into(), index);
    }

    /// The last node that had a resource has it no longer, though pods may still take of it.
    fn give_up_column(&mut self, name: Box<str>) {
        let Some(index) = self.by_name.remove(&name) else { return };
        let column = std::mem::take(&mut self.scalars[index.0 as usize]);
        self.free.push(index);
        let taken = column.requested.iter().enumerate().filter(|(_, amount)| **amount != 0);
        for (place, amount) in taken {
            let own = self.unheld.entry(NodeIndex::at(place)).or_default();
            own.insert(name.clone(), *amount);
        }
    }
}

impl Column {
    fn grow(&mut self, places: usize) {
        self.allocatable.resize(places, 0);
        self.requested.resize(places, 0);
    }

    /// Whether no amount is below zero or has more than [`EXACT_BITS`].
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.large.inexact == 0
    }

    /// Whether no amount is below zero or has more than [`SAFE_BITS`].
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.large.overflowing == 0
    }

    /// Amounts are bounded where they are read, and so is how many pods a node takes: a sum wraps only
    /// where pods were put on a node beyond that, by hand or by a profile without NodeResourcesFit, and
    /// is right again when they are gone.
    fn charge(&mut self, node: NodeIndex, amount: i64) {
        let requested = &mut self.requested[node.get()];
        let new = requested.wrapping_add(amount);
        self.large.follow(std::mem::replace(requested, new), new);
    }

    fn allow(&mut self, node: NodeIndex, amount: i64) -> bool {
        let old = std::mem::replace(&mut self.allocatable[node.get()], amount);
        self.large.follow(old, amount);
        self.holders += u32::from(amount != 0);
        self.holders -= u32::from(old != 0);
        old != amount
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NODES: usize = 4;

    fn node(place: usize) -> NodeIndex {
        NodeIndex::at(place)
    }

    fn scalars(amounts: impl IntoIterator<Item = (String, i64)>) -> Amounts {
        let mut scalars: Vec<(Box<str>, i64)> =
            amounts.into_iter().map(|(name, amount)| (name.into(), amount)).collect();
        scalars.sort_unstable();
        Amounts { scalars, ..Amounts::default() }
    }

    #[test]
    fn names_that_only_pods_know_take_no_columns_and_leave_nothing_behind() {
        let mut resources = Resources::default();
        resources.grow(5000);
        let named = |amount| (0..10_000).map(move |name| (format!("a.b/x{name}"), amount));
        for (amount, kept) in [(0, 0), (1, 10_000)] {
            let pod = Requests { charged: scalars(named(amount)), ..Requests::default() };
            resources.charge(node(7), &pod, 1);
            assert_eq!((resources.len(), resources.scalars.len()), (kept, 0));
            assert_eq!(resources.is_exceeded(node(7)), amount > 0);
            resources.charge(node(7), &pod, -1);
            assert!(resources.is_empty());
        }
    }

    #[test]
    fn a_column_is_used_again() {
        let mut resources = Resources::default();
        resources.grow(NODES);
        for name in 0..100 {
            resources.allow(node(1), &scalars([(format!("a.b/x{name}"), 1)]));
            assert_eq!(resources.len(), 1);
        }
        assert!(resources.scalars.len() <= 2);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Node(usize, Vec<i64>),
        Pod(usize, Vec<i64>),
    }

    fn step() -> impl Strategy<Value = Step> {
        let amount =
            prop_oneof![3 => Just(0), 3 => 1..4_i64, 1 => Just(1 << 46), 1 => Just(1 << 61)];
        let amounts = proptest::collection::vec(amount, 3);
        (0..NODES, amounts, any::<bool>()).prop_map(|(node, amounts, is_node)| match is_node {
            true => Step::Node(node, amounts),
            false => Step::Pod(node, amounts),
        })
    }

    fn named(amounts: &[i64]) -> Amounts {
        scalars(amounts.iter().enumerate().map(|(name, amount)| (format!("a.b/x{name}"), *amount)))
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_nodes_have_and_pods_take(
            steps in proptest::collection::vec(step(), 0..40),
        ) {
            let mut resources = Resources::default();
            resources.grow(NODES);
            let (mut has, mut taken) = ([[0_i64; 3]; NODES], [[0_i64; 3]; NODES]);
            let mut pods: Vec<(usize, Vec<i64>)> = Vec::new();
            for step in steps {
                match step {
                    Step::Node(place, amounts) => {
                        let changed = resources.allow(node(place), &named(&amounts));
                        prop_assert_eq!(changed, has[place][..] != amounts[..]);
                        has[place].copy_from_slice(&amounts);
                    }
                    Step::Pod(place, amounts) => {
                        // Beyond three, the first goes.
                        let gone = (pods.len() == 3).then(|| pods.remove(0));
                        pods.push((place, amounts.clone()));
                        for (sign, (place, amounts)) in
                            gone.map(|gone| (-1, gone)).into_iter().chain([(1, (place, amounts))])
                        {
                            let charged = named(&amounts);
                            let pod = Requests { charged, ..Requests::default() };
                            resources.charge(node(place), &pod, sign);
                            let sums = taken[place].iter_mut().zip(amounts);
                            sums.for_each(|(sum, amount)| *sum += sign * amount);
                        }
                    }
                }
                for name in 0..3 {
                    let held = (0..NODES).any(|place| has[place][name] != 0);
                    let index = resources.find(&format!("a.b/x{name}"));
                    prop_assert_eq!(index.is_some(), held);
                    let Some(index) = index else { continue };
                    let column = resources.scalar(index);
                    for place in 0..NODES {
                        prop_assert_eq!(column.allocatable[place], has[place][name]);
                        prop_assert_eq!(column.requested[place], taken[place][name]);
                    }
                    let cells = || column.allocatable.iter().chain(&column.requested);
                    let within = |bits: u32| cells().all(|cell| cell.cast_unsigned() >> bits == 0);
                    prop_assert_eq!(column.is_exact(), within(EXACT_BITS));
                    prop_assert_eq!(column.is_safe(), within(SAFE_BITS));
                }
                for place in 0..NODES {
                    let exceeded = taken[place].iter().zip(has[place]).any(|(own, has)| *own > has);
                    prop_assert_eq!(resources.is_exceeded(node(place)), exceeded);
                }
            }
        }
    }
}
