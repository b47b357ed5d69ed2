//! What a plugin is: small traits over all nodes at once.
//!
//! A plugin sees the ledger and an ask, never a client, a clock or another plugin. What it says of
//! a node follows from the node and from a part of the ask, which it names as its key: answers are
//! kept by key, shared by all pods with that part, and repaired where nodes changed.

mod list;

use std::sync::Arc;

use crate::fact::Allotment;
use crate::judge::Judging;
use crate::ledger::{Ask, Holding, Ledger, LoadSettings, NodeIndex, Passing};
use crate::node_set::NodeSet;
use crate::plugins::reservation::Reservation;
use crate::queue::Arguments;
use crate::reason::Refusal;

pub use list::{Plugin, Plugins};

/// The best score a plugin can give.
pub const SCORE_MAX: i64 = 100;

/// What the answers about a node follow from, besides the ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// The node's own properties: they change seldom.
    Node,
    /// Also the pods on the node: they change with each placement.
    Load,
    /// Also other nodes and their pods: the answers are never kept.
    Cluster,
}

/// The part of an ask that answers depend on: equal keys, equal answers.
pub type Key = u64;

/// All of a node that the answer to a key follows from: equal states, equal answers.
pub type State = u64;

/// Says in which state a node is; none where the answer about it follows from more than that, or is
/// found as soon.
pub type States<'a> = Box<dyn Fn(NodeIndex) -> Option<State> + 'a>;

/// Says which nodes cannot take a pod.
pub trait Filter: Send + Sync {
    /// Which plugin it is.
    fn plugin(&self) -> Plugin;

    /// What the answers follow from.
    fn reads(&self) -> Reads;

    /// What of the ask the answers follow from; none where every node is fine.
    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key>;

    /// Whether the pod can be taken anywhere at all: a refusal is one of every node.
    ///
    /// # Errors
    /// The reason why no node can take it.
    fn admit(&self, _ledger: &Ledger, _ask: Ask) -> Result<(), Refusal> {
        Ok(())
    }

    /// Clears from `nodes` those that cannot take the pod.
    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet);

    /// In which states nodes are, where many share one: then one node of each is asked.
    fn states<'a>(&'a self, _ledger: &'a Ledger, _ask: Ask) -> Option<States<'a>> {
        None
    }

    /// Why a node cannot take the pod; none where it can. Agrees with [`Filter::filter`].
    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal>;

    /// The same of a reservation that takes over these pods, which stay on the node.
    fn refusal_adopting(
        &self,
        ledger: &Ledger,
        ask: Ask,
        node: NodeIndex,
        _pods: &[Passing],
    ) -> Option<Refusal> {
        self.refusal(ledger, ask, node)
    }

    /// The only nodes that can take the pod, where its ask names them; the others are not asked.
    fn names(&self, _ledger: &Ledger, _ask: Ask) -> Option<NodeSet> {
        None
    }

    /// Nodes of which the first that can take the pod gets it, whatever the others are worth.
    fn prefers(&self, _ledger: &Ledger, _ask: Ask) -> Vec<NodeIndex> {
        Vec::new()
    }

    /// Labels whose values the plugin takes for domains, besides those that pods name.
    fn topology_keys(&self) -> Vec<&str> {
        Vec::new()
    }

    /// How it judges the load of nodes, where it does.
    fn loads(&self) -> Option<&Arc<LoadSettings>> {
        None
    }

    /// Tells the queue what of the profile the plugin's word on changes depends on.
    fn tell(&self, _arguments: &mut Arguments) {}

    /// What of the node is the pod's own from now on, besides amounts: which CPUs and what of which NUMA
    /// nodes, and some of these first.
    ///
    /// # Errors
    /// Why it gets none. A node that the filter keeps has them.
    fn allot(
        &self,
        _ledger: &Ledger,
        _ask: Ask,
        _node: NodeIndex,
        _first: Option<&Holding>,
    ) -> Result<Option<Allotment>, Refusal> {
        Ok(None)
    }

    /// The one that holds capacity for pods that are still to come, where it is that.
    fn as_reservation(&self) -> Option<&Reservation> {
        None
    }

    /// Whether it gives CPUs away.
    fn allots(&self) -> bool {
        false
    }

    /// How it judges single nodes while pods come and go in thought.
    fn judge(&self, _ledger: &Ledger, _ask: Ask) -> Judging {
        match self.reads() {
            Reads::Node => Judging::Fixed,
            Reads::Load | Reads::Cluster => Judging::Load,
        }
    }
}

/// Who holds capacity for pods that are still to come, where one of these does.
pub(crate) fn reserving(filters: &[Box<dyn Filter>]) -> Option<&Reservation> {
    filters.iter().find_map(|filter| filter.as_reservation())
}

/// How raw scores become scores from 0 to [`SCORE_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalise {
    /// They are that already.
    No,
    /// The highest of the feasible nodes becomes the best score, the others in proportion.
    ToMax,
    /// The highest of the feasible nodes becomes 0, and 0 the best score.
    ToMaxReversed,
}

/// For which pod, on what and with which weight scores are wanted.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// What the scores follow from.
    pub ledger: &'a Ledger,
    /// What the pod asks for.
    pub ask: Ask,
    /// What a score counts.
    pub weight: i32,
}

/// Columns that plugins write to and nobody reads afterwards, so that none is made for each pod.
#[derive(Debug, Default)]
pub struct Lent {
    /// Scores, by node.
    pub scores: Vec<i32>,
    /// Sums on the way to scores, by node.
    pub sums: Vec<f64>,
    /// Counts, by node: all are 0 when it is lent and must be when it is given back.
    pub counts: Vec<i64>,
}

/// Says how good nodes are for a pod.
pub trait Score: Send + Sync {
    /// Which plugin it is.
    fn plugin(&self) -> Plugin;

    /// What the scores follow from.
    fn reads(&self) -> Reads;

    /// What of the ask the raw scores follow from; none where they are 0 for every node.
    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key>;

    /// Changes when raw scores of nodes that did not change may have changed all the same.
    fn epoch(&self, _ledger: &Ledger) -> u64 {
        0
    }

    /// How raw scores become scores.
    fn normalise(&self) -> Normalise;

    /// Writes the raw score of each of `nodes` to its place. Other places are left as they are or
    /// get the score of their own node. Where the scores follow from the whole cluster, `nodes` are
    /// all nodes that can take the pod.
    fn score(&self, ledger: &Ledger, ask: Ask, nodes: &NodeSet, raw: &mut [i32]);

    /// In which states nodes are, where many share one: then one node of each is asked.
    fn states<'a>(&'a self, _ledger: &'a Ledger, _ask: Ask) -> Option<States<'a>> {
        None
    }

    /// Adds the weighted scores to the totals of `nodes`, which are all nodes that can take the
    /// pod. What would be added to all of them alike may be left out. Asked only where the scores
    /// follow from the whole cluster.
    fn add(&self, wanted: Wanted<'_>, nodes: &NodeSet, totals: &mut [i32], lent: &mut Lent) {
        let Wanted { ledger, ask, weight } = wanted;
        lent.scores.clear();
        lent.scores.resize(totals.len(), 0);
        self.score(ledger, ask, nodes, &mut lent.scores);
        nodes.each(|node| totals[node] += weight * lent.scores[node]);
    }

    /// Labels whose values the plugin takes for domains, besides those that pods name.
    fn topology_keys(&self) -> Vec<&str> {
        Vec::new()
    }

    /// How it judges the load of nodes, where it does.
    fn loads(&self) -> Option<&Arc<LoadSettings>> {
        None
    }

    /// What the plugin adds for every node where it has no key.
    fn without_key(&self) -> i64 {
        match self.normalise() {
            Normalise::No | Normalise::ToMax => 0,
            Normalise::ToMaxReversed => SCORE_MAX,
        }
    }
}
