//! Amounts by node, one column for each resource.

use std::collections::BTreeMap;

use super::NodeIndex;
use crate::needs::{Amounts, Requests};

/// The place of a resource's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceIndex(u32);

/// What nodes have of a resource, and what their pods take.
#[derive(Debug, Clone, Default)]
pub struct Column {
    /// What pods may request, by node.
    pub allocatable: Vec<i64>,
    /// What pods do request, by node.
    pub requested: Vec<i64>,
    /// All bits that were ever set in an amount.
    bits: u64,
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
    /// All bits that were ever set in an amount for scoring.
    scored_bits: u64,
    scalars: Vec<Column>,
    by_name: BTreeMap<Box<str>, ResourceIndex>,
    places: usize,
}

impl Resources {
    /// Makes every column this long.
    pub fn grow(&mut self, places: usize) {
        self.places = places;
        for column in [&mut self.cpu, &mut self.memory, &mut self.storage] {
            column.grow(places);
        }
        for column in &mut self.scalars {
            column.grow(places);
        }
        self.cpu_scored.resize(places, 0);
        self.memory_scored.resize(places, 0);
    }

    /// Where the columns of a scalar resource are; none where no node and no pod on a node ever
    /// had it.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ResourceIndex> {
        self.by_name.get(name).copied()
    }

    /// The columns of a scalar resource.
    #[must_use]
    pub fn scalar(&self, index: ResourceIndex) -> &Column {
        &self.scalars[index.0 as usize]
    }

    /// What a node has, and whether that is a change.
    pub fn allow(&mut self, node: NodeIndex, amounts: &Amounts) -> bool {
        let mut changed = self.cpu.allow(node, amounts.cpu_millis);
        changed |= self.memory.allow(node, amounts.memory_bytes);
        changed |= self.storage.allow(node, amounts.storage_bytes);
        for (name, _) in &amounts.scalars {
            self.scalar_mut(name);
        }
        for (name, index) in &self.by_name {
            let amount = amounts.scalar(name);
            changed |= self.scalars[index.0 as usize].allow(node, amount);
        }
        changed
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

    /// Whether the pods of a node take more of something than it has.
    #[must_use]
    pub fn is_exceeded(&self, node: NodeIndex) -> bool {
        let own = [&self.cpu, &self.memory, &self.storage];
        let mut all = own.into_iter().chain(&self.scalars);
        all.any(|column| column.requested[node.get()] > column.allocatable[node.get()])
    }

    /// Charges a node for requests, or ends the charge.
    pub fn charge(&mut self, node: NodeIndex, requests: &Requests, sign: i64) {
        let Requests { charged, .. } = requests;
        let at = node.get();
        self.cpu.charge(node, sign * charged.cpu_millis);
        self.memory.charge(node, sign * charged.memory_bytes);
        self.storage.charge(node, sign * charged.storage_bytes);
        self.cpu_scored[at] += sign * requests.cpu_millis_scored;
        self.memory_scored[at] += sign * requests.memory_bytes_scored;
        self.scored_bits |= (self.cpu_scored[at] | self.memory_scored[at]).cast_unsigned();
        for (name, amount) in &charged.scalars {
            self.scalar_mut(name).charge(node, sign * amount);
        }
    }

    /// Whether no amount for scoring was ever below zero or had more bits than this.
    #[must_use]
    pub fn scored_within(&self, bits: u32) -> bool {
        self.scored_bits >> bits == 0
    }

    fn scalar_mut(&mut self, name: &str) -> &mut Column {
        let index = match self.by_name.get(name) {
            Some(index) => index.0 as usize,
            None => {
                let mut column = Column::default();
                column.grow(self.places);
                self.scalars.push(column);
                let index = self.scalars.len() - 1;
                let number = u32::try_from(index).expect("there are fewer resources than nodes");
                self.by_name.insert(name.into(), ResourceIndex(number));
                index
            }
        };
        &mut self.scalars[index]
    }
}

impl Column {
    fn grow(&mut self, places: usize) {
        self.allocatable.resize(places, 0);
        self.requested.resize(places, 0);
    }

    /// Whether no amount was ever below zero or had more bits than this.
    #[must_use]
    pub fn is_within(&self, bits: u32) -> bool {
        self.bits >> bits == 0
    }

    fn charge(&mut self, node: NodeIndex, amount: i64) {
        let requested = &mut self.requested[node.get()];
        *requested += amount;
        self.bits |= requested.cast_unsigned();
    }

    fn allow(&mut self, node: NodeIndex, amount: i64) -> bool {
        self.bits |= amount.cast_unsigned();
        std::mem::replace(&mut self.allocatable[node.get()], amount) != amount
    }
}
