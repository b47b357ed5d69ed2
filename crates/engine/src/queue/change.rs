//! What a fact changes, as far as a pod that waits may care.

use std::collections::BTreeMap;

use object::taint::Toleration;

use crate::fact::{Fact, NodeFact, PodFact, StorageFact, Uid};
use crate::ledger::{Ledger, PodRow};
use crate::needs::{Amounts, HostPort, PodTerm, Volumes};
use crate::plugin::{Plugin, Plugins};

/// Something that changed.
#[derive(Debug, Clone)]
pub enum Change {
    /// A node came, went or is another now.
    Node {
        /// What it was.
        old: Option<Box<NodeFact>>,
        /// What it is.
        new: Option<Box<NodeFact>>,
    },
    /// A pod with a node came, went or is another now. Where somebody gave it another node than we
    /// had decided on, it leaves that one.
    Placed {
        /// What it was.
        old: Option<Box<PodView>>,
        /// What it is.
        new: Option<Box<PodView>>,
    },
    /// A pod without a node is another now.
    Own {
        /// Which pod.
        uid: Uid,
        /// What it was.
        old: Box<PodView>,
        /// What it is.
        new: Box<PodView>,
    },
    /// Somebody asks to try this pod at once.
    Asked(Uid),
    /// Pods were found that wait for too long: for kube-scheduler, that is a reason to try those in
    /// flight again as well.
    Overdue,
    /// The labels of a namespace are others now.
    Namespace,
    /// A service or a controller of this namespace selects other pods now, so that others may be
    /// alike.
    Owners(Box<str>),
    /// A volume, a claim or what stands behind them came, went or is another now.
    Storage {
        /// What it was.
        old: Box<StorageFact>,
        /// What it is.
        new: Box<StorageFact>,
    },
}

/// Those who care about volumes.
const OF_STORAGE: [Plugin; 4] = [
    Plugin::VolumeRestrictions,
    Plugin::NodeVolumeLimits,
    Plugin::VolumeBinding,
    Plugin::VolumeZone,
];
/// Those who care about other pods, wherever they are.
const OF_PODS: [Plugin; 2] = [Plugin::PodTopologySpread, Plugin::InterPodAffinity];
/// Nobody knows what they care about.
const OUTSIDE: [Plugin; 2] = [Plugin::Extender, Plugin::Other];

/// What of a pod may matter to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodView {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its labels.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// What it takes of its node.
    pub taken: Amounts,
    /// Ports of its node.
    pub ports: Box<[HostPort]>,
    /// Taints it puts up with.
    pub tolerations: Box<[Toleration]>,
    /// Pods that may not be near it.
    pub away: Box<[PodTerm]>,
    /// Volumes that its place depends on.
    pub volumes: Volumes,
    /// Its node, or the one that it leaves.
    pub node: Option<Box<str>>,
    /// Whether volumes were promised to it that it does not get.
    pub breaks_promises: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl PodView {
    fn of_row(ledger: &Ledger, row: &PodRow) -> Self {
        let (asks, terms, ask) = (&ledger.asks, &ledger.terms, row.ask);
        Self {
            volumes: ask.volumes.map(|id| asks.volumes.get(id).clone()).unwrap_or_default(),
            node: row.bound_to(ledger).map(Into::into),
            breaks_promises: false,
            namespace: row.namespace.clone(),
            labels: terms.crowds.labels_of(ask.identity, &ledger.symbols),
            taken: asks.requests.get(ask.taken).charged.clone(),
            ports: asks.ports.get(ask.ports).0.clone(),
            tolerations: asks.tolerations.get(ask.tolerations).0.clone(),
            away: terms.told_affinity(ask.pod_affinity).away.clone(),
            deleting: row.deleting,
        }
    }

    /// What of a pod was there that leaves its node, or the node that it was to get.
    fn leaving(ledger: &Ledger, row: &PodRow) -> Self {
        let node = row.node().map(|node| ledger.nodes.name(node)).or(row.bound_to(ledger));
        let node = node.or(row.nominated());
        Self {
            node: node.map(Into::into),
            breaks_promises: !row.is_bound() && row.node().is_some() && row.ask.volumes.is_some(),
            ..Self::of_row(ledger, row)
        }
    }

    /// A label.
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(|value| &**value)
    }
}

impl From<&PodFact> for PodView {
    fn from(fact: &PodFact) -> Self {
        Self {
            volumes: fact.needs.volumes.clone(),
            node: fact.node.clone(),
            breaks_promises: false,
            namespace: fact.namespace.clone(),
            labels: fact.labels.clone(),
            taken: fact.needs.taken.charged.clone(),
            ports: fact.needs.ports.0.clone(),
            tolerations: fact.needs.tolerations.0.clone(),
            away: fact.needs.pod_affinity.away.clone(),
            deleting: fact.deleting,
        }
    }
}

/// Whether a pod is no longer where it was.
pub(super) fn has_left(old: Option<&PodView>, new: Option<&PodView>) -> bool {
    match (old, new) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(old), Some(new)) => old.node != new.node,
    }
}

impl Change {
    /// What a fact will change; none where nobody who waits could care. To be asked before the
    /// ledger takes the fact in.
    #[must_use]
    pub fn of(ledger: &Ledger, fact: &Fact) -> Option<Self> {
        match fact {
            Fact::Node(new) => {
                let mut new = new.clone();
                new.images = std::sync::Arc::default();
                new.allocatable.scalars.retain(|(_, amount)| *amount != 0);
                let old = ledger.nodes.told(&new.name, &ledger.symbols);
                let same = old.as_ref() == Some(&new);
                let old = old.map(Box::new);
                (!same).then(|| Self::Node { old, new: Some(Box::new(new)) })
            }
            Fact::NodeGone(name) => {
                let old = ledger.nodes.told(name, &ledger.symbols)?;
                Some(Self::Node { old: Some(Box::new(old)), new: None })
            }
            Fact::Pod(new) => Self::of_pod(ledger, new),
            Fact::PodGone(uid) => Self::unplaced(ledger, uid),
            Fact::Namespace { name, labels } => {
                let old = ledger.terms.crowds.namespace_labels(name, &ledger.symbols);
                (old.unwrap_or_default() != *labels).then_some(Self::Namespace)
            }
            Fact::NamespaceGone(name) => {
                let old = ledger.terms.crowds.namespace_labels(name, &ledger.symbols);
                old.is_some_and(|old| !old.is_empty()).then_some(Self::Namespace)
            }
            Fact::Owner { namespace, owner, selector } => {
                let same = ledger.owners.selector(namespace, owner) == selector.as_ref();
                (!same).then(|| Self::Owners(namespace.clone()))
            }
            // They say who may make room, not whether there is room.
            Fact::Budget { .. } => None,
            Fact::Storage(new) => {
                let old = ledger.storage.told(new);
                (old != *new)
                    .then(|| Self::Storage { old: Box::new(old), new: Box::new(new.clone()) })
            }
        }
    }

    /// Those whose refusals it may cure; the others need not be asked.
    #[must_use]
    pub fn concerns(&self) -> Plugins {
        let of_node = [Plugin::NodeResourcesFit, Plugin::NodePorts];
        let outside = || Plugins::from_iter(OUTSIDE);
        let with = |plugins: &[Plugin]| outside().and(plugins.iter().copied().collect());
        match self {
            Self::Asked(_) | Self::Overdue => Plugins::default(),
            Self::Node { new: Some(_), .. } | Self::Own { .. } => Plugins::all(),
            Self::Node { new: None, .. } => with(&OF_PODS).and(with(&[Plugin::VolumeRestrictions])),
            Self::Placed { old, new } if has_left(old.as_deref(), new.as_deref()) => {
                with(&OF_PODS).and(with(&of_node)).and(with(&OF_STORAGE))
            }
            Self::Placed { old: None, .. } => with(&OF_PODS),
            Self::Placed { .. } => with(&OF_PODS).and(with(&[Plugin::NodeResourcesFit])),
            Self::Namespace => with(&[Plugin::InterPodAffinity]),
            Self::Owners(_) => Plugins::from_iter([Plugin::PodTopologySpread]),
            Self::Storage { .. } => with(&OF_STORAGE),
        }
    }

    /// The only node that those of its plugins who look at one node at a time care about.
    #[must_use]
    pub(super) fn node(&self) -> Option<&str> {
        match self {
            Self::Node { old, new } => new.as_deref().or(old.as_deref()).map(|node| &*node.name),
            Self::Placed { old, new } => {
                // Where it comes to, it takes room.
                old.as_deref().or(new.as_deref()).and_then(|pod| pod.node.as_deref())
            }
            _ => None,
        }
    }

    fn of_pod(ledger: &Ledger, fact: &PodFact) -> Option<Self> {
        let row = ledger.pod(&fact.uid);
        let old = || row.map(|row| Box::new(PodView::of_row(ledger, row)));
        let leaving = || row.map(|row| Box::new(PodView::leaving(ledger, row)));
        let new = Box::new(PodView::from(fact));
        let was_bound = row.is_some_and(PodRow::is_bound);
        match (was_bound, fact.node.is_some()) {
            (_, true) => {
                let got_another = |row: &PodRow| {
                    let claim = row.claim.map(|node| ledger.nodes.name(node));
                    claim.is_some_and(|claim| fact.node.as_deref() != Some(claim))
                };
                let old = match row {
                    Some(_) if was_bound => old(),
                    Some(row) if got_another(row) => leaving(),
                    _ => None,
                };
                let same = old.as_deref() == Some(&*new);
                (!same).then_some(Self::Placed { old, new: Some(new) })
            }
            // Room that was kept for it is free.
            (false, false) if row.is_some_and(|row| row.loses_nomination(fact)) => {
                Some(Self::Placed { old: leaving(), new: None })
            }
            (false, false) => {
                let old = old().filter(|old| *old != new)?;
                Some(Self::Own { uid: fact.uid.clone(), old, new })
            }
            // No pod loses its node; one that seems to is told again.
            (true, false) => Some(Self::Placed { old: leaving(), new: None }),
        }
    }

    /// What changes when a pod leaves its node, or the node that it was to be bound to; none where
    /// it has no node and waits for room on none. To be asked before the ledger is told.
    #[must_use]
    pub fn unplaced(ledger: &Ledger, uid: &Uid) -> Option<Self> {
        let holds =
            |row: &&PodRow| row.is_bound() || row.node().is_some() || row.nominated().is_some();
        let row = ledger.pod(uid).filter(holds)?;
        Some(Self::Placed { old: Some(Box::new(PodView::leaving(ledger, row))), new: None })
    }
}
