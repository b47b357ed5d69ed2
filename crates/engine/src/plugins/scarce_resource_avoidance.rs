//! ScarceResourceAvoidance: pods keep off nodes with scarce resources that they do not ask for.

use crate::ledger::{Ask, Ledger, NodeIndex};
use crate::node_set::NodeSet;
use crate::plugin::{Key, Normalise, Plugin, Reads, SCORE_MAX, Score};

/// Scores nodes by how much of what they have and the pod does not ask for is scarce.
#[derive(Debug, Clone, Default)]
pub struct ScarceResources {
    /// Resources that are scarce, by name.
    pub resources: Vec<Box<str>>,
}

impl Score for ScarceResources {
    fn plugin(&self) -> Plugin {
        Plugin::ScarceResourceAvoidance
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
        let requests = &ledger.asks.requests.get(ask.requests).charged;
        nodes.each(|node| {
            let has = ledger.nodes.resources.allowed(NodeIndex::at(node));
            let (mut others, mut scarce) = (0, 0);
            for name in has.names().filter(|name| requests.of(name) <= 0) {
                others += 1;
                scarce += i64::from(self.resources.iter().any(|own| **own == *name));
            }
            let score = match others {
                0 => SCORE_MAX,
                others => (others - scarce) * SCORE_MAX / others,
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

    #[test]
    fn s10_66_who_asks_for_no_gpu_keeps_off_nodes_that_have_them() {
        let mut ledger = Ledger::default();
        let amounts = |names: &[&str]| Amounts {
            cpu_millis: 4_000,
            memory_bytes: 4 << 30,
            storage_bytes: 0,
            scalars: names.iter().map(|name| ((*name).into(), 1)).collect(),
        };
        let both = ["nvidia.com/gpu", "x.y/z"];
        for (name, names) in [("gpu", &both[..]), ("plain", &[])] {
            let (name, allocatable) = (name.into(), amounts(names));
            ledger.apply(Fact::Node(NodeFact { name, allocatable, ..NodeFact::default() }));
        }
        let plugin = ScarceResources { resources: vec!["nvidia.com/gpu".into()] };
        let mut scores = |names: &[&str]| {
            let requests = Requests { charged: amounts(names), ..Requests::default() };
            let needs = Needs { requests, ..Needs::default() };
            ledger.apply(Fact::Pod(Box::new(PodFact { needs, ..PodFact::new("p", "d", "p") })));
            let ask = ledger.pod(&Uid::new("p")).unwrap().ask;
            let mut raw = vec![0; ledger.nodes.places()];
            plugin.score(&ledger, ask, ledger.nodes.present(), &mut raw);
            raw
        };
        assert_eq!(scores(&[]), [50, 100]);
        assert_eq!(scores(&["nvidia.com/gpu"]), [100, 100]);
    }
}
