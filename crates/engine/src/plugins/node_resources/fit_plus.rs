//! NodeResourcesFitPlus: each resource has a strategy of its own.

use std::collections::BTreeMap;

use super::strategy::{Counted, Part, Strategy, Weighted, parts};
use crate::ledger::{Ask, Ledger};
use crate::node_set::NodeSet;
use crate::plugin::{Key, Normalise, Plugin, Reads, SCORE_MAX, Score};

/// Scores nodes by the resources that a pod requests, each by its own strategy.
#[derive(Debug, Clone, Default)]
pub struct FitPlus {
    /// By name: the strategy, and what it counts.
    pub resources: BTreeMap<Box<str>, (Strategy, i64)>,
}

/// A resource that a pod requests.
struct Rated<'a> {
    strategy: &'a Strategy,
    weight: i64,
    /// Nothing where no node has it.
    part: Option<Part<'a>>,
}

impl FitPlus {
    fn rated<'a>(&'a self, ledger: &'a Ledger, ask: Ask) -> Vec<Rated<'a>> {
        let requests = &ledger.asks.requests.get(ask.requests).charged;
        let requested = self.resources.iter().filter(|(name, _)| requests.of(name) > 0);
        let rated = requested.map(|(name, (strategy, weight))| {
            let alone = [Weighted { resource: name.clone(), weight: 1 }];
            let part = parts(ledger, ask, &alone, Counted::Scored).pop();
            Rated { strategy, weight: *weight, part }
        });
        rated.collect()
    }
}

impl Score for FitPlus {
    fn plugin(&self) -> Plugin {
        Plugin::NodeResourcesFitPlus
    }

    fn reads(&self) -> Reads {
        Reads::Load
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        Some(ledger.asks.requests.stamp(ask.requests))
    }

    fn normalise(&self) -> Normalise {
        Normalise::No
    }

    fn score(&self, ledger: &Ledger, ask: Ask, nodes: &NodeSet, raw: &mut [i32]) {
        let rated = self.rated(ledger, ask);
        let weights: i64 = rated.iter().map(|own| own.weight).sum();
        nodes.each(|node| {
            let one = |own: &Rated<'_>| match &own.part {
                Some(part) => {
                    let (allocatable, requested) = part.at(node);
                    own.weight * own.strategy.of([(allocatable, requested, 1)])
                }
                None => 0,
            };
            // Where nothing is asked that counts, every node is as good.
            let score = match weights {
                0 => SCORE_MAX,
                weights => rated.iter().map(one).sum::<i64>() / weights,
            };
            raw[node] = i32::try_from(score).unwrap_or(i32::MAX);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{Fact, NodeFact, PodFact, Uid};
    use crate::needs::{Amounts, Needs, Requests};

    const GPU: &str = "example.com/gpu";

    fn amounts(cpu: i64, memory: i64, gpus: i64) -> Amounts {
        let scalars = if gpus > 0 { vec![(GPU.into(), gpus)] } else { Vec::new() };
        Amounts { cpu_millis: cpu * 1_000, memory_bytes: memory << 30, storage_bytes: 0, scalars }
    }

    fn pod(name: &str, node: Option<&str>, charged: Amounts) -> Fact {
        let (cpu, memory) = (charged.cpu_millis, charged.memory_bytes);
        let requests = Requests { charged, cpu_millis_scored: cpu, memory_bytes_scored: memory };
        let needs = Needs { taken: requests.clone(), requests, ..Needs::default() };
        let fact = PodFact { node: node.map(Into::into), needs, ..PodFact::new(name, "d", name) };
        Fact::Pod(Box::new(fact))
    }

    #[test]
    fn s10_65_each_resource_is_scored_by_its_own_strategy() {
        let mut ledger = Ledger::default();
        for name in ["used", "empty"] {
            let allocatable = amounts(96, 512, 8);
            let fact = NodeFact { name: name.into(), allocatable, ..NodeFact::default() };
            ledger.apply(Fact::Node(NodeFact { pods_allowed: 9, ..fact }));
        }
        ledger.apply(pod("there", Some("used"), amounts(16, 32, 4)));
        let plugin = FitPlus {
            resources: BTreeMap::from([
                (GPU.into(), (Strategy::MostAllocated, 2)),
                ("cpu".into(), (Strategy::LeastAllocated, 1)),
                ("memory".into(), (Strategy::LeastAllocated, 1)),
            ]),
        };
        let mut scores = |charged: Amounts| {
            ledger.apply(pod("asks", None, charged));
            let ask = ledger.pod(&Uid::new("asks")).unwrap().ask;
            let mut raw = vec![0; ledger.nodes.places()];
            plugin.score(&ledger, ask, ledger.nodes.present(), &mut raw);
            raw
        };
        assert_eq!(scores(amounts(16, 32, 2)), [75, 56]);
        // Who asks for nothing that counts finds all nodes as good.
        assert_eq!(scores(Amounts { storage_bytes: 7, ..Amounts::default() }), [100, 100]);
    }
}
