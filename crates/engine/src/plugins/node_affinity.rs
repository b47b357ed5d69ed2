//! NodeAffinity: a pod says which nodes it must and would rather run on, and so may the profile.

use crate::ledger::{Ask, Ledger, NodeIndex, Symbol};
use crate::needs::{self, Operator};
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Normalise, Plugin, Reads, Score};
use crate::queue::Arguments;
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
pub(crate) fn label<'a>(ledger: &'a Ledger, node: NodeIndex, key: &str) -> Option<&'a str> {
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

/// What is asked of nodes, with labels by number: for a look at many nodes.
pub(super) struct Asked<'a> {
    ledger: &'a Ledger,
    /// None where no node has the label with this value.
    labels: Vec<Option<(Symbol, Symbol)>>,
    /// None where every node is fine.
    required: Option<Vec<Term<'a>>>,
}

/// A term, with labels by number.
struct Term<'a> {
    labels: Vec<Required<'a>>,
    told: &'a needs::NodeTerm,
}

/// A requirement on a label, with the label by number.
struct Required<'a> {
    /// None where no node has the label.
    key: Option<Symbol>,
    /// Those that any node has.
    values: Vec<Symbol>,
    told: &'a needs::Requirement,
}

impl<'a> Required<'a> {
    fn new(ledger: &Ledger, told: &'a needs::Requirement) -> Self {
        let values = told.values.iter().filter_map(|value| ledger.symbols.find(value));
        Self { key: ledger.symbols.find(&told.key), values: values.collect(), told }
    }

    fn holds(&self, ledger: &Ledger, node: NodeIndex) -> bool {
        let label = self.key.and_then(|key| ledger.nodes.label(node, key));
        match self.told.operator {
            Operator::In => label.is_some_and(|label| self.values.contains(&label)),
            Operator::NotIn => !label.is_some_and(|label| self.values.contains(&label)),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::Gt | Operator::Lt => {
                self.told.holds(label.map(|label| ledger.symbols.text(label)))
            }
        }
    }
}

impl<'a> Term<'a> {
    fn new(ledger: &Ledger, told: &'a needs::NodeTerm) -> Self {
        let labels = told.labels.iter().map(|one| Required::new(ledger, one)).collect();
        Self { labels, told }
    }

    fn holds(&self, ledger: &Ledger, node: NodeIndex) -> bool {
        let fields = &self.told.fields;
        !(self.labels.is_empty() && fields.is_empty())
            && self.labels.iter().all(|one| one.holds(ledger, node))
            && fields.iter().all(|field| (*field.name == *ledger.nodes.name(node)) == field.is)
    }
}

impl<'a> Asked<'a> {
    pub(super) fn new(ledger: &'a Ledger, affinity: &'a needs::NodeAffinity) -> Self {
        let symbol = |text: &str| ledger.symbols.find(text);
        let labels = affinity.labels.iter();
        let required = affinity.required.as_deref();
        Self {
            ledger,
            labels: labels.map(|(key, value)| symbol(key).zip(symbol(value))).collect(),
            required: required
                .map(|terms| terms.iter().map(|term| Term::new(ledger, term)).collect()),
        }
    }

    /// Takes out the nodes that are not as asked: those that [`admits`] does not admit.
    pub(super) fn keep_admitted(&self, nodes: &mut NodeSet) {
        let Self { ledger, labels, required } = self;
        let has = |node, pair: &Option<(Symbol, Symbol)>| {
            pair.is_some_and(|(key, value)| ledger.nodes.label(node, key) == Some(value))
        };
        nodes.keep_where(|node| {
            labels.iter().all(|pair| has(node, pair))
                && required
                    .as_ref()
                    .is_none_or(|terms| terms.iter().any(|term| term.holds(ledger, node)))
        });
    }
}

impl Filter for NodeAffinity {
    fn plugin(&self) -> Plugin {
        Plugin::NodeAffinity
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

    fn tell(&self, arguments: &mut Arguments) {
        arguments.node_affinity = self.clone();
    }

    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
        for asked in [&self.added, asked(ledger, ask)] {
            if !asked.admits_all() {
                Asked::new(ledger, asked).keep_admitted(nodes);
            }
        }
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
    fn plugin(&self) -> Plugin {
        Plugin::NodeAffinity
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
        let all = self.added.preferred.iter().chain(&asked(ledger, ask).preferred);
        let all: Vec<(i32, Term<'_>)> =
            all.map(|one| (one.weight, Term::new(ledger, &one.term))).collect();
        for node in nodes.iter() {
            let liked = all.iter().filter(|(_, term)| term.holds(ledger, node));
            raw[node.get()] = liked.map(|(weight, _)| weight).sum();
        }
    }
}
