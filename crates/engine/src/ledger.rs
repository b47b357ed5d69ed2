//! The ledger: what the facts add up to.
//!
//! [`Ledger::apply`] and the claims are the only ways in which it changes. Nodes and pods are rows
//! of tables, what pods ask for is kept once for all pods that ask the same, and whatever is
//! derived from a node can be repaired from the list of nodes that changed.

mod changes;
mod nodes;
mod resources;
mod symbols;

use rustc_hash::FxHashMap;

pub use changes::{Changes, Position};
pub use nodes::{NodeId, NodeIndex, Nodes};
pub use resources::{Column, ResourceIndex, Resources};
pub use symbols::{Symbol, Symbols};

use crate::fact::{Fact, PodFact, Uid};
use crate::needs::{Images, Needs, NodeAffinity, Ports, Requests, Tolerations};
use crate::pool::{Id, Pool};

/// What a pod asks for, by the numbers of its parts.
///
/// Pods with equal asks are answered alike by every plugin that reads nothing else of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ask {
    /// What it requests.
    pub requests: Id<Requests>,
    /// What it takes once it is there.
    pub taken: Id<Requests>,
    /// Ports of the node.
    pub ports: Id<Ports>,
    /// Taints it puts up with.
    pub tolerations: Id<Tolerations>,
    /// Which nodes it must and would rather run on.
    pub node_affinity: Id<NodeAffinity>,
    /// Images of its containers.
    pub images: Id<Images>,
}

/// The parts of asks, each kept once.
#[derive(Clone, Default)]
pub struct Asks {
    /// What pods request.
    pub requests: Pool<Requests>,
    /// Ports of nodes.
    pub ports: Pool<Ports>,
    /// Taints that are put up with.
    pub tolerations: Pool<Tolerations>,
    /// Which nodes pods must and would rather run on.
    pub node_affinity: Pool<NodeAffinity>,
    /// Images of containers.
    pub images: Pool<Images>,
}

impl Asks {
    /// The ask of these needs, held once more.
    pub fn hold(&mut self, needs: &Needs) -> Ask {
        let Needs { requests, taken, ports, tolerations, node_affinity, images } = needs;
        Ask {
            requests: self.requests.hold_as(requests, || requests.clone()),
            taken: self.requests.hold_as(taken, || taken.clone()),
            ports: self.ports.hold_as(ports, || ports.clone()),
            tolerations: self.tolerations.hold_as(tolerations, || tolerations.clone()),
            node_affinity: self.node_affinity.hold_as(node_affinity, || node_affinity.clone()),
            images: self.images.hold_as(images, || images.clone()),
        }
    }

    /// Whether nobody holds anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
            && self.ports.is_empty()
            && self.tolerations.is_empty()
            && self.node_affinity.is_empty()
            && self.images.is_empty()
    }

    /// Ends one hold.
    pub fn release(&mut self, ask: Ask) {
        self.requests.release(ask.requests);
        self.requests.release(ask.taken);
        self.ports.release(ask.ports);
        self.tolerations.release(ask.tolerations);
        self.node_affinity.release(ask.node_affinity);
        self.images.release(ask.images);
    }
}

/// What is known of a pod.
#[derive(Debug, Clone)]
pub struct PodRow {
    /// Its namespace.
    pub namespace: Symbol,
    /// Its name.
    pub name: Box<str>,
    /// Higher goes first.
    pub priority: i32,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What it asks of a node, or takes of one.
    pub ask: Ask,
    /// The node that the API server says it is bound to.
    bound: Option<NodeIndex>,
    /// The node that we decided on and have not yet seen back.
    claim: Option<NodeIndex>,
}

impl PodRow {
    /// The node that is charged for the pod: where it is bound, or where we decided to bind it.
    #[must_use]
    pub fn node(&self) -> Option<NodeIndex> {
        self.bound.or(self.claim)
    }

    /// Whether the API server says that it is bound.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.bound.is_some()
    }
}

/// What the facts add up to.
#[derive(Clone, Default)]
pub struct Ledger {
    /// The nodes.
    pub nodes: Nodes,
    /// What pods ask for.
    pub asks: Asks,
    /// Texts of labels and namespaces.
    pub symbols: Symbols,
    pods: FxHashMap<Uid, PodRow>,
}

/// Why a claim cannot be made or ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// There is no such pod.
    #[error("there is no pod with uid {}", .0.0)]
    NoPod(Uid),
    /// The pod has a node already.
    #[error("pod with uid {} has a node already", .0.0)]
    Placed(Uid),
}

impl Ledger {
    /// Takes a fact in.
    pub fn apply(&mut self, fact: Fact) {
        match fact {
            Fact::Node(node) => {
                self.nodes.put(&node, &mut self.symbols);
            }
            Fact::NodeGone(name) => self.nodes.remove(&name, &mut self.symbols),
            Fact::Pod(pod) => self.put_pod(pod),
            Fact::PodGone(uid) => self.remove_pod(&uid),
        }
    }

    /// A pod.
    #[must_use]
    pub fn pod(&self, uid: &Uid) -> Option<&PodRow> {
        self.pods.get(uid)
    }

    /// How many pods there are.
    #[must_use]
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// Charges a node for a pod that we decided to bind to it.
    ///
    /// # Errors
    /// When the pod is gone or has a node.
    pub fn claim(&mut self, uid: &Uid, node: NodeIndex) -> Result<(), ClaimError> {
        let row = self.pods.get_mut(uid).ok_or_else(|| ClaimError::NoPod(uid.clone()))?;
        if row.node().is_some() {
            return Err(ClaimError::Placed(uid.clone()));
        }
        row.claim = Some(node);
        let ask = row.ask;
        self.occupy(node, ask);
        Ok(())
    }

    /// Ends a claim, because the API server said for sure that the pod is not bound.
    ///
    /// # Errors
    /// When the pod is gone; then so is its claim.
    pub fn disclaim(&mut self, uid: &Uid) -> Result<(), ClaimError> {
        let row = self.pods.get_mut(uid).ok_or_else(|| ClaimError::NoPod(uid.clone()))?;
        let (claim, ask) = (row.claim.take(), row.ask);
        if let Some(node) = claim.filter(|_| row.bound.is_none()) {
            self.vacate(node, ask);
        }
        Ok(())
    }

    fn put_pod(&mut self, fact: PodFact) {
        let ask = self.asks.hold(&fact.needs);
        let bound = fact.node.as_deref().map(|name| self.nodes.place(name));
        let namespace = self.symbols.hold(&fact.namespace);
        let old = self.pods.get(&fact.uid);
        // An event that shows the pod unbound never ends a claim; one that shows it bound does.
        let claim = old.and_then(|old| old.claim).filter(|_| bound.is_none());
        let (was, is) = (old.and_then(PodRow::node), bound.or(claim));
        let row = PodRow {
            namespace,
            name: fact.name,
            priority: fact.priority,
            deleting: fact.deleting,
            ask,
            bound,
            claim,
        };
        let old = self.pods.insert(fact.uid, row);
        let same = was == is && old.as_ref().is_none_or(|old| old.ask == ask);
        if !same {
            // In this order the place of a node is not given up in between.
            if let Some(node) = is {
                self.occupy(node, ask);
            }
            if let Some((node, old)) = was.zip(old.as_ref()) {
                self.vacate(node, old.ask);
            }
        }
        if let Some(old) = old {
            self.asks.release(old.ask);
            self.symbols.release(old.namespace);
        }
    }

    fn remove_pod(&mut self, uid: &Uid) {
        let Some(row) = self.pods.remove(uid) else { return };
        if let Some(node) = row.node() {
            self.vacate(node, row.ask);
        }
        self.asks.release(row.ask);
        self.symbols.release(row.namespace);
    }

    fn occupy(&mut self, node: NodeIndex, ask: Ask) {
        let (requests, ports) = (self.asks.requests.get(ask.taken), self.asks.ports.get(ask.ports));
        self.nodes.occupy(node, requests, ports);
    }

    fn vacate(&mut self, node: NodeIndex, ask: Ask) {
        let (requests, ports) = (self.asks.requests.get(ask.taken), self.asks.ports.get(ask.ports));
        self.nodes.vacate(node, requests, ports);
    }
}
