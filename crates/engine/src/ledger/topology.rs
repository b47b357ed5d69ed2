//! Domains: nodes that share the value of a label.
//!
//! For each label that some pod's term names there is a column that gives each node the number of
//! its domain, so that counting by domain compares no texts. A label that no node has costs nothing.

use std::collections::BTreeSet;

use super::nodes::{NodeIndex, Nodes};
use super::symbols::{Symbol, Symbols};
use crate::node_set::NodeSet;
use crate::pool::{Id, Pool};

/// A label whose values are domains.
pub type TopologyKey = Id<Box<str>>;

/// No domain: the node has no such label, or is not there.
const NONE: u32 = u32::MAX;

/// The domains of one label.
#[derive(Debug, Clone, Default)]
pub struct Topology {
    of_node: Vec<u32>,
    /// Each node of a domain holds it.
    domains: Pool<Symbol>,
    /// By domain, how many nodes it has.
    sizes: Vec<u32>,
    labelled: NodeSet,
}

impl Topology {
    /// The number of a node's domain.
    #[must_use]
    pub fn domain(&self, node: NodeIndex) -> Option<usize> {
        self.of_node
            .get(node.get())
            .filter(|domain| **domain != NONE)
            .map(|domain| *domain as usize)
    }

    /// Numbers of domains are below this.
    #[must_use]
    pub fn places(&self) -> usize {
        self.domains.places()
    }

    /// The nodes that have a domain. All of them are present.
    #[must_use]
    pub fn labelled(&self) -> &NodeSet {
        &self.labelled
    }

    /// By node, the number of its domain, for loops over all nodes: a number that no domain has, or
    /// no number at all, where a node has none.
    #[must_use]
    pub fn column(&self) -> &[u32] {
        &self.of_node
    }

    /// How many nodes a domain has.
    #[must_use]
    pub fn nodes_in(&self, domain: usize) -> u32 {
        self.sizes[domain]
    }

    fn put(&mut self, node: NodeIndex, value: Option<Symbol>) {
        if self.of_node.len() <= node.get() {
            if value.is_none() {
                return;
            }
            self.of_node.resize(node.get() + 1, NONE);
        }
        self.labelled.set(node, value.is_some());
        let domain = value.map(|value| self.domains.hold(value).0);
        let number = domain.map_or(NONE, |domain| u32::try_from(domain.get()).unwrap_or(NONE));
        let old = std::mem::replace(&mut self.of_node[node.get()], number);
        if old != NONE {
            self.domains.release(Id::at(old as usize));
            self.sizes[old as usize] -= 1;
        }
        if number != NONE {
            self.sizes.resize(self.domains.places(), 0);
            self.sizes[number as usize] += 1;
        }
        if self.domains.is_empty() {
            *self = Self::default();
        }
    }
}

/// The domains of every label that some pod's term names.
#[derive(Debug, Clone, Default)]
pub struct Topologies {
    keys: Pool<Box<str>>,
    columns: Vec<Topology>,
    /// Labels that some node has.
    filled: BTreeSet<TopologyKey>,
}

impl Topologies {
    /// The number of a label, held once more.
    pub fn hold(&mut self, key: &str, nodes: &Nodes, symbols: &Symbols) -> TopologyKey {
        if let Some(id) = self.keys.find(key) {
            self.keys.hold_again(id);
            return id;
        }
        let (id, _) = self.keys.hold(key.into());
        if self.columns.len() <= id.get() {
            self.columns.resize_with(id.get() + 1, Topology::default);
        }
        self.columns[id.get()] = Topology::default();
        if symbols.find(key).is_some_and(|key| nodes.is_label(key)) {
            for node in nodes.present().iter() {
                self.fill(id, node, nodes, symbols);
            }
        }
        id
    }

    /// Ends one hold.
    pub fn release(&mut self, key: TopologyKey) {
        if self.keys.release(key).is_some() {
            self.columns[key.get()] = Topology::default();
            self.filled.remove(&key);
        }
    }

    /// Takes in what a node is now.
    pub fn follow(&mut self, node: NodeIndex, nodes: &Nodes, symbols: &Symbols) {
        let own = nodes.labels(node).iter();
        let own = own.filter_map(|(key, _)| self.keys.find(symbols.text(*key)));
        let keys: BTreeSet<TopologyKey> = self.filled.iter().copied().chain(own).collect();
        for key in keys {
            self.fill(key, node, nodes, symbols);
        }
    }

    fn fill(&mut self, key: TopologyKey, node: NodeIndex, nodes: &Nodes, symbols: &Symbols) {
        let symbol = symbols.find(self.keys.get(key));
        let value = symbol.and_then(|symbol| nodes.label(node, symbol));
        let column = &mut self.columns[key.get()];
        column.put(node, value);
        match column.domains.is_empty() {
            true => self.filled.remove(&key),
            false => self.filled.insert(key),
        };
    }

    /// How many labels are held, and how many of them some node has.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.keys.len(), self.filled.len())
    }

    /// The number of a label that somebody holds.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<TopologyKey> {
        self.keys.find(key)
    }

    /// The label itself.
    #[must_use]
    pub fn key(&self, key: TopologyKey) -> &str {
        self.keys.get(key)
    }

    /// The domains of a label.
    #[must_use]
    pub fn get(&self, key: TopologyKey) -> &Topology {
        &self.columns[key.get()]
    }
}
