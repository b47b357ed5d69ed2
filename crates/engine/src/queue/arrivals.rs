//! How often pods came to which part of the queue, and what brought them.
//!
//! What brings a pod has the name that kube-scheduler has for it, since people count by it.

use std::collections::BTreeMap;

use super::Place;
use super::change::{Change, Outside, PodView};
use crate::fact::{NodeFact, StorageFact};
use crate::needs::Amounts;

/// A part of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Line {
    /// Pods that can be popped.
    Active,
    /// Pods that were refused lately.
    Backoff,
    /// Pods that wait for a change, or are gated.
    Unschedulable,
}

impl Line {
    /// The part that a place belongs to; none where it is none of the queue.
    pub(super) fn of(place: Place) -> Option<Self> {
        match place {
            Place::Active => Some(Self::Active),
            Place::Backoff | Place::ErrorBackoff => Some(Self::Backoff),
            Place::Waiting | Place::Parked(_) | Place::Gated => Some(Self::Unschedulable),
            Place::InFlight(_) | Place::Aside => None,
        }
    }

    /// Its name in counters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Backoff => "backoff",
            Self::Unschedulable => "unschedulable",
        }
    }
}

/// What brings a pod to a part of the queue, by its name in counters.
pub type Cause = &'static str;

pub(super) const ADDED: Cause = "UnschedulablePodAdd";
pub(super) const UNGATED: Cause = "UnschedulablePodUpdatePodSchedulingGatesEliminated";
pub(super) const FAILED: Cause = "ScheduleAttemptFailure";
pub(super) const RESTED: Cause = "BackoffComplete";
pub(super) const EARLY: Cause = "PopFromBackoffQ";
pub(super) const ASKED: Cause = "ForceActivate";
pub(super) const ASIDE: Cause = "ExtenderAnswered";
pub(super) const OVERDUE: Cause = "UnschedulableTimeout";
pub(super) const QUOTA: Cause = "ElasticQuotaFreed";
pub(super) const REGROUPED: Cause = "SelectorAdd";
pub(super) const FORGOTTEN: Cause = "ChangesForgotten";

/// How often pods came, by part and cause.
#[derive(Debug, Clone, Default)]
pub struct Arrivals(BTreeMap<(Line, Cause), u64>);

impl Arrivals {
    pub(super) fn count(&mut self, place: Place, cause: Cause) {
        let Some(line) = Line::of(place) else { return };
        *self.0.entry((line, cause)).or_default() += 1;
    }

    /// How often pods came to a part for a cause, in no order that matters.
    pub fn iter(&self) -> impl Iterator<Item = (Line, Cause, u64)> {
        self.0.iter().map(|((line, cause), times)| (*line, *cause, *times))
    }
}

impl Change {
    /// Its name in counters. Of several things that changed at once, the first one that
    /// kube-scheduler looks at gives it.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self {
            Self::Node { old, new } => node(old.as_deref(), new.as_deref()),
            Self::Placed { old: None, .. } => "AssignedPodAdd",
            Self::Placed { new: None, .. } => "AssignedPodDelete",
            Self::Placed { old: Some(old), new: Some(new) } => match what(old, new) {
                What::Labels => "AssignedPodUpdatePodLabel",
                What::Requests => "AssignedPodUpdatePodScaleDown",
                What::Tolerations => "AssignedPodUpdatePodToleration",
                What::Else => "AssignedPodUpdate",
            },
            Self::Own { old, new, .. } => match what(old, new) {
                What::Labels => "UnschedulablePodUpdatePodLabel",
                What::Requests => "UnschedulablePodUpdatePodScaleDown",
                What::Tolerations => "UnschedulablePodUpdatePodToleration",
                What::Else => "UnschedulablePodUpdate",
            },
            Self::Load { .. } => "NodeMetricUpdate",
            Self::Layout(_) => "NodeResourceTopologyUpdate",
            Self::Outside(what) => match what {
                Outside::NodeConditions => "NodeUpdateNodeCondition",
                Outside::NodeAnnotations => "NodeUpdateNodeAnnotation",
                Outside::Placed => "AssignedPodUpdate",
                Outside::Own(_) => "UnschedulablePodUpdate",
            },
            Self::Asked(_) => ASKED,
            Self::PassedOver(_) => "NominationDelete",
            Self::Invited(_) => "ReservationAdd",
            Self::Overdue => OVERDUE,
            Self::Namespace => "NamespaceUpdate",
            Self::Owners(_) => "OwnerUpdate",
            Self::Storage { old, new } => storage(old, new),
        }
    }
}

fn node(old: Option<&NodeFact>, new: Option<&NodeFact>) -> Cause {
    let (Some(old), Some(new)) = (old, new) else {
        return if new.is_some() { "NodeAdd" } else { "NodeDelete" };
    };
    if old.unschedulable && !new.unschedulable {
        "NodeUpdateNodeTaint"
    } else if old.allocatable != new.allocatable {
        "NodeUpdateNodeAllocatable"
    } else if old.labels != new.labels {
        "NodeUpdateNodeLabel"
    } else if old.taints != new.taints {
        "NodeUpdateNodeTaint"
    } else {
        "NodeUpdate"
    }
}

/// What of a pod is another.
enum What {
    Labels,
    Requests,
    Tolerations,
    Else,
}

fn what(old: &PodView, new: &PodView) -> What {
    if old.labels != new.labels {
        What::Labels
    } else if shrank(&old.taken, &new.taken) {
        What::Requests
    } else if old.tolerations.len() != new.tolerations.len() {
        What::Tolerations
    } else {
        What::Else
    }
}

/// Whether some amount is smaller.
pub(super) fn shrank(old: &Amounts, new: &Amounts) -> bool {
    old.cpu_millis > new.cpu_millis
        || old.memory_bytes > new.memory_bytes
        || old.storage_bytes > new.storage_bytes
        || old.scalars.iter().any(|(name, amount)| *amount > new.scalar(name))
}

fn storage(old: &StorageFact, new: &StorageFact) -> Cause {
    let [added, updated, deleted] = match new {
        StorageFact::Volume(..) => {
            ["PersistentVolumeAdd", "PersistentVolumeUpdate", "PersistentVolumeDelete"]
        }
        StorageFact::Claim(..) => [
            "PersistentVolumeClaimAdd",
            "PersistentVolumeClaimUpdate",
            "PersistentVolumeClaimDelete",
        ],
        StorageFact::Class(..) => [
            "storage.k8s.io/StorageClassAdd",
            "storage.k8s.io/StorageClassUpdate",
            "storage.k8s.io/StorageClassDelete",
        ],
        StorageFact::CsiNode(..) => [
            "storage.k8s.io/CSINodeAdd",
            "storage.k8s.io/CSINodeUpdate",
            "storage.k8s.io/CSINodeDelete",
        ],
        StorageFact::CsiDriver(..) => [
            "storage.k8s.io/CSIDriverAdd",
            "storage.k8s.io/CSIDriverUpdate",
            "storage.k8s.io/CSIDriverDelete",
        ],
        StorageFact::Capacity(..) => [
            "storage.k8s.io/CSIStorageCapacityAdd",
            "storage.k8s.io/CSIStorageCapacityUpdate",
            "storage.k8s.io/CSIStorageCapacityDelete",
        ],
        StorageFact::Attachment(..) => [
            "storage.k8s.io/VolumeAttachmentAdd",
            "storage.k8s.io/VolumeAttachmentUpdate",
            "storage.k8s.io/VolumeAttachmentDelete",
        ],
    };
    match (old.is_gone(), new.is_gone()) {
        (_, true) => deleted,
        (false, false) => updated,
        (true, false) => added,
    }
}

#[cfg(test)]
mod tests {
    use object::taint::Taint;

    use super::*;
    use crate::fact::Fact;
    use crate::ledger::Ledger;

    #[test]
    fn what_changed_of_a_node_has_the_name_that_upstream_gives_it() {
        let check = |change: fn(&mut NodeFact), expected: &str| {
            let old = NodeFact { unschedulable: true, ..NodeFact::default() };
            let mut new = old.clone();
            change(&mut new);
            assert_eq!(node(Some(&old), Some(&new)), expected);
        };
        check(|node| node.unschedulable = false, "NodeUpdateNodeTaint");
        check(|node| node.taints = [Taint::default()].into(), "NodeUpdateNodeTaint");
        check(|node| node.allocatable.cpu_millis = 1, "NodeUpdateNodeAllocatable");
        let relabel = |node: &mut NodeFact| {
            node.labels.insert("a".into(), "b".into());
        };
        check(relabel, "NodeUpdateNodeLabel");
        check(|_| {}, "NodeUpdate");
        let own = NodeFact::default();
        assert_eq!(node(None, Some(&own)), "NodeAdd");
        assert_eq!(node(Some(&own), None), "NodeDelete");
    }

    #[test]
    fn storage_is_added_once() {
        let mut ledger = Ledger::default();
        let mut told = |fact: StorageFact| {
            let fact = Fact::Storage(fact);
            let cause = Change::of(&ledger, &fact).map(|change| change.cause());
            ledger.apply(fact);
            cause
        };
        let there = |phase: &str| {
            let volume = api::PersistentVolume::default();
            let StorageFact::Volume(name, Some(mut own)) = StorageFact::from(&volume) else {
                unreachable!("it is a volume");
            };
            own.class = phase.into();
            StorageFact::Volume(name, Some(own))
        };
        assert_eq!(told(there("a")), Some("PersistentVolumeAdd"));
        assert_eq!(told(there("a")), None, "nothing changed");
        assert_eq!(told(there("b")), Some("PersistentVolumeUpdate"));
        let gone = || StorageFact::Volume("".into(), None);
        assert_eq!(told(gone()), Some("PersistentVolumeDelete"));
        assert_eq!(told(gone()), None);
        assert_eq!(told(there("b")), Some("PersistentVolumeAdd"));
    }
}
