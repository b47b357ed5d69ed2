//! NodeAffinity: a pod says which nodes it must and would rather run on, and so may the profile.

use crate::ledger::{Ask, Ledger, NodeIndex};
use crate::needs;
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Normalise, Reads, Score};
use crate::reason::{Code, Reason, Refusal};

/// Refuses nodes that are not as asked, and prefers those that are as preferred.
#[derive(Debug, Clone, Default)]
pub struct NodeAffinity {
    /// What the profile asks for every pod.
    pub added: needs::NodeAffinity,
}

/// What a pod asks of nodes.
pub(super) fn asked(ledger: &Ledger, ask: Ask) -> &needs::NodeAffinity {
    ledger.asks.node_affinity.get(ask.node_affinity)
}

/// A label of a node.
pub(super) fn label<'a>(ledger: &'a Ledger, node: NodeIndex, key: &str) -> Option<&'a str> {
    let key = ledger.symbols.find(key)?;
    ledger.nodes.label(node, key).map(|value| ledger.symbols.text(value))
}

fn term_holds(ledger: &Ledger, node: NodeIndex, term: &needs::NodeTerm) -> bool {
    term.holds(ledger.nodes.name(node), |key| label(ledger, node, key))
}

/// Whether a node is one that the pod must run on.
pub(super) fn admits(ledger: &Ledger, affinity: &needs::NodeAffinity, node: NodeIndex) -> bool {
    let has = |key: &str, value: &str| label(ledger, node, key) == Some(value);
    let required = affinity.required.as_deref();
    affinity.labels.iter().all(|(key, value)| has(key, value))
        && required.is_none_or(|terms| terms.iter().any(|term| term_holds(ledger, node, term)))
}

impl Filter for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn reads(&self) -> Reads {
        Reads::Node
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        let all = self.added.admits_all() && asked(ledger, ask).admits_all();
        (!all).then(|| ledger.asks.node_affinity.stamp(ask.node_affinity))
    }

    fn admit(&self, ledger: &Ledger, ask: Ask) -> Result<(), Refusal> {
        match asked(ledger, ask).names() {
            Some(names) if names.is_empty() => {
                Err(Refusal::new(Code::Unresolvable, Reason::NamesConflict))
            }
            _ => Ok(()),
        }
    }

    fn names(&self, ledger: &Ledger, ask: Ask) -> Option<NodeSet> {
        let names = asked(ledger, ask).names()?;
        Some(names.into_iter().filter_map(|name| ledger.nodes.find(name)).collect())
    }

    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
        let asked = asked(ledger, ask);
        nodes.keep_where(|node| admits(ledger, &self.added, node) && admits(ledger, asked, node));
    }

    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal> {
        let reason = if !admits(ledger, &self.added, node) {
            Reason::AddedNodeAffinity
        } else if !admits(ledger, asked(ledger, ask), node) {
            Reason::NodeAffinity
        } else {
            return None;
        };
        Some(Refusal::new(Code::Unresolvable, reason))
    }
}

impl Score for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn reads(&self) -> Reads {
        Reads::Node
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        let none = self.added.preferred.is_empty() && asked(ledger, ask).preferred.is_empty();
        (!none).then(|| ledger.asks.node_affinity.stamp(ask.node_affinity))
    }

    fn normalise(&self) -> Normalise {
        Normalise::ToMax
    }

    fn score(&self, ledger: &Ledger, ask: Ask, nodes: &NodeSet, raw: &mut [i32]) {
        let preferred = &asked(ledger, ask).preferred;
        for node in nodes.iter() {
            let all = self.added.preferred.iter().chain(preferred);
            let liked = all.filter(|one| term_holds(ledger, node, &one.term));
            raw[node.get()] = liked.map(|one| one.weight).sum();
        }
    }
}
