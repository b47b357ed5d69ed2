//! What the nodes say of a pod, as programs are told it.

use std::collections::BTreeMap;

use engine::reason::{Reason, ReservationReason};
use engine::reservations::Unsuited;
use engine::why::{self, Explanation, amount};
use serde::{Deserialize, Serialize};

/// What the nodes say of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodesTold {
    /// How many there are.
    pub all: usize,
    /// How many of them could take the pod now, inside a reservation or not.
    pub fitting: usize,
    /// How many more could, were their room not kept for pods of equal or higher priority.
    pub promised: usize,
    /// What holds for every node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub everywhere: Vec<LackTold>,
    /// The nodes that lack the least, the nearest first.
    pub nearest: Vec<Nearest>,
    /// Reservations that are for the pod or named by it, and what is in the way of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<ConsideredTold>,
    /// How many more there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reservations_left_out: usize,
    /// Pods of the nearest nodes that a Reservation could take over, and what is in the way of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takeovers: Vec<ConsideredTold>,
    /// Changes of the pod that would admit it, each by itself.
    pub changes: Vec<ChangeTold>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A reservation that a pod could use, or a pod that a Reservation could take over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsideredTold {
    /// Its name; that of a pod with its namespace.
    pub name: String,
    /// Where it is, where it has a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What is in the way; nothing where it could be used now.
    pub lacks: Vec<LackTold>,
}

/// A node that cannot take a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nearest {
    /// Its name.
    pub node: String,
    /// What it lacks.
    pub lacks: Vec<LackTold>,
}

/// What a node lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LackTold {
    /// The plugin that says so.
    pub plugin: String,
    /// The reason as the event counts it.
    pub reason: String,
    /// All that is known of it, in words.
    pub text: String,
    /// How much of which resource, where that is it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<Shortage>,
    /// How much of the node is really in use, where that is it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadTold>,
    /// Which taint, where that is it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taint: Option<String>,
    /// Which labels the node does not have, where that is it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Too little of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortage {
    /// Which.
    pub resource: String,
    /// What the pod asks for.
    pub asked: String,
    /// What the node, or the reservation, has left.
    pub free: String,
    /// What it has altogether.
    pub allocatable: String,
    /// What is missing.
    pub missing: String,
}

/// A node that is in use too much, or has not said for too long how much it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadTold {
    /// Of what too much would be in use; none where the report is too old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// How much would be, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<i64>,
    /// How much may be, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<i64>,
    /// By which of the figures that the node reports.
    pub figure: String,
    /// How old the report is, where it says when it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_seconds_ago: Option<u64>,
    /// Whether what pods of the node are taken to use beyond what it reports is in it.
    #[serde(default)]
    pub is_estimated: bool,
}

/// One change of a pod that would admit it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeTold {
    /// What to change.
    pub change: String,
    /// How many nodes would take the pod then.
    pub nodes: usize,
}

impl From<Explanation> for NodesTold {
    fn from(told: Explanation) -> Self {
        let lacks = |lacks: &[why::Lack]| -> Vec<LackTold> {
            lacks.iter().map(|lack| LackTold::of(lack, lack.to_string())).collect()
        };
        let nearest = told.nearest.iter();
        let cures = told.cures.iter();
        let reservations = told.reservations.iter();
        let takeovers = told.takeovers.iter();
        Self {
            all: told.nodes,
            fitting: told.fitting,
            promised: told.promised,
            everywhere: lacks(&told.everywhere),
            nearest: nearest
                .map(|(node, own)| Nearest { node: node.to_string(), lacks: lacks(own) })
                .collect(),
            reservations_left_out: told.reservations_all.saturating_sub(told.reservations.len()),
            reservations: reservations
                .map(|one| ConsideredTold::of(one, why::Lack::of_reservation))
                .collect(),
            takeovers: takeovers
                .map(|one| ConsideredTold::of(one, why::Lack::of_takeover))
                .collect(),
            changes: cures
                .map(|(change, nodes)| ChangeTold { change: change.to_string(), nodes: *nodes })
                .collect(),
        }
    }
}

impl ConsideredTold {
    fn of(one: &why::Considered, words: fn(&why::Lack) -> String) -> Self {
        let lacks = one.lacks.iter();
        Self {
            name: one.name.to_string(),
            node: one.node.as_ref().map(ToString::to_string),
            lacks: lacks.map(|lack| LackTold::of(lack, words(lack))).collect(),
        }
    }
}

impl LackTold {
    fn of(lack: &why::Lack, text: String) -> Self {
        let labels = lack.labels.iter();
        Self {
            plugin: lack.plugin.to_string(),
            reason: lack.reason.to_string(),
            text,
            shortage: Shortage::of(&lack.reason),
            load: LoadTold::of(lack),
            taint: match &lack.reason {
                Reason::Tainted(taint)
                | Reason::Reservation(ReservationReason::Unsuited {
                    why: Unsuited::Tainted(taint),
                    ..
                }) => Some(taint.to_string()),
                _ => None,
            },
            labels: labels.map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        }
    }
}

impl LoadTold {
    fn of(lack: &why::Lack) -> Option<Self> {
        let seen = lack.load?;
        let (resource, percent, threshold) = match &lack.reason {
            Reason::Overloaded { resource, percent, most, .. } => {
                (Some(resource.to_string()), Some(*percent), Some(*most))
            }
            _ => (None, None, None),
        };
        let reported_seconds_ago = seen.age.map(|age| age.as_secs());
        let (figure, is_estimated) = (seen.to_string(), seen.is_estimated);
        Some(Self { resource, percent, threshold, figure, reported_seconds_ago, is_estimated })
    }
}

impl Shortage {
    fn of(reason: &Reason) -> Option<Self> {
        let (resource, requested, used, has) = match reason {
            Reason::ShortOf { resource, requested, used, allocatable } => {
                (resource, *requested, *used, *allocatable)
            }
            Reason::Reservation(ReservationReason::Unsuited {
                why: Unsuited::ShortOf { resource, requested, used, capacity },
                ..
            }) => (resource, *requested, *used, *capacity),
            _ => return None,
        };
        let free = has.saturating_sub(used);
        Some(Self {
            resource: resource.to_string(),
            asked: amount(resource, requested),
            free: amount(resource, free),
            allocatable: amount(resource, has),
            missing: amount(resource, requested.saturating_sub(free)),
        })
    }
}
