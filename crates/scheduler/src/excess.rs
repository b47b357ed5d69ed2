//! Nodes that carry more than they have.
//!
//! No decision of this scheduler makes one: it happens where another scheduler binds at the same
//! moment, where a node shrinks, or where somebody places pods by hand. Such a node gets nothing
//! more, which follows from the ledger by itself; here it is only told.

use std::collections::BTreeSet;

use engine::ledger::{Ledger, NodeIndex};

/// The nodes that were found to carry too much, and told of.
#[derive(Debug, Default)]
pub(crate) struct Excess(BTreeSet<Box<str>>);

impl Excess {
    /// Looks which nodes carry too much now, tells of those that did not before, and says how
    /// many there are.
    pub(crate) fn look(&mut self, ledger: &Ledger) -> usize {
        let nodes = &ledger.nodes;
        let is_exceeded = |node: NodeIndex| {
            let at = node.get();
            nodes.resources.is_exceeded(node) || nodes.pods[at] > nodes.pods_allowed[at]
        };
        let found = nodes.present().iter().filter(|node| is_exceeded(*node));
        let found: BTreeSet<Box<str>> = found.map(|node| nodes.name(node).into()).collect();
        for node in found.difference(&self.0) {
            tracing::warn!(node = &**node, "the pods of a node take more than it has");
        }
        self.0 = found;
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use engine::fact::Fact;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_with_more_than_it_has_is_counted_until_it_is_relieved() {
        let mut ledger = Ledger::default();
        let node = json!({ "metadata": { "name": "n" },
            "status": { "allocatable": { "cpu": "2", "memory": "1Gi", "pods": "3" } } });
        let node: api::Node = serde_json::from_value(node).unwrap();
        ledger.apply(Fact::Node((&node).into()));
        let pod = |name: &str, cpu: &str| {
            let requests = json!({ "requests": { "cpu": cpu } });
            let pod = json!({ "metadata": { "name": name, "namespace": "ns", "uid": name },
                "spec": { "nodeName": "n", "containers": [{ "resources": requests }] } });
            Fact::from(&serde_json::from_value::<api::Pod>(pod).unwrap())
        };
        let mut excess = Excess::default();
        let mut check = |fact: Fact, expected: usize| {
            ledger.apply(fact);
            assert_eq!(excess.look(&ledger), expected);
        };
        check(pod("a", "1"), 0);
        check(pod("b", "1"), 0);
        check(pod("c", "1m"), 1);
        check(pod("c", "0"), 0);
        check(pod("d", "0"), 1);
        check(Fact::PodGone(engine::fact::Uid::new("a")), 0);
    }
}
