//! What a fact changes, as far as a pod that waits may care.

use std::collections::BTreeMap;

use object::taint::Toleration;

use crate::fact::{
    Allotment, Fact, NodeFact, NodeRest, PodFact, ReservationFact, StorageFact, Uid,
};
use crate::ledger::{Ledger, LoadRooms, PodRow};
use crate::needs::{
    self, Amounts, CpuNeeds, HostPort, LoadNeeds, PodTerm, ReservationNeeds, Volumes,
};
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
    /// More can be used of a node than before.
    Load {
        /// The node.
        node: Box<str>,
        /// How much more could be used of it before.
        before: LoadRooms,
    },
    /// The CPUs of this node are laid out otherwise now.
    Layout(Box<str>),
    /// Something changed that nobody but those outside reads.
    Outside(Outside),
    /// Somebody asks to try this pod at once.
    Asked(Uid),
    /// The room that was made for this pod is another's: it may find some elsewhere, and is the only
    /// one whom this helps.
    PassedOver(Uid),
    /// Other reservations are for this pod than before.
    Invited(Uid),
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

/// What those outside read, and nobody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outside {
    /// Whether conditions of a node hold, and perhaps its annotations.
    NodeConditions,
    /// Annotations of a node.
    NodeAnnotations,
    /// Anything of a pod with a node.
    Placed,
    /// Something of this pod, which has no node.
    Own(Uid),
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
    /// Its name.
    pub name: Box<str>,
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
    /// What its load is estimated by, where anybody looks at that.
    pub load: Option<LoadNeeds>,
    /// What it wants of CPUs, where anybody gives them away.
    pub cpus: Option<CpuNeeds>,
    /// What it got of them.
    pub allotment: Option<Allotment>,
    /// Nodes that were chosen for it before.
    pub hint: Option<needs::Hint>,
    /// What it wants of reservations.
    pub reservation: Option<ReservationNeeds>,
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
            load: ask.load.map(|id| asks.loads.get(id).clone()),
            cpus: ask.cpus.map(|id| asks.cpus.get(id).clone()),
            allotment: row.allotment.map(|id| asks.allotments.get(id).clone()),
            hint: ask.hint.map(|id| asks.hints.get(id).clone()),
            reservation: ask.reservation.map(|id| asks.reservations.get(id).clone()),
            node: row.bound_to(ledger).map(Into::into),
            breaks_promises: false,
            namespace: row.namespace.clone(),
            name: row.name.clone(),
            labels: terms.crowds.labels_of(ask.identity, &ledger.symbols),
            taken: asks.requests.get(ask.taken).charged.clone(),
            ports: asks.ports.get(ask.ports).0.clone(),
            tolerations: asks.tolerations.get(ask.tolerations).0.clone(),
            away: terms.told_affinity(ask.pod_affinity).away.clone(),
            deleting: row.is_deleting(),
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

    /// Whether it is a reservation.
    pub(super) fn is_reservation(&self) -> bool {
        self.reservation.as_ref().is_some_and(|own| own.own.is_some())
    }

    /// A label.
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(|value| &**value)
    }
}

impl PodView {
    /// What of a pod the ledger will keep.
    pub(super) fn of_fact(ledger: &Ledger, fact: &PodFact) -> Self {
        let (is_load_kept, are_cpus_kept) = (ledger.loads.are_kept(), ledger.cpus.are_kept());
        let allotment = fact.allotment.clone().filter(|_| fact.node.is_some());
        Self {
            load: fact.needs.load.clone().filter(|_| is_load_kept),
            cpus: fact.needs.cpus.clone().filter(|_| are_cpus_kept),
            allotment: allotment.and_then(|told| ledger.kept_allotment(told)),
            hint: fact.needs.hint.clone(),
            reservation: fact.needs.reservation.clone(),
            volumes: fact.needs.volumes.clone(),
            node: fact.node.clone(),
            breaks_promises: false,
            namespace: fact.namespace.clone(),
            name: fact.name.clone(),
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
                let mut old = ledger.nodes.told(&new.name, &ledger.symbols);
                let was = old.as_mut().map(|old| std::mem::replace(&mut old.rest, new.rest));
                if old.as_ref() == Some(&new) {
                    return was.and_then(|was| Self::of_rest(was, new.rest));
                }
                Some(Self::Node { old: old.map(Box::new), new: Some(Box::new(new)) })
            }
            Fact::NodeGone(name) => {
                let old = ledger.nodes.told(name, &ledger.symbols)?;
                Some(Self::Node { old: Some(Box::new(old)), new: None })
            }
            Fact::Pod(new) => Self::of_pod(ledger, new),
            Fact::Reservation(new) => {
                Self::of_pod(ledger, &new.pod).or_else(|| Self::of_rules(ledger, new))
            }
            Fact::PodGone(uid) | Fact::PodFailed(uid) => Self::unplaced(ledger, uid),
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
            Fact::Layout { node, layout } => {
                let same = ledger.cpus.layout(node) == layout.as_ref();
                (!same && ledger.cpus.are_kept()).then(|| Self::Layout(node.clone()))
            }
            // Of which nodes more can be used is seen when the ledger has taken it in.
            Fact::Load { .. } => None,
            // They say who may make room, not whether there is room.
            Fact::Budget { .. } => None,
            // Who waits for a quota waits elsewhere, and is told by the quotas themselves.
            Fact::Quota(_) | Fact::QuotaGone { .. } => None,
            // So is who waits for others of its gang, by the gangs.
            Fact::Gang { .. } => None,
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
        let of_node = [
            Plugin::NodeResourcesFit,
            Plugin::NodePorts,
            Plugin::NodeNUMAResource,
            Plugin::Reservation,
        ];
        let of_room = [Plugin::NodeResourcesFit, Plugin::NodeNUMAResource, Plugin::Reservation];
        let outside = || Plugins::from_iter(OUTSIDE);
        let with = |plugins: &[Plugin]| outside().and(plugins.iter().copied().collect());
        match self {
            Self::Asked(_) | Self::PassedOver(_) | Self::Invited(_) | Self::Overdue => {
                Plugins::default()
            }
            Self::Node { new: Some(_), .. } | Self::Own { .. } => Plugins::all(),
            Self::Node { new: None, .. } => with(&OF_PODS).and(with(&[Plugin::VolumeRestrictions])),
            Self::Placed { old, new } if has_left(old.as_deref(), new.as_deref()) => {
                with(&OF_PODS).and(with(&of_node)).and(with(&OF_STORAGE))
            }
            Self::Placed { new: Some(new), .. } if new.is_reservation() => Plugins::all(),
            Self::Placed { old: None, .. } => with(&OF_PODS).and(with(&[Plugin::Reservation])),
            Self::Placed { .. } => with(&OF_PODS).and(with(&of_room)),
            Self::Load { .. } => Plugins::from_iter([Plugin::LoadAwareScheduling]),
            Self::Layout(_) => Plugins::from_iter([Plugin::NodeNUMAResource]),
            Self::Namespace => with(&[Plugin::InterPodAffinity]),
            Self::Owners(_) => Plugins::from_iter([Plugin::PodTopologySpread]),
            Self::Storage { .. } => with(&OF_STORAGE),
            Self::Outside(_) => outside(),
        }
    }

    /// The only pod that it is any business of.
    #[must_use]
    pub(super) fn pod(&self) -> Option<&Uid> {
        match self {
            Self::Own { uid, .. }
            | Self::Asked(uid)
            | Self::PassedOver(uid)
            | Self::Invited(uid)
            | Self::Outside(Outside::Own(uid)) => Some(uid),
            _ => None,
        }
    }

    /// The only node that those of its plugins who look at one node at a time care about.
    #[must_use]
    pub(super) fn node(&self) -> Option<&str> {
        match self {
            Self::Node { old, new } => new.as_deref().or(old.as_deref()).map(|node| &*node.name),
            Self::Load { node, .. } | Self::Layout(node) => Some(node),
            Self::Placed { old, new } => {
                // Where it comes to, it takes room.
                old.as_deref().or(new.as_deref()).and_then(|pod| pod.node.as_deref())
            }
            _ => None,
        }
    }

    /// What changes where nothing of a reservation does but who may use it, and how.
    fn of_rules(ledger: &Ledger, new: &ReservationFact) -> Option<Self> {
        let row = ledger.pod(&new.pod.uid).filter(|row| row.is_bound())?;
        let same = ledger.reservations.rules(&new.pod.uid) == Some(&new.rules);
        let view = || Some(Box::new(PodView::of_row(ledger, row)));
        (!same).then(|| Self::Placed { old: view(), new: view() })
    }

    fn of_rest(old: NodeRest, new: NodeRest) -> Option<Self> {
        if old.conditions != new.conditions {
            return Some(Self::Outside(Outside::NodeConditions));
        }
        (old != new).then_some(Self::Outside(Outside::NodeAnnotations))
    }

    fn of_pod(ledger: &Ledger, fact: &PodFact) -> Option<Self> {
        let row = ledger.pod(&fact.uid);
        let outside = |what: Outside| (row?.rest != fact.rest).then_some(Self::Outside(what));
        let old = || row.map(|row| Box::new(PodView::of_row(ledger, row)));
        let leaving = || row.map(|row| Box::new(PodView::leaving(ledger, row)));
        let new = Box::new(PodView::of_fact(ledger, fact));
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
                match old {
                    Some(old) if old == new => outside(Outside::Placed),
                    old => Some(Self::Placed { old, new: Some(new) }),
                }
            }
            // Room that was kept for it is free.
            (false, false) if row.is_some_and(|row| row.loses_nomination(fact)) => {
                Some(Self::Placed { old: leaving(), new: None })
            }
            (false, false) => {
                let (uid, old) = (fact.uid.clone(), old()?);
                if old == new {
                    return outside(Outside::Own(uid));
                }
                Some(Self::Own { uid, old, new })
            }
            // No pod loses its node; one that seems to is told again.
            (true, false) => Some(Self::Placed { old: leaving(), new: None }),
        }
    }

    /// What changes when a pod leaves its node, or the node that it was to be bound to; none where
    /// it has no node and waits for room on none. To be asked before the ledger is told.
    #[must_use]
    pub fn unplaced(ledger: &Ledger, uid: &Uid) -> Option<Self> {
        let holds = |row: &&PodRow| row.is_placed() || row.nominated().is_some();
        let row = ledger.pod(uid).filter(holds)?;
        Some(Self::Placed { old: Some(Box::new(PodView::leaving(ledger, row))), new: None })
    }
}

#[cfg(test)]
mod tests {
    use api::{Node, Pod};
    use serde_json::{Value, json};

    use super::*;

    fn node(metadata: &Value, status: &Value) -> Fact {
        let mut wire = json!({ "metadata": metadata, "status": status });
        wire["metadata"]["name"] = json!("n");
        let wire: Node = serde_json::from_value(wire).unwrap();
        Fact::Node(NodeFact::from(&wire).with_rest(&wire))
    }

    fn pod(metadata: &Value, node: &str, status: &Value) -> Fact {
        let mut wire =
            json!({ "metadata": metadata, "spec": { "nodeName": node }, "status": status });
        wire["metadata"]["uid"] = json!("u");
        let wire: Pod = serde_json::from_value(wire).unwrap();
        Fact::Pod(Box::new(PodFact::from(&wire).with_rest(&wire)))
    }

    /// What a fact changes after another, by the name of the change and whether only those outside
    /// care.
    fn check(old: Fact, new: Fact, expected: Option<(&str, bool)>) {
        let mut ledger = Ledger::default();
        ledger.apply(old);
        let change = Change::of(&ledger, &new);
        let outside = Plugins::from_iter(OUTSIDE);
        let told = change.map(|change| (change.cause(), change.concerns() == outside));
        assert_eq!(told, expected, "{new:?}");
    }

    #[test]
    fn what_nobody_here_reads_of_a_node_is_a_change_for_those_outside() {
        let none = json!({});
        let annotated = |value: &str| json!({ "annotations": { "free": value } });
        let ready = |status: &str, seen: &str| {
            json!({ "conditions": [{ "type": "Ready", "status": status,
                "lastHeartbeatTime": seen }] })
        };
        let (one, two) = ("2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z");
        let plain = || node(&none, &none);
        check(plain(), plain(), None);
        check(plain(), node(&annotated("1"), &none), Some(("NodeUpdateNodeAnnotation", true)));
        check(node(&annotated("1"), &none), node(&annotated("1"), &none), None);
        check(
            node(&none, &ready("True", one)),
            node(&annotated("1"), &ready("False", one)),
            Some(("NodeUpdateNodeCondition", true)),
        );
        check(node(&none, &ready("True", one)), node(&none, &ready("True", two)), None);
        let mut labelled = annotated("2");
        labelled["labels"] = json!({ "a": "b" });
        check(
            node(&annotated("1"), &none),
            node(&labelled, &none),
            Some(("NodeUpdateNodeLabel", false)),
        );
    }

    #[test]
    fn what_nobody_here_reads_of_a_pod_is_a_change_but_for_what_its_scheduler_writes() {
        let none = json!({});
        let versioned = |version: &str| json!({ "resourceVersion": version });
        let annotated = |version: &str, value: &str| json!({ "resourceVersion": version, "annotations": { "wants": value } });
        let condition = |name: &str, reason: &str| {
            json!({ "conditions": [{ "type": name, "status": "False", "reason": reason }],
                "nominatedNodeName": "" })
        };
        let free = |metadata: &Value, status: &Value| pod(metadata, "", status);
        let (first, second) = (versioned("1"), versioned("2"));
        check(free(&first, &none), free(&second, &condition("PodScheduled", "a")), None);
        let own = Some(("UnschedulablePodUpdate", true));
        check(free(&first, &none), free(&annotated("2", "a"), &none), own);
        check(free(&annotated("1", "a"), &none), free(&annotated("2", "a"), &none), None);
        check(free(&first, &none), free(&second, &condition("example.com/Paid", "a")), own);
        let there = |metadata: &Value| pod(metadata, "n", &none);
        check(there(&first), there(&second), Some(("AssignedPodUpdate", true)));
        check(there(&second), there(&second), None);
    }
}
