//! Why a pod has no node, in words that lead on: what the nearest nodes lack, and which single
//! change of the pod would admit it.
//!
//! A change is not guessed from a reason: the pod with that one change is asked about again, by
//! the same plugins on the same nodes, and the change is told only where some node then takes it.
//! It costs some decisions, so it is for questions of people, on a ledger of their own.
//!
//! A reservation that has no node is asked about as a pod is, and a group of gangs by planning it in thought.

mod change;
mod gang;
mod lack;
mod quota;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

pub use change::Change;
pub use gang::{
    Deciders, GangStand, GroupPlan, GroupRefused, GroupStand, Seat, explain_beside, plan_group,
};
pub use lack::{Lack, LoadSeen, amount};
pub use quota::{Ceiling, QuotaCure, QuotaExplanation, explain_quota};

use crate::decide::Decider;
use crate::fact::PodFact;
use crate::judge::Trial;
use crate::ledger::{Ask, Ledger, NodeIndex, Passing};
use crate::moment::Moment;
use crate::needs::Needs;
use crate::node_set::NodeSet;
use crate::plugin::Plugin;
use crate::reason::{Code, Reason, Refusal, ReservationReason};
use crate::reservations::{Met, Unsuited};
use lack::Teller;

/// How many nodes are told of.
pub const NODES_MAX: usize = 5;
/// How many reservations are told of, and how many pods that one could take over.
pub const MET_MAX: usize = 10;
/// How many changes are tried.
const TRIES_MAX: usize = 64;
/// How many of the nearest nodes, and how many reservations, changes are drawn from.
const DRAWN_FROM_MAX: usize = 200;

/// Why a pod has no node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explanation {
    /// How many nodes there are.
    pub nodes: usize,
    /// How many of them could take the pod now, inside a reservation or not.
    pub fitting: usize,
    /// How many more could, were their room not kept for pods of equal or higher priority.
    pub promised: usize,
    /// What holds for every node.
    pub everywhere: Vec<Lack>,
    /// The nodes that lack the least, and what each lacks.
    pub nearest: Vec<(Box<str>, Vec<Lack>)>,
    /// How many reservations are for the pod, or named by it.
    pub reservations_all: usize,
    /// Some of them, and why it cannot use each.
    pub reservations: Vec<Considered>,
    /// Pods that it could take over, where it is a reservation that does, and why it does not.
    pub takeovers: Vec<Considered>,
    /// Changes of the pod that would admit it, each by itself, and how many nodes would take it
    /// then. Those that admit it to most nodes first.
    pub cures: Vec<(Change, usize)>,
}

/// A reservation that a pod could use, or a pod that a reservation could take over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Considered {
    /// Its name; that of a pod with its namespace.
    pub name: Box<str>,
    /// Where it is; none where it has no node.
    pub node: Option<Box<str>>,
    /// What is in the way; nothing where nothing is.
    pub lacks: Vec<Lack>,
}

/// How far a node is from taking a pod: less is nearer.
type Distance = (usize, Code, u64);

/// Who refuses, and why.
type Refusals = Vec<(Plugin, Refusal)>;

/// Nodes on which others are awaited to whom a pod has to leave the room.
type Promised = BTreeMap<NodeIndex, Vec<Passing>>;

/// What is in the way of a pod.
#[derive(Default)]
struct Findings {
    everywhere: Refusals,
    /// The nearest nodes first.
    nodes: Vec<(NodeIndex, Refusals)>,
    reservations_all: usize,
    reservations: Vec<Met>,
    takeovers: Vec<Met>,
}

/// Explains why a pod has no node. Of other pods no more has to be known than what
/// [`Ledger::snapshot`] keeps, but for a reservation that takes over pods. The ledger is as it was
/// afterwards.
pub fn explain(
    ledger: &mut Ledger,
    decider: &mut Decider,
    pod: &PodFact,
    now: Moment,
) -> Explanation {
    let needs = &pod.needs;
    let ask = hold(ledger, pod, needs);
    let others: Promised = ledger.promised(&pod.uid, pod.priority).into_iter().collect();
    let (fitting, promised) = admitting(ledger, decider, ask, &others);
    let found = Findings::of(ledger, decider, ask);
    let loads = decider.profile.filters.iter().find_map(|filter| filter.loads()).map(|own| &**own);
    let teller = Teller { needs, ask, loads, now };
    let name = |node: NodeIndex| -> Box<str> { ledger.nodes.name(node).into() };
    let considered = |met: &Met| Considered {
        name: met.name.clone(),
        node: met.node.map(name),
        lacks: teller.lacks(ledger, &met.refusals, met.node),
    };
    let nearest = found.nodes.iter().take(NODES_MAX);
    let mut explanation = Explanation {
        nodes: ledger.nodes.present().len(),
        fitting,
        promised,
        everywhere: teller.lacks(ledger, &found.everywhere, None),
        nearest: nearest
            .map(|(node, refusals)| (name(*node), teller.lacks(ledger, refusals, Some(*node))))
            .collect(),
        reservations_all: found.reservations_all,
        reservations: found.reservations.iter().take(MET_MAX).map(considered).collect(),
        takeovers: found.takeovers.iter().take(MET_MAX).map(considered).collect(),
        cures: Vec::new(),
    };
    ledger.release(ask);
    for change in found.changes(needs) {
        let admitted = admitted(ledger, decider, pod, &change, &others);
        if admitted > 0 {
            explanation.cures.push((change, admitted));
        }
    }
    change::keep_the_least(&mut explanation.cures);
    explanation.cures.sort_by_key(|(_, admitted)| Reverse(*admitted));
    explanation
}

/// What a pod or a reservation asks for that needs this, held once more.
fn hold(ledger: &mut Ledger, pod: &PodFact, needs: &Needs) -> Ask {
    let is_reservation = needs.reservation.as_ref().is_some_and(|needs| needs.own.is_some());
    match is_reservation {
        // It uses none itself.
        true => ledger.hold(&pod.namespace, &pod.labels, needs),
        false => ledger.hold_for(pod, needs),
    }
}

/// How many nodes would take a pod after a change.
fn admitted(
    ledger: &mut Ledger,
    decider: &mut Decider,
    pod: &PodFact,
    change: &Change,
    others: &Promised,
) -> usize {
    let ask = hold(ledger, pod, &change.made_to(&pod.needs));
    // What a reservation takes over follows from its rules as well, which change with it.
    let own = ledger.takeover(ask).and_then(|own| ledger.reservations.rules(&own.uid)).cloned();
    if let Some(rules) = &own {
        ledger.put_rules(&pod.uid, Arc::new(change.made_to_rules(rules)));
    }
    let (admitted, _) = admitting(ledger, decider, ask, others);
    if let Some(rules) = own {
        ledger.put_rules(&pod.uid, rules);
    }
    ledger.release(ask);
    admitted
}

/// How many nodes take a pod, and how many more would but for others who are awaited there.
fn admitting(
    ledger: &mut Ledger,
    decider: &mut Decider,
    ask: Ask,
    others: &Promised,
) -> (usize, usize) {
    if decider.refused_everywhere(ledger, ask).is_some() {
        return (0, 0);
    }
    let able = decider.feasible(ledger, ask).clone();
    let reserving = reserving(ledger, decider, ask);
    let mut trial = Trial::new(ledger, &decider.profile.filters, ask);
    let plain =
        others.iter().filter(|(node, _)| able.contains(**node) && !reserving.contains(**node));
    let kept = plain.filter(|(node, others)| trial.refusal_with(others, **node).is_some()).count();
    let mut counts = (able.len() - kept, kept);
    for node in reserving.iter() {
        counts.0 -= usize::from(able.contains(node));
        let others = others.get(&node).map_or(&[][..], Vec::as_slice);
        if trial.place_on(others, node).is_ok() {
            counts.0 += 1;
        } else if !others.is_empty() && trial.place_on(&[], node).is_ok() {
            counts.1 += 1;
        }
    }
    counts
}

/// Nodes that may take a pod by more than what is free there: for what reservations hold, or for pods
/// that it takes over.
fn reserving(ledger: &Ledger, decider: &Decider, ask: Ask) -> NodeSet {
    let present = ledger.nodes.present();
    if !decider.uses_reservations() {
        NodeSet::new()
    } else if ledger.takeover(ask).is_some() {
        present.clone()
    } else if ledger.is_ignoring(ask) {
        ledger.reservations.nodes().filter(|node| present.contains(*node)).collect()
    } else {
        ledger.meant(ask).map(|own| own.node).collect()
    }
}

impl Findings {
    fn of(ledger: &mut Ledger, decider: &Decider, ask: Ask) -> Self {
        let everywhere: Refusals = decider.refused_everywhere(ledger, ask).into_iter().collect();
        let present = ledger.nodes.present().clone();
        let mut trial = Trial::new(ledger, &decider.profile.filters, ask);
        let mut nodes = Vec::new();
        if everywhere.is_empty() {
            trial.prepare(&present);
            nodes = lacking(&mut trial, &present);
        }
        let (mut reservations, reservations_all) = trial.met_reservations(DRAWN_FROM_MAX);
        reservations.sort_by_cached_key(|met| (shortages(&met.refusals), met.name.clone()));
        let mut takeovers = Vec::new();
        for (node, _) in &nodes {
            if takeovers.len() < MET_MAX {
                takeovers.extend(trial.met_takeovers(*node));
            }
        }
        Self { everywhere, nodes, reservations_all, reservations, takeovers }
    }

    /// Changes of the pod that may help, each once.
    fn changes(&self, needs: &Needs) -> Vec<Change> {
        let nodes = self.nodes.iter().map(|(_, refusals)| refusals);
        let met = self.reservations.iter().chain(&self.takeovers).map(|met| &met.refusals);
        let all = std::iter::once(&self.everywhere).chain(nodes).chain(met);
        let drawn = all.flat_map(|refusals| change::candidates(needs, refusals));
        let named = self.reservations.iter().flat_map(|met| change::naming(needs, &met.name));
        let mut changes: Vec<Change> = Vec::new();
        for change in drawn.chain(named) {
            if changes.len() < TRIES_MAX && !changes.contains(&change) {
                changes.push(change);
            }
        }
        changes
    }
}

/// The nodes that cannot take the pod, the nearest first, and as many as changes are drawn from.
fn lacking(trial: &mut Trial<'_>, nodes: &NodeSet) -> Vec<(NodeIndex, Refusals)> {
    let mut lacking: Vec<(Distance, NodeIndex)> = Vec::new();
    for node in nodes.iter() {
        if is_inside(trial, node) {
            continue;
        }
        let refusals = trial.told_refusals(node);
        if let Some(distance) = distance(&refusals) {
            lacking.push((distance, node));
        }
    }
    lacking.sort_by(|(a, node), (b, other)| a.cmp(b).then_with(|| node.get().cmp(&other.get())));
    lacking.truncate(DRAWN_FROM_MAX);
    lacking.into_iter().map(|(_, node)| (node, trial.told_refusals(node))).collect()
}

/// Whether the pod would get the node inside a reservation that is for it.
fn is_inside(trial: &mut Trial<'_>, node: NodeIndex) -> bool {
    let is_meant = trial.ledger().meant_on(trial.ask(), node).next().is_some();
    is_meant && trial.place_on(&[], node).is_ok()
}

/// How far a node is from taking the pod; none where it takes it.
fn distance(refusals: &[(Plugin, Refusal)]) -> Option<Distance> {
    let worst = refusals.iter().map(|(_, refusal)| refusal.code).max()?;
    let (count, short) = shortages(refusals);
    Some((count, worst, short))
}

/// For how many reasons it is refused, and how much is missing, in thousandths.
fn shortages(refusals: &[(Plugin, Refusal)]) -> (usize, u64) {
    let reasons = refusals.iter().flat_map(|(_, refusal)| &refusal.reasons);
    reasons.fold((0, 0_u64), |(count, short), reason| (count + 1, short + shortage(reason)))
}

/// How much of what is asked is missing, in thousandths.
fn shortage(reason: &Reason) -> u64 {
    let missing = |requested: i64, used: i64, has: i64| {
        let missing = requested.saturating_add(used).saturating_sub(has).max(0);
        let share = i128::from(missing) * 1000 / i128::from(requested.max(1));
        u64::try_from(share).unwrap_or(u64::MAX / 1024)
    };
    match reason {
        Reason::ShortOf { requested, used, allocatable, .. } => {
            missing(*requested, *used, *allocatable)
        }
        Reason::Reservation(ReservationReason::Unsuited { why, .. }) => match why {
            Unsuited::ShortOf { requested, used, capacity, .. } => {
                missing(*requested, *used, *capacity)
            }
            // What the pod did not mean is told last.
            Unsuited::Name => 2000,
            _ => 1000,
        },
        Reason::Spread { skew, max_skew, .. } => {
            u64::try_from(skew.saturating_sub(*max_skew)).unwrap_or(0).saturating_mul(1000)
        }
        _ => 1000,
    }
}

#[cfg(test)]
mod tests;
