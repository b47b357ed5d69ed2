//! Why a pod has no node, in words that lead on: what the nearest nodes lack, and which single
//! change of the pod would admit it.
//!
//! A change is not guessed from a reason: the pod with that one change is asked about again, by
//! the same plugins on the same nodes, and the change is told only where some node then takes it.
//! It costs some decisions, so it is for questions of people, on a ledger of their own.

mod change;
mod lack;

use std::cmp::Reverse;

pub use change::Change;
pub use lack::{Lack, amount};

use crate::decide::Decider;
use crate::fact::PodFact;
use crate::judge::Trial;
use crate::ledger::{Ask, Ledger, NodeIndex, Passing};
use crate::reason::{Code, Reason};

/// How many nodes are told of.
pub const NODES_MAX: usize = 5;
/// How many changes are tried.
const TRIES_MAX: usize = 64;
/// How many of the nearest nodes changes are drawn from.
const DRAWN_FROM_MAX: usize = 200;

/// Why a pod has no node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// How many nodes there are.
    pub nodes: usize,
    /// How many of them could take the pod now.
    pub fitting: usize,
    /// How many more could, were their room not kept for pods of equal or higher priority.
    pub promised: usize,
    /// What holds for every node.
    pub everywhere: Vec<Lack>,
    /// The nodes that lack the least, and what each lacks.
    pub nearest: Vec<(Box<str>, Vec<Lack>)>,
    /// Changes of the pod that would admit it, each by itself, and how many nodes would take it
    /// then. Those that admit it to most nodes first.
    pub cures: Vec<(Change, usize)>,
}

/// How far a node is from taking a pod: less is nearer.
type Distance = (usize, Code, u64);

/// Nodes on which others are awaited to whom a pod has to leave the room.
type Promised = Vec<(NodeIndex, Vec<Passing>)>;

/// Explains why a pod has no node. Of other pods no more has to be known than what
/// [`Ledger::snapshot`] keeps, and the ledger is as it was afterwards.
pub fn explain(ledger: &mut Ledger, decider: &mut Decider, pod: &PodFact) -> Explanation {
    let needs = &pod.needs;
    let ask = ledger.hold_for(pod, needs);
    let others = ledger.promised(&pod.uid, pod.priority);
    let everywhere = decider.refused_everywhere(ledger, ask);
    let everywhere: Vec<Lack> = everywhere
        .into_iter()
        .flat_map(|(plugin, refusal)| lack::of(ledger, needs, plugin, refusal, None))
        .collect();
    let (fitting, promised) = admitting(ledger, decider, ask, &others);
    let lacking = if everywhere.is_empty() { lacking(ledger, decider, ask) } else { Vec::new() };
    let nearest = lacking.iter().take(NODES_MAX);
    let nearest = nearest.map(|(_, node)| {
        let refusals = decider.refusals(ledger, ask, *node).into_iter();
        let lacks = refusals
            .flat_map(|(plugin, refusal)| lack::of(ledger, needs, plugin, refusal, Some(*node)));
        (ledger.nodes.name(*node).into(), lacks.collect())
    });
    let nearest = nearest.collect();
    let drawn = lacking.iter().take(DRAWN_FROM_MAX).flat_map(|(_, node)| {
        let refusals = decider.refusals(ledger, ask, *node);
        change::candidates(needs, refusals.into_iter().map(|(_, refusal)| refusal))
    });
    let mut changes: Vec<Change> = Vec::new();
    for change in drawn {
        if changes.len() < TRIES_MAX && !changes.contains(&change) {
            changes.push(change);
        }
    }
    let nodes = ledger.nodes.present().len();
    ledger.release(ask);
    let mut cures: Vec<(Change, usize)> = Vec::new();
    for change in changes {
        let changed = change.made_to(needs);
        let ask = ledger.hold_for(pod, &changed);
        let (admitted, _) = admitting(ledger, decider, ask, &others);
        ledger.release(ask);
        if admitted > 0 {
            cures.push((change, admitted));
        }
    }
    change::keep_the_least(&mut cures);
    cures.sort_by_key(|(_, admitted)| Reverse(*admitted));
    Explanation { nodes, fitting, promised, everywhere, nearest, cures }
}

/// How many nodes take a pod, and how many more would but for others who are awaited there.
fn admitting(
    ledger: &mut Ledger,
    decider: &mut Decider,
    ask: Ask,
    others: &Promised,
) -> (usize, usize) {
    let able = decider.feasible(ledger, ask).clone();
    if others.is_empty() {
        return (able.len(), 0);
    }
    let mut trial = Trial::new(ledger, &decider.profile.filters, ask);
    let is_kept = |(node, others): &&(NodeIndex, Vec<Passing>)| {
        able.contains(*node) && trial.refusal_with(others, *node).is_some()
    };
    let kept = others.iter().filter(is_kept).count();
    (able.len() - kept, kept)
}

/// The nodes that cannot take the pod, the nearest first.
fn lacking(ledger: &Ledger, decider: &Decider, ask: Ask) -> Vec<(Distance, NodeIndex)> {
    let mut lacking: Vec<(Distance, NodeIndex)> = Vec::new();
    for node in ledger.nodes.present().iter() {
        let refusals = decider.refusals(ledger, ask, node);
        let Some(worst) = refusals.iter().map(|(_, refusal)| refusal.code).max() else { continue };
        let reasons = refusals.iter().flat_map(|(_, refusal)| &refusal.reasons);
        let (count, short) = reasons
            .fold((0, 0_u64), |(count, short), reason| (count + 1, short + shortage(reason)));
        lacking.push(((count, worst, short), node));
    }
    lacking.sort_by(|(a, node), (b, other)| a.cmp(b).then_with(|| node.get().cmp(&other.get())));
    lacking
}

/// How much of what is asked is missing, in thousandths.
fn shortage(reason: &Reason) -> u64 {
    match reason {
        Reason::ShortOf { requested, used, allocatable, .. } => {
            let missing = requested.saturating_add(*used).saturating_sub(*allocatable).max(0);
            let share = i128::from(missing) * 1000 / i128::from((*requested).max(1));
            u64::try_from(share).unwrap_or(u64::MAX / 1024)
        }
        Reason::Spread { skew, max_skew, .. } => {
            u64::try_from(skew.saturating_sub(*max_skew)).unwrap_or(0).saturating_mul(1000)
        }
        _ => 1000,
    }
}

#[cfg(test)]
mod tests;
