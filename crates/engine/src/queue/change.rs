//! What a fact changes, as far as a pod that waits may care.

use std::collections::BTreeMap;

use object::taint::Toleration;

use super::arrivals::{self, Cause};
use crate::fact::{Fact, NodeFact, PodFact, Uid};
use crate::ledger::{Ledger, PodRow};
use crate::needs::{Amounts, HostPort, PodTerm};

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
    /// A pod with a node came, went or is another now.
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
    /// A volume, a claim or what stands behind them changed: so it is counted.
    Storage(Cause),
}

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
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl PodView {
    fn of_row(ledger: &Ledger, row: &PodRow) -> Self {
        let (asks, terms, ask) = (&ledger.asks, &ledger.terms, row.ask);
        Self {
            namespace: row.namespace.clone(),
            labels: terms.crowds.labels_of(ask.identity, &ledger.symbols),
            taken: asks.requests.get(ask.taken).charged.clone(),
            ports: asks.ports.get(ask.ports).0.clone(),
            tolerations: asks.tolerations.get(ask.tolerations).0.clone(),
            away: terms.told_affinity(ask.pod_affinity).away.clone(),
            deleting: row.deleting,
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
            // They say which pods are alike, which no rule that binds depends on.
            Fact::Owner { .. } => None,
            // They say who may make room, not whether there is room.
            Fact::Budget { .. } => None,
            Fact::Storage(fact) => Some(Self::Storage(arrivals::storage(&ledger.storage, fact))),
        }
    }

    fn of_pod(ledger: &Ledger, fact: &PodFact) -> Option<Self> {
        let row = ledger.pod(&fact.uid);
        let old = || row.map(|row| Box::new(PodView::of_row(ledger, row)));
        let new = Box::new(PodView::from(fact));
        let was_bound = row.is_some_and(PodRow::is_bound);
        match (was_bound, fact.node.is_some()) {
            (_, true) => {
                let old = if was_bound { old() } else { None };
                let same = old.as_deref() == Some(&*new);
                (!same).then_some(Self::Placed { old, new: Some(new) })
            }
            // Room that was kept for it is free.
            (false, false) if row.is_some_and(|row| row.loses_nomination(fact)) => {
                Some(Self::Placed { old: old(), new: None })
            }
            (false, false) => {
                let old = old().filter(|old| *old != new)?;
                Some(Self::Own { uid: fact.uid.clone(), old, new })
            }
            // No pod loses its node; one that seems to is told again.
            (true, false) => Some(Self::Placed { old: old(), new: None }),
        }
    }

    /// What changes when a pod leaves its node, or the node that it was to be bound to; none where
    /// it has no node and waits for room on none. To be asked before the ledger is told.
    #[must_use]
    pub fn unplaced(ledger: &Ledger, uid: &Uid) -> Option<Self> {
        let holds = |row: &&PodRow| row.node().is_some() || row.nominated().is_some();
        let row = ledger.pod(uid).filter(holds)?;
        Some(Self::Placed { old: Some(Box::new(PodView::of_row(ledger, row))), new: None })
    }
}
