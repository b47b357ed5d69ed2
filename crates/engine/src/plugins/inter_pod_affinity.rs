//! InterPodAffinity: pods that must or would rather be near to, or away from, other pods.
//!
//! The wishes of a pod and the wishes of the pods that are there already both count.

mod judge;

use super::terms::admit_terms;
use crate::judge::Judging;
use crate::ledger::{Ask, Ledger, NodeIndex, Tally, Term, Topology, TopologyKey, Want};
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Lent, Normalise, Plugin, Reads, SCORE_MAX, Score, Wanted};
use crate::reason::{Code, Reason, Refusal};

/// Keeps pods near and away, and prefers nodes by how near others are.
#[derive(Debug, Clone, Copy)]
pub struct InterPodAffinity {
    /// What being near a pod that must be near this one is worth.
    pub hard_weight: i32,
    /// Whether wishes of pods that are there count for nothing where a pod has none itself.
    pub ignores_wishes_of_others: bool,
}

impl Default for InterPodAffinity {
    fn default() -> Self {
        Self { hard_weight: 1, ignores_wishes_of_others: false }
    }
}

/// Domains with pods that something is about.
struct Marked<'a> {
    topology: &'a Topology,
    pods: &'a Tally,
}

impl<'a> Marked<'a> {
    fn of(ledger: &'a Ledger, topology: TopologyKey, pods: &'a Tally) -> Self {
        Self { topology: ledger.terms.topologies.get(topology), pods }
    }

    /// The domains of the pods, one for each node with some.
    fn domains(&self) -> impl Iterator<Item = (NodeIndex, usize)> {
        let entries = self.pods.entries().iter();
        entries.filter_map(|entry| Some((entry.node, self.topology.domain(entry.node)?)))
    }

    /// Whether there is no such domain.
    fn is_nowhere(&self) -> bool {
        self.domains().next().is_none()
    }

    /// Whether a node is in such a domain; none where it is in no domain.
    fn holds(&self, node: NodeIndex) -> Option<bool> {
        let own = self.topology.domain(node)?;
        Some(self.domains().any(|(_, domain)| domain == own))
    }

    /// Takes out the nodes that are in no such domain.
    fn keep_in(&self, nodes: &mut NodeSet) {
        let mut marked = vec![false; self.topology.places()];
        self.domains().for_each(|(_, domain)| marked[domain] = true);
        self.keep(nodes, |domain| marked.get(domain).is_some_and(|marked| *marked));
    }

    /// Takes out the nodes that are in such a domain.
    fn take_out(&self, nodes: &mut NodeSet) {
        let mut marked = Vec::new();
        for (node, domain) in self.domains() {
            if self.topology.nodes_in(domain) == 1 {
                nodes.remove(node);
            } else {
                marked.resize(self.topology.places(), false);
                marked[domain] = true;
            }
        }
        if !marked.is_empty() {
            self.keep(nodes, |domain| marked.get(domain).is_none_or(|marked| !marked));
        }
    }

    fn keep(&self, nodes: &mut NodeSet, test: impl Fn(usize) -> bool) {
        let column = self.topology.column();
        nodes.keep_dense(|node| test(column.get(node).map_or(usize::MAX, |own| *own as usize)));
    }
}

/// What the pods that are there mean for a pod.
struct Judgement<'a> {
    /// Domains with pods that the pod must be near, for each of its terms.
    near: Vec<Marked<'a>>,
    /// No pod that it must be near is anywhere, and it is one itself: it may be the first.
    may_be_first: bool,
    away: Vec<Marked<'a>>,
    kept_away: Vec<Marked<'a>>,
}

impl<'a> Judgement<'a> {
    fn new(ledger: &'a Ledger, ask: Ask) -> Self {
        let crowds = &ledger.terms.crowds;
        let wants = ledger.terms.affinity(ask.pod_affinity);
        let near: Vec<Marked<'_>> = match wants.near_all {
            Some(all) => {
                let pods = &crowds.get(all).pods;
                wants.near.iter().map(|(_, topology)| Marked::of(ledger, *topology, pods)).collect()
            }
            None => Vec::new(),
        };
        let is_one = || wants.near_all.is_some_and(|all| crowds.is_member(ask.identity, all));
        let away = wants.away.iter();
        let away =
            away.map(|(crowd, topology)| Marked::of(ledger, *topology, &crowds.get(*crowd).pods));
        let wanting =
            crowds.of(ask.identity).iter().flat_map(|crowd| &crowds.get(*crowd).wanted_by);
        let keeping = wanting.filter(|one| one.want == Want::Away);
        Self {
            may_be_first: near.iter().all(Marked::is_nowhere) && is_one(),
            near,
            away: away.collect(),
            kept_away: keeping.map(|one| Marked::of(ledger, one.topology, &one.pods)).collect(),
        }
    }

    fn reason(&self, node: NodeIndex) -> Option<Reason> {
        let labelled = self.near.iter().all(|marked| marked.topology.domain(node).is_some());
        let near = || self.near.iter().all(|marked| marked.holds(node) == Some(true));
        if !labelled || !(self.may_be_first || near()) {
            return Some(Reason::NotNear);
        }
        let any = |list: &[Marked<'_>]| list.iter().any(|one| one.holds(node) == Some(true));
        if any(&self.away) {
            return Some(Reason::NotAway);
        }
        any(&self.kept_away).then_some(Reason::KeptAway)
    }

    /// Takes out the nodes for which there is a reason.
    fn sift(&self, nodes: &mut NodeSet) {
        for marked in &self.near {
            if self.may_be_first {
                nodes.keep(marked.topology.labelled());
            } else {
                marked.keep_in(nodes);
            }
        }
        self.away.iter().chain(&self.kept_away).for_each(|marked| marked.take_out(nodes));
    }
}

impl Filter for InterPodAffinity {
    fn plugin(&self) -> Plugin {
        Plugin::InterPodAffinity
    }

    fn reads(&self) -> Reads {
        Reads::Cluster
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        let wants = ledger.terms.affinity(ask.pod_affinity);
        let crowds = &ledger.terms.crowds;
        let keeps = |crowd| crowds.get(crowd).wanted_by.iter().any(|one| one.want == Want::Away);
        let some = !wants.near.is_empty()
            || !wants.away.is_empty()
            || crowds.of(ask.identity).iter().any(|crowd| keeps(*crowd));
        some.then_some(0)
    }

    fn admit(&self, _ledger: &Ledger, ask: Ask) -> Result<(), Refusal> {
        admit_terms(ask)
    }

    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
        Judgement::new(ledger, ask).sift(nodes);
    }

    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal> {
        self.key_of_filter(ledger, ask)?;
        let reason = Judgement::new(ledger, ask).reason(node)?;
        let code = match reason {
            Reason::NotNear => Code::Unresolvable,
            _ => Code::Unschedulable,
        };
        Some(Refusal::new(code, reason))
    }

    fn judge(&self, ledger: &Ledger, ask: Ask) -> Judging {
        judge::judge(ledger, ask)
    }
}

impl InterPodAffinity {
    fn key_of_filter(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        Filter::key(self, ledger, ask)
    }

    /// What each wish is worth, and where the pods are that it is about.
    fn wishes<'a>(&self, ledger: &'a Ledger, ask: Ask) -> Vec<(i64, TopologyKey, &'a Tally)> {
        let crowds = &ledger.terms.crowds;
        let own = &ledger.terms.affinity(ask.pod_affinity).preferred;
        let of = |(weight, (crowd, topology)): &(i32, Term)| {
            (i64::from(*weight), *topology, &crowds.get(*crowd).pods)
        };
        let mut wishes: Vec<_> = own.iter().map(of).collect();
        if wishes.is_empty() && self.ignores_wishes_of_others {
            return wishes;
        }
        for one in crowds.of(ask.identity).iter().flat_map(|crowd| &crowds.get(*crowd).wanted_by) {
            let weight = match one.want {
                Want::Near => self.hard_weight,
                Want::Rather(weight) => weight,
                Want::Away => 0,
            };
            if weight != 0 {
                wishes.push((weight.into(), one.topology, &one.pods));
            }
        }
        wishes.retain(|(_, _, pods)| !pods.is_empty());
        wishes
    }
}

impl Score for InterPodAffinity {
    fn plugin(&self) -> Plugin {
        Plugin::InterPodAffinity
    }

    fn reads(&self) -> Reads {
        Reads::Cluster
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        (!self.wishes(ledger, ask).is_empty()).then_some(0)
    }

    fn normalise(&self) -> Normalise {
        Normalise::No
    }

    fn score(&self, ledger: &Ledger, ask: Ask, nodes: &NodeSet, scores: &mut [i32]) {
        let mut lent = Lent::default();
        lent.counts.resize(scores.len(), 0);
        let Gathered { shared, .. } = self.gather(ledger, ask, &mut lent.counts);
        share_out(ledger, &shared, &mut lent.counts);
        if let Some(span) = Span::over(nodes, &lent.counts) {
            nodes.each(|node| scores[node] = span.score(lent.counts[node]));
        }
    }

    fn add(&self, wanted: Wanted<'_>, nodes: &NodeSet, totals: &mut [i32], lent: &mut Lent) {
        let Wanted { ledger, ask, weight } = wanted;
        let sums = &mut lent.counts;
        let Gathered { alone, shared } = self.gather(ledger, ask, sums);
        if shared.is_empty() && alone.len() < nodes.len() {
            // Some node has the sum 0. Only what the others differ from it by is added.
            let mut span = Span { least: 0, most: 0 };
            let feasible = alone.iter().filter(|node| nodes.contains(**node));
            feasible.for_each(|node| span.widen(sums[node.get()]));
            for node in alone {
                let sum = std::mem::take(&mut sums[node.get()]);
                if sum != 0 && span.most > span.least && nodes.contains(node) {
                    totals[node.get()] += weight * (span.score(sum) - span.score(0));
                }
            }
            return;
        }
        share_out(ledger, &shared, sums);
        if let Some(span) = Span::over(nodes, sums) {
            nodes.each(|node| totals[node] += weight * span.score(sums[node]));
        }
        sums.fill(0);
    }
}

/// What being on nodes is worth.
struct Gathered {
    /// Nodes that have a domain for themselves and are worth something, some of them repeatedly.
    alone: Vec<NodeIndex>,
    /// What it is worth to be in domains with several nodes.
    shared: Vec<(TopologyKey, Vec<i64>)>,
}

impl InterPodAffinity {
    /// Adds what each node that is a domain for itself is worth to the sums, and gathers what
    /// larger domains are worth.
    fn gather(&self, ledger: &Ledger, ask: Ask, sums: &mut [i64]) -> Gathered {
        let mut gathered = Gathered { alone: Vec::new(), shared: Vec::new() };
        for (weight, key, pods) in self.wishes(ledger, ask) {
            let topology = ledger.terms.topologies.get(key);
            let mut place = None;
            for entry in pods.entries() {
                let Some(domain) = topology.domain(entry.node) else { continue };
                let worth = weight * i64::from(entry.all);
                if topology.nodes_in(domain) == 1 {
                    sums[entry.node.get()] += worth;
                    gathered.alone.push(entry.node);
                    continue;
                }
                let shared = &mut gathered.shared;
                let place = *place.get_or_insert_with(|| {
                    let known = shared.iter().position(|(other, _)| *other == key);
                    known.unwrap_or_else(|| {
                        shared.push((key, vec![0; topology.places()]));
                        shared.len() - 1
                    })
                });
                gathered.shared[place].1[domain] += worth;
            }
        }
        gathered
    }
}

/// Adds what domains are worth to the sums of their nodes.
fn share_out(ledger: &Ledger, shared: &[(TopologyKey, Vec<i64>)], sums: &mut [i64]) {
    for (key, worth) in shared {
        let column = ledger.terms.topologies.get(*key).column();
        for (sum, domain) in sums.iter_mut().zip(column) {
            *sum += worth.get(*domain as usize).copied().unwrap_or(0);
        }
    }
}

/// The least and the most that nodes which can take the pod are worth.
struct Span {
    least: i64,
    most: i64,
}

impl Span {
    /// The span of sums; none where all are equal.
    fn over(nodes: &NodeSet, sums: &[i64]) -> Option<Self> {
        let mut span = Self { least: i64::MAX, most: i64::MIN };
        nodes.each(|node| span.widen(sums[node]));
        (span.most > span.least).then_some(span)
    }

    fn widen(&mut self, sum: i64) {
        (self.least, self.most) = (self.least.min(sum), self.most.max(sum));
    }

    /// The score of a sum. The order of operations is kube-scheduler's.
    fn score(&self, sum: i64) -> i32 {
        let share = (sum - self.least) as f64 / (self.most - self.least) as f64;
        (SCORE_MAX as f64 * share) as i32
    }
}
