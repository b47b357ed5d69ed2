//! SchedulingHint: a pod may name the nodes that it may get, and those that are tried first.

#[cfg(test)]
mod tests;

use crate::ledger::{Ask, Ledger, NodeIndex};
use crate::needs::Hint;
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Plugin, Reads};
use crate::reason::{Code, Reason, Refusal};

/// How many of the nodes that are tried first are tried, where nobody says otherwise.
pub const TRIED_MAX: usize = 100;

/// Heeds what pods say of nodes that were chosen for them.
#[derive(Debug, Clone, Copy)]
pub struct SchedulingHint {
    /// How many of the nodes that are tried first are tried.
    pub tried_max: usize,
}

impl Default for SchedulingHint {
    fn default() -> Self {
        Self { tried_max: TRIED_MAX }
    }
}

fn hint(ledger: &Ledger, ask: Ask) -> Option<&Hint> {
    ask.hint.map(|id| ledger.asks.hints.get(id))
}

impl Filter for SchedulingHint {
    fn plugin(&self) -> Plugin {
        Plugin::SchedulingHint
    }

    fn reads(&self) -> Reads {
        Reads::Node
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        let id = ask.hint?;
        (!ledger.asks.hints.get(id).nodes.is_empty()).then(|| ledger.asks.hints.stamp(id))
    }

    fn admit(&self, ledger: &Ledger, ask: Ask) -> Result<(), Refusal> {
        match hint(ledger, ask).and_then(|hint| hint.malformed.clone()) {
            Some(words) => Err(Refusal::new(Code::Unresolvable, Reason::Malformed(words))),
            None => Ok(()),
        }
    }

    fn names(&self, ledger: &Ledger, ask: Ask) -> Option<NodeSet> {
        let nodes = &hint(ledger, ask)?.nodes;
        let found = nodes.iter().filter_map(|name| ledger.nodes.find(name));
        (!nodes.is_empty()).then(|| found.collect())
    }

    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
        if let Some(names) = self.names(ledger, ask) {
            nodes.keep(&names);
        }
    }

    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal> {
        let (nodes, own) = (&hint(ledger, ask)?.nodes, ledger.nodes.name(node));
        let is_left_out = !nodes.is_empty() && !nodes.iter().any(|name| **name == *own);
        let plugins = vec![Plugin::SchedulingHint];
        is_left_out.then(|| Refusal::new(Code::Unresolvable, Reason::LeftOut { plugins }))
    }

    fn prefers(&self, ledger: &Ledger, ask: Ask) -> Vec<NodeIndex> {
        let Some(hint) = hint(ledger, ask) else { return Vec::new() };
        let tried = hint.preferred.iter().take(self.tried_max);
        tried.filter_map(|name| ledger.nodes.find(name)).collect()
    }
}
