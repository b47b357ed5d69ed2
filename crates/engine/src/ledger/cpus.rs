//! Which CPUs of nodes are whose.
//!
//! Layouts are kept by the name of the node, which may not be there yet. What pods hold is counted by
//! CPU, whatever is known of the layout: a layout that comes late finds everything in its place.
//!
//! Machines of one sort report one layout, and many of them are used alike: layouts are kept once, and
//! nodes that differ in nothing that matters to a pod share a [`NumaState`], so that whoever tries
//! something on one of them knows what becomes of it on the others.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use api::CpuSet;
use api::cpus::Ratios;
use rustc_hash::FxHashMap;

use super::{Ledger, NodeIndex, Way};
use crate::cpus::{Binding, Free, Held, Strategy};
use crate::fact::{Allotment, CpuLayout, NumaPolicy};
use crate::needs::Amounts;
use crate::node_set::NodeSet;
use crate::numa::Use;
use crate::pool::{Id, Pool};
use crate::shared::Chunked;

/// CPUs of all nodes.
#[derive(Debug, Clone, Default)]
pub struct Cpus {
    is_kept: bool,
    layouts: Pool<Arc<CpuLayout>>,
    by_name: FxHashMap<Box<str>, Id<Arc<CpuLayout>>>,
    nodes: Chunked<NodeCpus>,
    states: Pool<NumaState>,
    /// States that nodes were in, the oldest first: they come into them again, and are known then.
    left: VecDeque<Id<NumaState>>,
    /// Nodes that say how the CPUs of every pod lie or how pods are put on NUMA nodes, or that offer more
    /// than they have.
    particular: NodeSet,
}

/// CPUs of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeCpus {
    /// What is known of them; none where nothing is.
    pub layout: Option<Arc<CpuLayout>>,
    /// Which of all layouts it is.
    layout_stamp: Option<u64>,
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
    /// How the NUMA nodes of the layout are used, in its order.
    pub uses: Arc<[ZoneUse]>,
    state: Option<Id<NumaState>>,
}

/// How a NUMA node is used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ZoneUse {
    /// How many CPUs nobody holds.
    pub free: Free,
    /// How many nobody gets.
    pub reserved: u32,
    /// How many pods hold, one for each pod that does.
    pub bound: i64,
    /// How many of these the pods do not say to have of a NUMA node: they are where they are.
    pub untold: i64,
    /// How the pods are that hold some.
    pub by: Use,
    /// What pods say that they have.
    pub taken: Amounts,
}

/// States that are remembered though their nodes have left them.
const STATES_LEFT_MAX: usize = 4_096;

/// All of a node that it follows from what a pod gets of its NUMA nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct NumaState {
    layout: Option<u64>,
    binding: Option<Binding>,
    strategy: Option<Strategy>,
    policy: Option<NumaPolicy>,
    ratios: Ratios,
    free: Free,
    uses: Arc<[ZoneUse]>,
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
        self.by_name.get(node).map(|id| self.layouts.get(*id))
    }

    /// A number for all of a node that it follows from what a pod gets of its NUMA nodes: where it is
    /// the same, pods get the same.
    #[must_use]
    pub fn state(&self, node: NodeIndex) -> Option<u64> {
        self.of(node)?.state.map(|id| self.states.stamp(id))
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
        let Cpus { layouts, by_name, .. } = &mut self.cpus;
        let before = match layout {
            Some(layout) => by_name.insert(node, layouts.hold(layout).0),
            None => by_name.remove(&node),
        };
        if let Some(before) = before {
            layouts.release(before);
        }
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
        let id = cpus.by_name.get(nodes.name(node)).copied();
        let layout = id.map(|id| Arc::clone(cpus.layouts.get(id)));
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
        own.layout_stamp = id.map(|id| cpus.layouts.stamp(id));
        if *own == before {
            return;
        }
        let is_particular =
            own.binding.is_some() || own.policy.is_some() || own.ratio("cpu").is_some();
        cpus.particular.set(node, is_particular);
        cpus.count(node);
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
        self.count(node);
    }

    /// Counts what is free of a node, and finds out who is like it now.
    fn count(&mut self, node: NodeIndex) {
        let own = &mut self.nodes[node.get()];
        let layout = own.layout.as_ref();
        let taken = own.held.taken();
        let free = layout.map(|layout| Free::besides(&taken, &layout.topology));
        let uses = layout.map(|layout| own.uses(layout, &taken)).unwrap_or_default();
        own.free = free.unwrap_or_default();
        let state = NumaState {
            layout: own.layout_stamp,
            binding: own.binding,
            strategy: own.strategy,
            policy: own.policy,
            ratios: own.ratios.clone(),
            free: own.free,
            uses: uses.into(),
        };
        let (id, _) = self.states.hold(state);
        own.uses = Arc::clone(&self.states.get(id).uses);
        self.left.extend(own.state.replace(id));
        if self.left.len() > STATES_LEFT_MAX
            && let Some(oldest) = self.left.pop_front()
        {
            self.states.release(oldest);
        }
    }
}

impl NodeCpus {
    /// How much more of a resource than it has the node offers, in thousandths.
    #[must_use]
    pub fn ratio(&self, resource: &str) -> Option<u32> {
        self.ratios.get(resource).copied()
    }

    /// How the NUMA nodes of the layout are used, where these CPUs cannot be given to anybody.
    fn uses(&self, layout: &CpuLayout, taken: &CpuSet) -> Vec<ZoneUse> {
        let of = |(id, _): &(u32, Amounts)| {
            let cpus = layout.topology.of_numa(*id);
            let mut own = ZoneUse {
                free: Free::within(*id, taken, &layout.topology),
                reserved: small(cpus.count_among(&self.held.reserved)),
                taken: self.zones.get(id).cloned().unwrap_or_default(),
                ..ZoneUse::default()
            };
            for ((set, is_told), times) in &self.sets {
                let here = set.count_among(cpus);
                let held = i64::from(*times).saturating_mul(small(here).into());
                own.bound = own.bound.saturating_add(held);
                own.untold = own.untold.saturating_add(if *is_told { 0 } else { held });
                own.by = match own.by {
                    by if here == 0 => by,
                    by if here == set.len() => by.max(Use::Single),
                    _ => Use::Shared,
                };
            }
            own
        };
        layout.zones.iter().map(of).collect()
    }
}

fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
