//! TaintToleration: a node's taints keep pods away that do not put up with them.

use object::taint::{Effect, Taint, Toleration, is_tolerated};

use crate::ledger::{Ask, Ledger, NodeIndex, forbids};
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Normalise, Plugin, Reads, Score};
use crate::reason::{Code, Reason, Refusal};

/// Refuses nodes with a taint that forbids, and prefers those with few that advise against.
#[derive(Debug, Clone, Copy)]
pub struct TaintToleration;

/// What a pod puts up with.
pub(super) fn tolerations(ledger: &Ledger, ask: Ask) -> &[Toleration] {
    &ledger.asks.tolerations.get(ask.tolerations).0
}

/// The first taint that keeps the pod away.
pub(super) fn untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
) -> Option<&'a Taint> {
    taints.iter().filter(|taint| forbids(taint)).find(|taint| !is_tolerated(taint, tolerations))
}

/// Takes out the nodes with a taint that keeps the pod away.
pub(super) fn take_out_untolerated(ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
    let tolerations = tolerations(ledger, ask);
    let mut tainted = nodes.clone();
    tainted.keep(ledger.nodes.tainted());
    for node in tainted.iter() {
        if untolerated(ledger.nodes.taints(node), tolerations).is_some() {
            nodes.remove(node);
        }
    }
}

impl Filter for TaintToleration {
    fn plugin(&self) -> Plugin {
        Plugin::TaintToleration
    }

    fn reads(&self) -> Reads {
        Reads::Node
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        Some(ledger.asks.tolerations.stamp(ask.tolerations))
    }

    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
        take_out_untolerated(ledger, ask, nodes);
    }

    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal> {
        let taint = untolerated(ledger.nodes.taints(node), tolerations(ledger, ask))?;
        Some(Refusal::new(Code::Unresolvable, Reason::Tainted(taint.clone())))
    }
}

impl Score for TaintToleration {
    fn plugin(&self) -> Plugin {
        Plugin::TaintToleration
    }

    fn reads(&self) -> Reads {
        Reads::Node
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        Some(ledger.asks.tolerations.stamp(ask.tolerations))
    }

    fn normalise(&self) -> Normalise {
        Normalise::ToMaxReversed
    }

    fn score(&self, ledger: &Ledger, ask: Ask, nodes: &NodeSet, raw: &mut [i32]) {
        let speaks = |one: &&Toleration| match &one.effect {
            None => true,
            Some(effect) => *effect == Effect::PreferNoSchedule,
        };
        let tolerations: Vec<Toleration> =
            tolerations(ledger, ask).iter().filter(speaks).cloned().collect();
        for node in nodes.iter() {
            let taints = ledger.nodes.taints(node).iter();
            let advises = taints.filter(|taint| taint.effect == Some(Effect::PreferNoSchedule));
            let count = advises.filter(|taint| !is_tolerated(taint, &tolerations)).count();
            raw[node.get()] = i32::try_from(count).unwrap_or(i32::MAX);
        }
    }
}
