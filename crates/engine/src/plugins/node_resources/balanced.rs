//! NodeResourcesBalancedAllocation: resources of a node should be used up together.

use super::strategy::{Counted, Part, Weighted, parts};
use crate::ledger::{Ask, Ledger, NodeIndex};
use crate::node_set::NodeSet;
use crate::plugin::{Key, Normalise, Reads, SCORE_MAX, Score};

/// Prefers nodes on which the pod makes the use of resources more even.
#[derive(Debug, Clone)]
pub struct BalancedAllocation {
    /// What is looked at.
    pub resources: Vec<Weighted>,
}

impl Default for BalancedAllocation {
    fn default() -> Self {
        Self { resources: Weighted::cpu_and_memory() }
    }
}

impl Score for BalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    fn reads(&self) -> Reads {
        Reads::Load
    }

    /// A pod that requests nothing of what is looked at moves no balance.
    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        let charged = &ledger.asks.requests.get(ask.requests).charged;
        let requested = |one: &Weighted| match &*one.resource {
            "cpu" => charged.cpu_millis,
            "memory" => charged.memory_bytes,
            "ephemeral-storage" => charged.storage_bytes,
            name => charged.scalar(name),
        };
        let some = self.resources.iter().any(|one| requested(one) != 0);
        some.then(|| ledger.asks.requests.stamp(ask.requests))
    }

    fn normalise(&self) -> Normalise {
        Normalise::No
    }

    fn score(&self, ledger: &Ledger, ask: Ask, nodes: &NodeSet, raw: &mut [i32]) {
        let parts = parts(ledger, ask, &self.resources, Counted::Charged);
        for node in nodes.iter().map(NodeIndex::get) {
            raw[node] = ((1.0 - deviation(&parts, node)) * SCORE_MAX as f64) as i32;
        }
    }
}

/// The standard deviation of the used fractions. The order of operations is kube-scheduler's.
fn deviation(parts: &[Part<'_>], node: usize) -> f64 {
    let fraction = |part: &Part<'_>| {
        let (allocatable, requested) = part.at(node);
        (allocatable != 0).then(|| (requested as f64 / allocatable as f64).min(1.0))
    };
    if let [first, second] = parts {
        return match (fraction(first), fraction(second)) {
            (Some(first), Some(second)) => ((first - second) / 2.0).abs(),
            _ => 0.0,
        };
    }
    let fractions: Vec<f64> = parts.iter().filter_map(fraction).collect();
    let count = fractions.len() as f64;
    match fractions[..] {
        [] | [_] => 0.0,
        [first, second] => ((first - second) / 2.0_f64).abs(),
        _ => {
            let mean = fractions.iter().sum::<f64>() / count;
            let squares = fractions.iter().map(|one| (one - mean) * (one - mean));
            (squares.sum::<f64>() / count).sqrt()
        }
    }
}
