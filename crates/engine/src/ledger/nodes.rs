//! The table of nodes: what each is, what it has, and what is taken of it.

use std::sync::Arc;

use object::taint::{Effect, Taint};
use rustc_hash::FxHashMap;

use super::Way;
use super::changes::Changes;
use super::reservations::Holding;
use super::resources::{ResourceIndex, Resources};
use super::symbols::{Symbol, Symbols};
use crate::fact::{CpuRules, LoadRules, NodeFact, NodeRest};
use crate::needs::{Amounts, HostPort, Ports, Requests};
use crate::node_set::NodeSet;
use crate::shared::Chunked;

/// The place of a node in the table.
///
/// The place of a node that is gone goes to another one: what outlives a turn keeps a
/// [`NodeId`] instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(u32);

impl NodeIndex {
    /// The place with this number.
    ///
    /// # Panics
    /// When there are more than four billion.
    #[must_use]
    pub fn at(index: usize) -> Self {
        Self(u32::try_from(index).expect("a cluster has fewer than four billion nodes"))
    }

    /// Its number.
    #[must_use]
    pub fn get(self) -> usize {
        self.0 as usize
    }
}

/// A node for as long as it is there: its place, and which of the nodes that had the place it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeId {
    /// Its place.
    pub index: NodeIndex,
    generation: u32,
}

#[derive(Debug, Clone, Default)]
struct Row {
    /// Nothing where the place is free.
    name: Option<Arc<str>>,
    generation: u32,
    /// Sorted by key.
    labels: Arc<[(Symbol, Symbol)]>,
    taints: Arc<[Taint]>,
    /// Ports that its pods take, one entry for each pod.
    ports: Vec<HostPort>,
    /// Images and their sizes, sorted by name.
    images: Arc<[(Box<str>, i64)]>,
    load: Option<Arc<LoadRules>>,
    cpus: Option<Arc<CpuRules>>,
    rest: NodeRest,
}

/// Whether a taint keeps pods away that do not put up with it.
#[must_use]
pub fn forbids(taint: &Taint) -> bool {
    matches!(taint.effect, Some(Effect::NoSchedule | Effect::NoExecute))
}

/// The table of nodes.
///
/// A node whose object is gone keeps its place while pods are bound to it; only nodes whose object
/// is there are [`Nodes::present`].
#[derive(Debug, Clone, Default)]
pub struct Nodes {
    rows: Chunked<Row>,
    by_name: FxHashMap<Arc<str>, NodeIndex>,
    free: Vec<NodeIndex>,
    present: NodeSet,
    unschedulable: NodeSet,
    /// Nodes with a taint that forbids.
    tainted: NodeSet,
    /// What nodes have and what is taken.
    pub resources: Resources,
    /// How many pods each node has.
    pub pods: Vec<i64>,
    /// How many pods each node takes.
    pub pods_allowed: Vec<i64>,
    /// How many hold on to the place of each node, besides its pods.
    pins: Vec<u32>,
    /// Nodes whose own properties changed.
    pub changed: Changes,
    /// Nodes on which pods came, went or changed.
    pub load_changed: Changes,
    /// How many present nodes have an image.
    image_nodes: FxHashMap<Box<str>, u32>,
    image_changes: u64,
    comings: u64,
    /// How many nodes have a label, whatever its value.
    label_nodes: FxHashMap<Symbol, u32>,
}

impl Nodes {
    /// Places in the table, free ones included: as long as every column is.
    #[must_use]
    pub fn places(&self) -> usize {
        self.rows.len()
    }

    /// Whether no node is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Nodes whose object is there.
    #[must_use]
    pub fn present(&self) -> &NodeSet {
        &self.present
    }

    /// Nodes that are cordoned.
    #[must_use]
    pub fn unschedulable(&self) -> &NodeSet {
        &self.unschedulable
    }

    /// Nodes with a taint that keeps some pods away.
    #[must_use]
    pub fn tainted(&self) -> &NodeSet {
        &self.tainted
    }

    /// The place of a node.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<NodeIndex> {
        self.by_name.get(name).copied()
    }

    /// The name of a node.
    #[must_use]
    pub fn name(&self, node: NodeIndex) -> &str {
        self.rows[node.get()].name.as_deref().unwrap_or_default()
    }

    /// The node that has a place now.
    #[must_use]
    pub fn id(&self, index: NodeIndex) -> NodeId {
        NodeId { index, generation: self.rows[index.get()].generation }
    }

    /// Whether a node still has its place.
    #[must_use]
    pub fn is_there(&self, id: NodeId) -> bool {
        let row = &self.rows[id.index.get()];
        row.name.is_some() && row.generation == id.generation
    }

    /// A label of a node.
    #[must_use]
    pub fn label(&self, node: NodeIndex, key: Symbol) -> Option<Symbol> {
        let labels = &self.rows[node.get()].labels;
        labels.binary_search_by_key(&key, |(key, _)| *key).ok().map(|place| labels[place].1)
    }

    /// The labels of a node, by key in an order that means nothing.
    #[must_use]
    pub fn labels(&self, node: NodeIndex) -> &[(Symbol, Symbol)] {
        &self.rows[node.get()].labels
    }

    /// Whether a node has a label of this key.
    #[must_use]
    pub fn is_label(&self, key: Symbol) -> bool {
        self.label_nodes.contains_key(&key)
    }

    /// The taints of a node.
    #[must_use]
    pub fn taints(&self, node: NodeIndex) -> &[Taint] {
        &self.rows[node.get()].taints
    }

    /// How the load of a node is judged, where it says so.
    #[must_use]
    pub fn load_rules(&self, node: NodeIndex) -> Option<&Arc<LoadRules>> {
        self.rows[node.get()].load.as_ref()
    }

    /// How the CPUs of a node are given away, where it says so.
    #[must_use]
    pub fn cpu_rules(&self, node: NodeIndex) -> Option<&Arc<CpuRules>> {
        self.rows[node.get()].cpus.as_ref()
    }

    /// Ports that pods of a node take.
    #[must_use]
    pub fn ports(&self, node: NodeIndex) -> &[HostPort] {
        &self.rows[node.get()].ports
    }

    /// The size of an image on a node.
    #[must_use]
    pub fn image_bytes(&self, node: NodeIndex, image: &str) -> Option<i64> {
        let images = &self.rows[node.get()].images;
        images.binary_search_by(|(name, _)| (**name).cmp(image)).ok().map(|place| images[place].1)
    }

    /// Images on a node and their sizes, sorted by name.
    #[must_use]
    pub fn images(&self, node: NodeIndex) -> &[(Box<str>, i64)] {
        &self.rows[node.get()].images
    }

    /// How many present nodes have an image.
    #[must_use]
    pub fn nodes_with_image(&self, image: &str) -> u32 {
        self.image_nodes.get(image).copied().unwrap_or(0)
    }

    /// Changes when an image comes to a node or leaves it, or a node comes or goes.
    #[must_use]
    pub fn image_epoch(&self) -> u64 {
        self.image_changes
    }

    /// Changes when a node comes or goes.
    #[must_use]
    pub fn comings(&self) -> u64 {
        self.comings
    }

    /// A node as the last fact told it, but for its images; none where its object is not there.
    #[must_use]
    pub fn told(&self, name: &str, symbols: &Symbols) -> Option<NodeFact> {
        let node = self.find(name).filter(|node| self.present.contains(*node))?;
        let row = &self.rows[node.get()];
        let text = |symbol: Symbol| symbols.text(symbol).into();
        Some(NodeFact {
            name: name.into(),
            labels: row.labels.iter().map(|(key, value)| (text(*key), text(*value))).collect(),
            taints: Arc::clone(&row.taints),
            unschedulable: self.unschedulable.contains(node),
            allocatable: self.resources.allowed(node),
            pods_allowed: self.pods_allowed[node.get()],
            images: Arc::default(),
            load: row.load.clone(),
            cpus: row.cpus.clone(),
            rest: row.rest,
        })
    }

    /// The place of a node, made where there is none yet.
    fn place(&mut self, name: &str) -> NodeIndex {
        if let Some(node) = self.find(name) {
            return node;
        }
        let name: Arc<str> = name.into();
        let node = self.free.pop().unwrap_or_else(|| {
            let node = NodeIndex::at(self.rows.len());
            self.rows.push(Row::default());
            self.pods.push(0);
            self.pods_allowed.push(0);
            self.pins.push(0);
            self.resources.grow(self.rows.len());
            node
        });
        self.rows[node.get()].name = Some(Arc::clone(&name));
        self.by_name.insert(name, node);
        node
    }

    /// What a node is now. A node equal to what is known changes nothing.
    pub fn put(&mut self, fact: &NodeFact, symbols: &mut Symbols) -> NodeIndex {
        let node = self.place(&fact.name);
        let mut labels: Vec<(Symbol, Symbol)> = fact
            .labels
            .iter()
            .map(|(key, value)| (symbols.hold(key), symbols.hold(value)))
            .collect();
        labels.sort_unstable();
        let was_present = self.present.contains(node);
        let changed = !was_present
            || self.rows[node.get()].labels[..] != labels[..]
            || self.rows[node.get()].taints[..] != fact.taints[..]
            || self.unschedulable.contains(node) != fact.unschedulable
            || self.rows[node.get()].images != fact.images;
        if self.rows[node.get()].images != fact.images || !was_present {
            self.count_images(node, was_present, Some(&fact.images));
        }
        self.put_labels(node, labels.into(), symbols);
        let row = &mut self.rows[node.get()];
        row.taints = Arc::clone(&fact.taints);
        row.images = Arc::clone(&fact.images);
        row.load.clone_from(&fact.load);
        row.cpus.clone_from(&fact.cpus);
        row.rest = fact.rest;
        self.comings += u64::from(!was_present);
        self.present.insert(node);
        self.unschedulable.set(node, fact.unschedulable);
        self.tainted.set(node, fact.taints.iter().any(forbids));
        let allowed = std::mem::replace(&mut self.pods_allowed[node.get()], fact.pods_allowed);
        let room = self.resources.allow(node, &fact.allocatable) | (allowed != fact.pods_allowed);
        if changed {
            self.changed.note(node, self.rows.len());
        }
        if changed || room {
            self.load_changed.note(node, self.rows.len());
        }
        node
    }

    /// Gives a node labels that are held, and lets go of those that it had.
    fn put_labels(
        &mut self,
        node: NodeIndex,
        labels: Arc<[(Symbol, Symbol)]>,
        symbols: &mut Symbols,
    ) {
        let old = std::mem::replace(&mut self.rows[node.get()].labels, labels);
        if old != self.rows[node.get()].labels {
            for (key, _) in self.rows[node.get()].labels.iter() {
                *self.label_nodes.entry(*key).or_default() += 1;
            }
            for (key, _) in old.iter() {
                if let Some(count) = self.label_nodes.get_mut(key) {
                    *count -= 1;
                    if *count == 0 {
                        self.label_nodes.remove(key);
                    }
                }
            }
        }
        for (key, value) in old.iter() {
            symbols.release(*key);
            symbols.release(*value);
        }
    }

    /// A node's object is gone. Its place stays as long as pods are bound to it.
    pub fn remove(&mut self, name: &str, symbols: &mut Symbols) -> Option<NodeIndex> {
        let node = self.find(name).filter(|node| self.present.contains(*node))?;
        self.count_images(node, true, None);
        self.comings += 1;
        self.present.remove(node);
        self.unschedulable.remove(node);
        self.tainted.remove(node);
        self.put_labels(node, Arc::default(), symbols);
        let row = &mut self.rows[node.get()];
        row.taints = Arc::default();
        row.images = Arc::default();
        row.load = None;
        row.cpus = None;
        self.pods_allowed[node.get()] = 0;
        self.resources.allow(node, &Amounts::default());
        self.changed.note(node, self.rows.len());
        self.load_changed.note(node, self.rows.len());
        self.free_if_unused(node);
        Some(node)
    }

    /// Charges a node for a pod.
    pub fn occupy(&mut self, node: NodeIndex, requests: &Requests, ports: &Ports) {
        self.pods[node.get()] += 1;
        self.resources.charge(node, requests, 1);
        self.take_ports(node, &ports.0, Way::In);
        self.load_changed.note(node, self.rows.len());
    }

    /// Ends the charge for a pod.
    pub fn vacate(&mut self, node: NodeIndex, requests: &Requests, ports: &Ports) {
        self.pods[node.get()] -= 1;
        self.resources.charge(node, requests, -1);
        self.take_ports(node, &ports.0, Way::Out);
        self.load_changed.note(node, self.rows.len());
        self.free_if_unused(node);
    }

    /// Charges a node for what is held there and nobody uses, or ends that. Whoever holds something has
    /// [pinned](Self::pin) the node.
    pub(super) fn charge(&mut self, node: NodeIndex, held: &Holding, way: Way) {
        self.pods[node.get()] += held.pods * way.sign();
        self.resources.charge(node, &held.requests(), way.sign());
        self.take_ports(node, &held.ports, way);
        self.load_changed.note(node, self.rows.len());
    }

    fn take_ports(&mut self, node: NodeIndex, ports: &[HostPort], way: Way) {
        if ports.is_empty() {
            return;
        }
        let taken = &mut self.rows[node.get()].ports;
        match way {
            Way::In => taken.extend_from_slice(ports),
            Way::Out => {
                for port in ports {
                    if let Some(place) = taken.iter().position(|own| own == port) {
                        taken.swap_remove(place);
                    }
                }
            }
        }
    }

    /// Keeps the place of a node, whether it has pods or not.
    pub(crate) fn pin(&mut self, node: NodeIndex) {
        self.pins[node.get()] += 1;
    }

    /// Keeps it no longer.
    pub(crate) fn unpin(&mut self, node: NodeIndex) {
        self.pins[node.get()] -= 1;
        self.free_if_unused(node);
    }

    fn free_if_unused(&mut self, node: NodeIndex) {
        let is_used = self.pods[node.get()] > 0 || self.pins[node.get()] > 0;
        if self.present.contains(node) || is_used {
            return;
        }
        let row = &mut self.rows[node.get()];
        if let Some(name) = row.name.take() {
            self.by_name.remove(&name);
            row.generation = row.generation.wrapping_add(1);
            self.free.push(node);
        }
    }

    /// Counts the images that come and go with a change of a node.
    fn count_images(&mut self, node: NodeIndex, old: bool, new: Option<&[(Box<str>, i64)]>) {
        self.image_changes += 1;
        if old {
            for (name, _) in self.rows[node.get()].images.iter() {
                if let Some(count) = self.image_nodes.get_mut(name) {
                    *count -= 1;
                    if *count == 0 {
                        self.image_nodes.remove(name);
                    }
                }
            }
        }
        for (name, _) in new.unwrap_or_default() {
            *self.image_nodes.entry(name.clone()).or_default() += 1;
        }
    }

    /// The index of a resource's columns.
    #[must_use]
    pub fn resource(&self, name: &str) -> Option<ResourceIndex> {
        self.resources.find(name)
    }
}
