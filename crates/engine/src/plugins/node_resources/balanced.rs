//! NodeResourcesBalancedAllocation: resources of a node should be used up together.

use super::strategy::{BLOCK, Block, Blocks, Counted, Part, Weighted, are_most, parts, whole};
use crate::ledger::{Ask, Ledger};
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
        if are_most(nodes, raw.len()) {
            score_all(&parts, raw);
        } else {
            nodes.each(|node| raw[node] = evenness(deviation(&parts, node)));
        }
    }
}

fn evenness(deviation: f64) -> i32 {
    ((1.0 - deviation) * SCORE_MAX as f64) as i32
}

/// Writes the scores of all nodes, many at once.
fn score_all(parts: &[Part<'_>], raw: &mut [i32]) {
    for (number, raw) in raw.chunks_mut(BLOCK).enumerate() {
        let first = number * BLOCK;
        match deviations(parts, first) {
            Some(deviations) => {
                for (raw, deviation) in raw.iter_mut().zip(deviations) {
                    *raw = whole((1.0 - deviation) * SCORE_MAX as f64);
                }
            }
            None => {
                for (at, raw) in raw.iter_mut().enumerate() {
                    *raw = evenness(deviation(parts, first + at));
                }
            }
        }
    }
}

/// The deviations of nodes from a place on; none where there are not two parts, or where amounts
/// are too large for the fast way.
fn deviations(parts: &[Part<'_>], first: usize) -> Option<Block> {
    let [one, two] = parts else { return None };
    let mut blocks = [[[0.0; BLOCK]; 2]; 2];
    let [of_one, of_two] = &mut blocks;
    if !one.fill(first, of_one) || !two.fill(first, of_two) {
        return None;
    }
    let [one, two] = &blocks;
    let mut deviations = [0.0; BLOCK];
    for (at, deviation) in deviations.iter_mut().enumerate() {
        let fraction = |[has, asked]: &Blocks| {
            let fraction = asked[at] / if has[at] == 0.0 { 1.0 } else { has[at] };
            if fraction > 1.0 { 1.0 } else { fraction }
        };
        let difference = ((fraction(one) - fraction(two)) / 2.0).abs();
        let either_lacks = (one[0][at] == 0.0) | (two[0][at] == 0.0);
        *deviation = if either_lacks { 0.0 } else { difference };
    }
    Some(deviations)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::strategy::tests::{amounts, with_parts};
    use super::*;

    proptest! {
        #[test]
        fn many_at_once_score_as_each_does(one in amounts(), two in amounts(), added in 0..100_i64) {
            with_parts([&one, &two], added, 1, |parts, nodes| {
                let mut raw = vec![-1; nodes];
                score_all(parts, &mut raw);
                let each = |node| evenness(deviation(parts, node));
                assert_eq!(raw, (0..nodes).map(each).collect::<Vec<_>>());
            });
        }
    }
}
