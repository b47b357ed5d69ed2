//! NodeResourcesBalancedAllocation: resources of a node should be used up together.

use super::strategy::{Counted, Part, Weighted, are_most, exactly, parts, whole};
use crate::ledger::{Ask, Ledger};
use crate::node_set::NodeSet;
use crate::plugin::{Key, Normalise, Plugin, Reads, SCORE_MAX, Score};

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
    fn plugin(&self) -> Plugin {
        Plugin::NodeResourcesBalancedAllocation
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

/// Writes the scores of all nodes, many at once where there are two parts and floating-point numbers
/// are exact.
fn score_all(parts: &[Part<'_>], raw: &mut [i32]) {
    let exact = match parts {
        [one, two] => one.exact().zip(two.exact()),
        _ => None,
    };
    let Some((one, two)) = exact else {
        for (node, raw) in raw.iter_mut().enumerate() {
            *raw = evenness(deviation(parts, node));
        }
        return;
    };
    let fraction = |has: f64, asked: i64| {
        let fraction = exactly(asked) / if has == 0.0 { 1.0 } else { has };
        if fraction > 1.0 { 1.0 } else { fraction }
    };
    let (ones, twos) = (one.0.iter().zip(one.1), two.0.iter().zip(two.1));
    for (raw, ((has_one, asked_one), (has_two, asked_two))) in raw.iter_mut().zip(ones.zip(twos)) {
        let (has_one, has_two) = (exactly(*has_one), exactly(*has_two));
        let one = fraction(has_one, asked_one.wrapping_add(one.2));
        let two = fraction(has_two, asked_two.wrapping_add(two.2));
        let either_lacks = (has_one == 0.0) | (has_two == 0.0);
        let deviation = if either_lacks { 0.0 } else { ((one - two) / 2.0).abs() };
        *raw = whole((1.0 - deviation) * SCORE_MAX as f64);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::strategy::tests::{amounts, with_parts};
    use super::*;

    proptest! {
        #[test]
        fn many_at_once_score_as_each_does(
            one in amounts(),
            two in amounts(),
            added in prop_oneof![3 => 0..100_i64, 1 => any::<i64>()],
        ) {
            with_parts([&one, &two], added, 1, |parts, nodes| {
                let mut raw = vec![-1; nodes];
                score_all(parts, &mut raw);
                let each = |node| evenness(deviation(parts, node));
                assert_eq!(raw, (0..nodes).map(each).collect::<Vec<_>>());
            });
        }
    }
}
