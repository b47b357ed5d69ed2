//! Single changes of a pod, drawn from what nodes refuse it for.

use std::fmt;

use object::taint::{Taint, Toleration, TolerationOperator};

use super::lack::amount;
use crate::fact::{ReservationPolicy, ReservationRules};
use crate::needs::{
    Amounts, HostPort, Needs, OwnReservation, ReservationAffinity, ReservationNeeds,
};
use crate::plugin::Plugin;
use crate::reason::{Reason, Refusal, ReservationReason};
use crate::reservations::Unsuited;

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
    /// It need not use a reservation.
    DropReservationAffinity,
    /// It must use the reservation of this name.
    NameReservation(Box<str>),
    /// It may use whichever reservation is for it.
    AnyReservation,
    /// It puts up with a taint of reservations.
    TolerateReserved(Taint),
    /// No reservation has to hold exactly what it asks for.
    DropExact,
    /// As a reservation, it may get any node.
    AnyNode,
    /// As a reservation, it takes over nobody.
    TakeNobodyOver,
    /// As a reservation, it may have a node without taking over anybody.
    TakeOverIfAny,
    /// As a reservation, it is used like this.
    Policy(ReservationPolicy),
}

/// Changes that may cure what a pod is refused for.
pub(super) fn candidates(needs: &Needs, refusals: &[(Plugin, Refusal)]) -> Vec<Change> {
    let mut changes = Vec::new();
    for reason in refusals.iter().flat_map(|(_, refusal)| refusal.reasons.clone()) {
        match reason {
            Reason::Reservation(reason) => changes.extend(of_reservations(needs, &reason)),
            Reason::Cordoned => changes.push(Change::Tolerate(cordon())),
            Reason::Tainted(taint) => {
                changes.push(Change::Tolerate(Taint { time_added: None, ..taint }));
            }
            Reason::ShortOf { resource, requested, used, allocatable } => {
                let to = allocatable.saturating_sub(used);
                if to > 0 {
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

/// Changes that may cure what a reservation is in the way for.
fn of_reservations(needs: &Needs, reason: &ReservationReason) -> Vec<Change> {
    let policy = own(needs).map(|own| own.policy);
    let mut changes = match reason {
        ReservationReason::Unsuited { why, .. } => of_unsuited(needs, why),
        ReservationReason::OtherNode => vec![Change::AnyNode],
        ReservationReason::PolicyConflict => {
            let other = match policy {
                Some(ReservationPolicy::Default) => ReservationPolicy::Aligned,
                _ => ReservationPolicy::Default,
            };
            vec![Change::Policy(other)]
        }
        ReservationReason::TakeOverUnrestricted => {
            vec![Change::Policy(ReservationPolicy::Restricted)]
        }
        ReservationReason::NothingToTakeOver | ReservationReason::TakeOverUnmet => {
            vec![Change::TakeOverIfAny]
        }
        _ => Vec::new(),
    };
    if affinity(needs).is_some() {
        changes.push(Change::DropReservationAffinity);
    }
    if own(needs).is_some_and(|own| own.takes_over.is_some()) {
        changes.push(Change::TakeNobodyOver);
    }
    changes
}

fn of_unsuited(needs: &Needs, why: &Unsuited) -> Vec<Change> {
    match why {
        Unsuited::Name | Unsuited::Labels => vec![Change::AnyReservation],
        Unsuited::Closed => vec![Change::TolerateReserved(cordon())],
        Unsuited::Tainted(taint) => {
            vec![Change::TolerateReserved(Taint { time_added: None, ..taint.clone() })]
        }
        Unsuited::NotExact => vec![Change::DropExact],
        // Of a reservation that is to take over a pod it says how much that asks for.
        Unsuited::ShortOf { resource, requested, used, capacity } if own(needs).is_none() => {
            let to = capacity.saturating_sub(*used);
            let lower = || Change::Lower { resource: resource.clone(), from: *requested, to };
            (to > 0).then(lower).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Has a pod that must use a reservation name this one.
pub(super) fn naming(needs: &Needs, name: &str) -> Option<Change> {
    let affinity = affinity(needs)?;
    (affinity.name.as_deref() != Some(name)).then(|| Change::NameReservation(name.into()))
}

fn affinity(needs: &Needs) -> Option<&ReservationAffinity> {
    needs.reservation.as_ref()?.affinity.as_ref()
}

fn own(needs: &Needs) -> Option<&OwnReservation> {
    needs.reservation.as_ref()?.own.as_ref()
}

/// What keeps pods from a cordoned node, and from a reservation that takes no more of them.
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
            _ => {
                let own = needs.reservation.take().unwrap_or_default();
                let own = self.made_to_reservation(own);
                needs.reservation = (own != ReservationNeeds::default()).then_some(own);
            }
        }
        needs
    }

    /// What a pod wants of reservations after this change.
    fn made_to_reservation(&self, mut needs: ReservationNeeds) -> ReservationNeeds {
        match self {
            Self::DropReservationAffinity => needs.affinity = None,
            Self::NameReservation(name) => {
                let named = ReservationAffinity { name: Some(name.clone()), ..Default::default() };
                needs.affinity = Some(named);
            }
            Self::AnyReservation => {
                let tolerations = needs.affinity.take().unwrap_or_default().tolerations;
                needs.affinity = Some(ReservationAffinity { tolerations, ..Default::default() });
            }
            Self::TolerateReserved(taint) => {
                let affinity = needs.affinity.get_or_insert_default();
                let mut all = std::mem::take(&mut affinity.tolerations.0).into_vec();
                all.push(tolerating(taint));
                affinity.tolerations.0 = all.into();
            }
            Self::DropExact => needs.exact = Box::default(),
            _ => {
                if let Some(own) = &mut needs.own {
                    self.make_to_own(own);
                }
            }
        }
        needs
    }

    /// Makes this change to a reservation that is to get a node.
    fn make_to_own(&self, own: &mut OwnReservation) {
        match self {
            Self::AnyNode => own.node = None,
            Self::TakeNobodyOver => own.takes_over = None,
            Self::TakeOverIfAny => {
                if let Some(takes_over) = &mut own.takes_over {
                    takes_over.is_required = false;
                }
            }
            Self::Policy(policy) => own.policy = *policy,
            _ => {}
        }
    }

    /// Who may use a reservation, and how, after this change of it.
    pub(super) fn made_to_rules(&self, rules: &ReservationRules) -> ReservationRules {
        let mut rules = rules.clone();
        match self {
            Self::Lower { resource, to, .. } => lower(&mut rules.amounts, resource, *to),
            Self::Policy(policy) => rules.policy = *policy,
            _ => {}
        }
        rules
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
            Self::DropReservationAffinity => f.write_str("drop the reservation affinity"),
            Self::NameReservation(name) => {
                write!(f, "name reservation {name} in the reservation affinity")
            }
            Self::AnyReservation => {
                f.write_str("take names and selectors out of the reservation affinity")
            }
            Self::TolerateReserved(taint) => {
                write!(f, "tolerate taint {taint} in the reservation affinity")
            }
            Self::DropExact => f.write_str("do without an exact match of reservations"),
            Self::AnyNode => f.write_str("take nodeName out of the template"),
            Self::TakeNobodyOver => f.write_str("do without preAllocation"),
            Self::TakeOverIfAny => {
                f.write_str("take label scheduling.koordinator.sh/pre-allocation-required off")
            }
            Self::Policy(ReservationPolicy::Default) => f.write_str("leave allocatePolicy empty"),
            Self::Policy(policy) => write!(f, "set allocatePolicy: {policy:?}"),
        }
    }
}
