//! Which CPUs of nodes are whose.
//!
//! Layouts are kept by the name of the node, which may not be there yet. What pods hold is counted by
//! CPU, whatever is known of the layout: a layout that comes late finds everything in its place.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::CpuSet;
use api::cpus::Ratios;
use rustc_hash::FxHashMap;

use super::{Ledger, NodeIndex, Way};
use crate::cpus::{Binding, Free, Held, Strategy};
use crate::fact::{Allotment, CpuLayout, NumaPolicy};
use crate::needs::Amounts;
use crate::node_set::NodeSet;
use crate::shared::Chunked;

/// CPUs of all nodes.
#[derive(Debug, Clone, Default)]
pub struct Cpus {
    is_kept: bool,
    layouts: FxHashMap<Box<str>, Arc<CpuLayout>>,
    nodes: Chunked<NodeCpus>,
    /// Nodes that say how the CPUs of every pod lie or how pods are put on NUMA nodes, or that offer more
    /// than they have.
    particular: NodeSet,
}

/// CPUs of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeCpus {
    /// What is known of them; none where nothing is.
    pub layout: Option<Arc<CpuLayout>>,
    /// What is held of them.
    pub held: Held,
    /// How the CPUs of every pod lie to each other, where the node says so.
    pub binding: Option<Binding>,
    /// Which are given first, where the node says so.
    pub strategy: Option<Strategy>,
    /// How much more than it has the node offers, in thousandths, of resources of which it does.
    pub ratios: Ratios,
    /// How what pods get lies on NUMA nodes, where the node says so.
    pub policy: Option<NumaPolicy>,
    /// How many are free.
    pub free: Free,
    /// How many pods hold, one for each pod that does.
    pub bound: u32,
    /// The CPUs of each pod that has some, whether it says what it has of NUMA nodes, and how many
    /// such pods there are.
    pub sets: BTreeMap<(CpuSet, bool), u32>,
    /// What pods have of NUMA nodes, by their numbers.
    pub zones: BTreeMap<u32, Amounts>,
}

impl Cpus {
    /// Whether anybody gives CPUs away.
    #[must_use]
    pub fn are_kept(&self) -> bool {
        self.is_kept
    }

    /// What is known of a node's CPUs.
    #[must_use]
    pub fn layout(&self, node: &str) -> Option<&Arc<CpuLayout>> {
        self.layouts.get(node)
    }

    /// The CPUs of a node; none where nothing was ever known of any.
    #[must_use]
    pub fn of(&self, node: NodeIndex) -> Option<&NodeCpus> {
        (node.get() < self.nodes.len()).then(|| &self.nodes[node.get()])
    }

    /// Nodes on which there is something to say about every pod that requests CPU.
    #[must_use]
    pub fn particular(&self) -> &NodeSet {
        &self.particular
    }
}

impl Ledger {
    /// CPUs are given away from now on.
    pub fn keep_cpus(&mut self) {
        self.cpus.is_kept = true;
    }

    /// Takes in how the CPUs of a node are laid out, or that nobody knows any longer.
    pub(super) fn put_layout(&mut self, node: Box<str>, layout: Option<Arc<CpuLayout>>) {
        let place = self.nodes.find(&node);
        match layout {
            Some(layout) => self.cpus.layouts.insert(node, layout),
            None => self.cpus.layouts.remove(&node),
        };
        if let Some(node) = place {
            self.settle_cpus(node);
        }
    }

    /// Finds out anew which CPUs of a node can be given away, since what it says or is known of them
    /// has changed.
    pub(super) fn settle_cpus(&mut self, node: NodeIndex) {
        if !self.cpus.is_kept {
            return;
        }
        let Self { nodes, cpus, .. } = self;
        cpus.nodes.grow(nodes.places());
        let layout = cpus.layouts.get(nodes.name(node)).cloned();
        let rules = nodes.cpu_rules(node).cloned().unwrap_or_default();
        let own = &mut cpus.nodes[node.get()];
        let none = CpuSet::new();
        let reserved = layout.as_ref().map_or(&none, |layout| &layout.reserved);
        let is_full_only = layout.as_ref().is_some_and(|layout| layout.is_full_only);
        let before = own.clone();
        own.held.reserved = reserved.and(&rules.reserved);
        own.binding = match is_full_only {
            true => Some(Binding::FullCores),
            false => rules.binding,
        };
        own.strategy = rules.strategy;
        own.ratios.clone_from(&rules.ratios);
        own.policy = rules.policy.or(layout.as_ref().and_then(|layout| layout.policy));
        own.layout = layout;
        if *own == before {
            return;
        }
        own.count();
        let is_particular =
            own.binding.is_some() || own.policy.is_some() || own.ratio("cpu").is_some();
        cpus.particular.set(node, is_particular);
        let places = nodes.places();
        nodes.load_changed.note(node, places);
    }
}

impl Cpus {
    /// A pod with this allotment comes to a node or leaves it; there are so many places.
    pub(super) fn shift(
        &mut self,
        node: NodeIndex,
        places: usize,
        allotment: &Allotment,
        way: Way,
    ) {
        if allotment.is_shared() {
            return;
        }
        self.nodes.grow(places);
        let own = &mut self.nodes[node.get()];
        let count = u32::try_from(allotment.cpus.len()).unwrap_or(u32::MAX);
        let is_told = allotment.zones.iter().any(|(_, amounts)| amounts.cpu_millis > 0);
        let set = (allotment.cpus.clone(), is_told);
        match way {
            Way::In => {
                own.held.hold(&allotment.cpus, allotment.exclusive);
                own.bound = own.bound.saturating_add(count);
                if count > 0 {
                    *own.sets.entry(set).or_default() += 1;
                }
            }
            Way::Out => {
                own.held.release(&allotment.cpus, allotment.exclusive);
                own.bound = own.bound.saturating_sub(count);
                if let Some(times) = own.sets.get_mut(&set) {
                    *times -= 1;
                    if *times == 0 {
                        own.sets.remove(&set);
                    }
                }
            }
        }
        for (zone, amounts) in &allotment.zones {
            let sum = own.zones.entry(*zone).or_default();
            sum.add(amounts, way.sign());
            if sum.is_nothing() {
                own.zones.remove(zone);
            }
        }
        own.count();
    }
}

impl NodeCpus {
    /// How much more of a resource than it has the node offers, in thousandths.
    #[must_use]
    pub fn ratio(&self, resource: &str) -> Option<u32> {
        self.ratios.get(resource).copied()
    }

    fn count(&mut self) {
        let topology = self.layout.as_ref().map(|layout| &layout.topology);
        self.free = topology.map(|topology| self.held.free(topology)).unwrap_or_default();
    }
}
