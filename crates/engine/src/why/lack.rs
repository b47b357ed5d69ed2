//! What a node lacks, with all that is known of it.

use std::fmt;

use object::quantity::{Format, Quantity};

use crate::ledger::{Ledger, NodeIndex};
use crate::needs::Needs;
use crate::numa::Unplaced;
use crate::plugin::Plugin;
use crate::reason::{CpuReason, Reason, Refusal, ReservationReason, VolumeReason};
use crate::reservations::Unsuited;

/// What a node lacks to take a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// The plugin that says so.
    pub plugin: Plugin,
    /// The reason, as events tell it.
    pub reason: Reason,
    /// Labels that the pod selects and the node does not have, where that is the reason.
    pub labels: Vec<(Box<str>, Box<str>)>,
}

/// What a refusal says, as far as it can be told.
pub(super) fn of(
    ledger: &Ledger,
    needs: &Needs,
    plugin: Plugin,
    refusal: Refusal,
    node: Option<NodeIndex>,
) -> Vec<Lack> {
    let missing = |reason: &Reason| match (reason, node) {
        (Reason::NodeAffinity, Some(node)) => {
            let wanted = needs.node_affinity.labels.iter();
            let has = |key: &str, value: &str| {
                let symbols = &ledger.symbols;
                let key = symbols.find(key);
                let own = key.and_then(|key| ledger.nodes.label(node, key));
                own.is_some() && own == symbols.find(value)
            };
            let lacks = wanted.filter(|(key, value)| !has(key, value));
            lacks.map(|(key, value)| (key.clone(), value.clone())).collect()
        }
        _ => Vec::new(),
    };
    let reasons = refusal.reasons.into_iter();
    reasons.map(|reason| Lack { plugin, labels: missing(&reason), reason }).collect()
}

/// An amount of a resource, in thousandths of CPUs or in units, as people write it.
#[must_use]
pub fn amount(resource: &str, amount: i64) -> String {
    match resource {
        "cpu" => Quantity::from_millis(amount, Format::DecimalSi).to_string(),
        name if name == "memory"
            || name == "ephemeral-storage"
            || name.starts_with("hugepages-") =>
        {
            Quantity::from_units(amount, Format::BinarySi).to_string()
        }
        _ => amount.to_string(),
    }
}

fn cpus(reason: &CpuReason, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match reason {
        CpuReason::NoLayout => f.write_str("does not report which CPUs it has"),
        CpuReason::Conflict { pod, node } => {
            let (node, pod) = (node.name(), pod.name());
            write!(f, "gives CPUs away as {node}, and the pod must have them as {pod}")
        }
        CpuReason::NotMultiple { count, threads } => {
            write!(f, "gives whole cores of {threads} CPUs away, and {count} are asked")
        }
        CpuReason::TooFew { count, free } => {
            write!(f, "has {free} CPUs free that lie as they must, and {count} are asked")
        }
        CpuReason::Amplified { requested, used, allocatable } => write!(
            f,
            "is short of amplified cpu: {} asked, {} of {} free",
            amount("cpu", *requested),
            amount("cpu", allocatable.saturating_sub(*used)),
            amount("cpu", *allocatable),
        ),
        CpuReason::NotWhole { millis } => {
            write!(f, "whole CPUs are given away, and {} is asked", amount("cpu", *millis))
        }
        CpuReason::OtherPolicy { pod, node } => write!(
            f,
            "puts pods on NUMA nodes by {}, and the pod must be put by {}",
            node.as_str(),
            pod.as_str()
        ),
        CpuReason::Numa(Unplaced::NoZones) => {
            f.write_str("does not report what its NUMA nodes have")
        }
        CpuReason::Numa(Unplaced::Unsatisfied(resource)) => {
            write!(f, "has NUMA nodes with too little {resource}")
        }
        CpuReason::Numa(Unplaced::Unaligned) => {
            f.write_str("has NUMA nodes with enough, which other pods use otherwise")
        }
        CpuReason::Malformed(words) => f.write_str(words),
    }
}

fn reservations(reason: &ReservationReason, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match reason {
        ReservationReason::NoMatch => f.write_str("has no reservation that is for the pod"),
        ReservationReason::Unmet => {
            f.write_str("has reservations for the pod, and none that it can use")
        }
        ReservationReason::ShortOfNode { resource } => {
            write!(f, "has too little {resource} beside its reservation")
        }
        ReservationReason::Unsuited { why, .. } => match why {
            Unsuited::ShortOf { resource, requested, used, capacity } => write!(
                f,
                "has a reservation with too little {resource}: {} asked, {} of {} left",
                amount(resource, *requested),
                amount(resource, capacity.saturating_sub(*used)),
                amount(resource, *capacity),
            ),
            Unsuited::TooManyPods { capacity, .. } => {
                write!(f, "has a reservation with as many pods as it takes: {capacity}")
            }
            _ => write!(f, "{reason}"),
        },
        ReservationReason::OtherNode => f.write_str("is not the node that the reservation names"),
        ReservationReason::PolicyConflict => {
            f.write_str("has reservations of another allocatePolicy")
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Reason::Cordoned => f.write_str("is cordoned"),
            Reason::Tainted(taint) => write!(f, "has taint {taint}, which is not tolerated"),
            Reason::NodeAffinity if self.labels.is_empty() => {
                f.write_str("matches no term of the required node affinity")
            }
            Reason::NodeAffinity => {
                let labels = self.labels.iter().map(|(key, value)| format!("{key}={value}"));
                write!(f, "lacks label {}", labels.collect::<Vec<_>>().join(" and "))
            }
            Reason::AddedNodeAffinity => {
                f.write_str("does not match the node affinity that the scheduler's profile adds")
            }
            Reason::PortTaken { protocol, port } => write!(f, "has port {port}/{protocol} taken"),
            Reason::Spread { topology_key, skew, max_skew } => write!(
                f,
                "would have {skew} pods more in its {topology_key} than another; {max_skew} may be"
            ),
            Reason::NoDomain { topology_key } => {
                write!(f, "lacks label {topology_key}, by which the pod is spread")
            }
            Reason::NotNear => f.write_str("has no pod near that the pod must be near"),
            Reason::NotAway => f.write_str("has a pod near that the pod must be away from"),
            Reason::KeptAway => f.write_str("has a pod near that must be away from such pods"),
            Reason::Overloaded { resource, is_window, percent, most } => {
                let when = if *is_window { "was used" } else { "would be used" };
                write!(f, "{percent} % of its {resource} {when}, of which at most {most} % may be")
            }
            Reason::LoadUnknown => f.write_str("has not reported for too long how much is used"),
            Reason::Cpus(reason) => cpus(reason, f),
            Reason::Reservation(reason) => reservations(reason, f),
            Reason::TooManyPods { allowed } => write!(f, "has as many pods as it takes: {allowed}"),
            Reason::ShortOf { resource, requested, used, allocatable } => {
                let free = allocatable.saturating_sub(*used);
                let missing = requested.saturating_sub(free);
                write!(
                    f,
                    "is short of {resource} by {}: {} asked, {} of {} free",
                    amount(resource, missing),
                    amount(resource, *requested),
                    amount(resource, free),
                    amount(resource, *allocatable),
                )
            }
            Reason::Volume(VolumeReason::TooMany { driver, limit, attached, added }) => write!(
                f,
                "takes {limit} volumes of {driver}, has {attached} and would get {added} more"
            ),
            Reason::Volume(VolumeReason::OtherZone { volume, label }) => {
                write!(f, "is not where volume {volume} is, by label {label}")
            }
            Reason::Volume(VolumeReason::NotReached { volume }) => {
                write!(f, "does not reach volume {volume}")
            }
            Reason::Volume(VolumeReason::InUse { claim }) => {
                write!(f, "cannot have claim {claim}, which is for one pod and in use")
            }
            Reason::Volume(VolumeReason::NoVolume { claim }) => {
                write!(f, "finds no volume for claim {claim}")
            }
            Reason::Volume(VolumeReason::NoRoom { claim }) => {
                write!(f, "has too little storage for claim {claim}")
            }
            reason => reason.fmt(f),
        }
    }
}
