//! Single changes of a pod, drawn from what nodes refuse it for.

use std::fmt;

use object::taint::{Taint, Toleration, TolerationOperator};

use super::lack::amount;
use crate::needs::{Amounts, HostPort, Needs};
use crate::reason::{Reason, Refusal};

/// One change of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It puts up with a taint.
    Tolerate(Taint),
    /// It asks for less of a resource.
    Lower {
        /// The resource.
        resource: Box<str>,
        /// What it asks for now.
        from: i64,
        /// What would be little enough.
        to: i64,
    },
    /// It does not select nodes by this label.
    DropLabel(Box<str>, Box<str>),
    /// It has no required node affinity.
    DropNodeAffinity,
    /// It does not want this port of its node.
    DropPort(HostPort),
    /// It is spread by this label only as far as that goes.
    Loosen(Box<str>),
    /// It need not be near other pods by this label.
    DropNear(Box<str>),
    /// It need not be away from other pods by this label.
    DropAway(Box<str>),
}

/// Changes that may cure what a node refuses a pod for.
pub(super) fn candidates(needs: &Needs, refusals: impl Iterator<Item = Refusal>) -> Vec<Change> {
    let mut changes = Vec::new();
    for reason in refusals.flat_map(|refusal| refusal.reasons) {
        match reason {
            Reason::Cordoned => changes.push(Change::Tolerate(cordon())),
            Reason::Tainted(taint) => {
                changes.push(Change::Tolerate(Taint { time_added: None, ..taint }));
            }
            Reason::ShortOf { resource, requested, used, allocatable } => {
                let to = allocatable.saturating_sub(used);
                if to >= 0 {
                    changes.push(Change::Lower { resource, from: requested, to });
                }
            }
            Reason::NodeAffinity => {
                let labels = needs.node_affinity.labels.iter();
                changes.extend(
                    labels.map(|(key, value)| Change::DropLabel(key.clone(), value.clone())),
                );
                if needs.node_affinity.required.is_some() {
                    changes.push(Change::DropNodeAffinity);
                }
            }
            Reason::PortTaken { .. } => {
                changes.extend(needs.ports.0.iter().cloned().map(Change::DropPort));
            }
            Reason::Spread { topology_key, .. } | Reason::NoDomain { topology_key } => {
                changes.push(Change::Loosen(topology_key));
            }
            Reason::NotNear => {
                let terms = needs.pod_affinity.near.iter();
                changes.extend(terms.map(|term| Change::DropNear(term.topology_key.clone())));
            }
            Reason::NotAway => {
                let terms = needs.pod_affinity.away.iter();
                changes.extend(terms.map(|term| Change::DropAway(term.topology_key.clone())));
            }
            _ => {}
        }
    }
    changes
}

/// What keeps pods from a cordoned node.
fn cordon() -> Taint {
    Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: Some(object::taint::Effect::NoSchedule),
        ..Taint::default()
    }
}

impl Change {
    /// A pod's needs after this change.
    pub(super) fn made_to(&self, needs: &Needs) -> Needs {
        let mut needs = needs.clone();
        match self {
            Self::Tolerate(taint) => {
                let mut all = needs.tolerations.0.into_vec();
                all.push(tolerating(taint));
                needs.tolerations.0 = all.into();
            }
            Self::Lower { resource, to, .. } => {
                lower(&mut needs.requests.charged, resource, *to);
            }
            Self::DropLabel(key, _) => {
                needs.node_affinity.labels.remove(key);
            }
            Self::DropNodeAffinity => needs.node_affinity.required = None,
            Self::DropPort(port) => {
                needs.ports.0 = needs.ports.0.iter().filter(|one| *one != port).cloned().collect();
            }
            Self::Loosen(key) => {
                for rule in needs.spread.0.iter_mut().filter(|rule| rule.topology_key == *key) {
                    rule.binds = false;
                }
            }
            Self::DropNear(key) => {
                let near = needs.pod_affinity.near.iter();
                needs.pod_affinity.near =
                    near.filter(|term| term.topology_key != *key).cloned().collect();
            }
            Self::DropAway(key) => {
                let away = needs.pod_affinity.away.iter();
                needs.pod_affinity.away =
                    away.filter(|term| term.topology_key != *key).cloned().collect();
            }
        }
        needs
    }
}

fn tolerating(taint: &Taint) -> Toleration {
    Toleration {
        key: taint.key.clone(),
        operator: Some(TolerationOperator::Equal),
        value: taint.value.clone(),
        effect: taint.effect.clone(),
        ..Toleration::default()
    }
}

fn lower(amounts: &mut Amounts, resource: &str, to: i64) {
    match resource {
        "cpu" => amounts.cpu_millis = to,
        "memory" => amounts.memory_bytes = to,
        "ephemeral-storage" => amounts.storage_bytes = to,
        name => {
            for (_, own) in amounts.scalars.iter_mut().filter(|(own, _)| **own == *name) {
                *own = to;
            }
        }
    }
}

/// Of several ways to ask for less of a resource, the one that gives up least is told.
pub(super) fn keep_the_least(cures: &mut Vec<(Change, usize)>) {
    let all = cures.clone();
    cures.retain(|(change, _)| match change {
        Change::Lower { resource, to, .. } => !all.iter().any(|(other, _)| {
            matches!(other, Change::Lower { resource: own, to: more, .. }
                if own == resource && more > to)
        }),
        _ => true,
    });
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tolerate(taint) => write!(f, "tolerate taint {taint}"),
            Self::Lower { resource, from, to } => write!(
                f,
                "request {} of {resource}, not {}",
                amount(resource, *to),
                amount(resource, *from)
            ),
            Self::DropLabel(key, value) => {
                write!(f, "take {key}={value} out of the node selector")
            }
            Self::DropNodeAffinity => f.write_str("drop the required node affinity"),
            Self::DropPort(port) => write!(f, "do without host port {}", port.port),
            Self::Loosen(key) => {
                write!(f, "spread by {key} with whenUnsatisfiable: ScheduleAnyway")
            }
            Self::DropNear(key) => write!(f, "drop the required pod affinity by {key}"),
            Self::DropAway(key) => write!(f, "drop the required pod anti-affinity by {key}"),
        }
    }
}
