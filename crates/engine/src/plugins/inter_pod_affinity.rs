//! InterPodAffinity: pods that must or would rather be near to, or away from, other pods.
//!
//! The wishes of a pod and the wishes of the pods that are there already both count.

mod judge;

use crate::judge::Judging;
use crate::ledger::{Ask, Ledger, NodeIndex, Tally, Term, TopologyKey, Want};
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Normalise, Reads, SCORE_MAX, Score};
use crate::reason::{Code, Reason, Refusal};

/// Keeps pods near and away, and prefers nodes by how near others are.
#[derive(Debug, Clone, Copy)]
pub struct InterPodAffinity {
    /// What being near a pod that must be near this one is worth.
    pub hard_weight: i32,
    /// Whether wishes of pods that are there count for pods that have none.
    pub ignores_wishes_of_others: bool,
}

impl Default for InterPodAffinity {
    fn default() -> Self {
        Self { hard_weight: 1, ignores_wishes_of_others: false }
    }
}

/// The domains that hold a pod of a tally.
fn domains_with(ledger: &Ledger, topology: TopologyKey, pods: &Tally) -> Vec<bool> {
    let topology = ledger.terms.topologies.get(topology);
    let mut with = vec![false; topology.places()];
    for entry in pods.entries() {
        if let Some(domain) = topology.domain(entry.node) {
            with[domain] = true;
        }
    }
    with
}

/// A domain in which something holds for every node of it.
struct Marked {
    topology: TopologyKey,
    domains: Vec<bool>,
}

impl Marked {
    fn of(ledger: &Ledger, topology: TopologyKey, pods: &Tally) -> Self {
        Self { topology, domains: domains_with(ledger, topology, pods) }
    }

    fn holds(&self, ledger: &Ledger, node: NodeIndex) -> Option<bool> {
        let domain = ledger.terms.topologies.get(self.topology).domain(node)?;
        Some(self.domains[domain])
    }
}

/// What the pods that are there mean for a pod.
struct Judgement {
    /// Domains with pods that the pod must be near, for each of its terms.
    near: Vec<Marked>,
    /// No pod that it must be near is anywhere, and it is one itself: it may be the first.
    may_be_first: bool,
    away: Vec<Marked>,
    kept_away: Vec<Marked>,
}

impl Judgement {
    fn new(ledger: &Ledger, ask: Ask) -> Self {
        let crowds = &ledger.terms.crowds;
        let wants = ledger.terms.affinity(ask.pod_affinity);
        let near: Vec<Marked> = match wants.near_all {
            Some(all) => {
                let pods = &crowds.get(all).pods;
                wants.near.iter().map(|(_, topology)| Marked::of(ledger, *topology, pods)).collect()
            }
            None => Vec::new(),
        };
        let none = near.iter().all(|marked| !marked.domains.contains(&true));
        let is_one = wants.near_all.is_some_and(|all| crowds.is_member(ask.identity, all));
        let away = wants.away.iter();
        let away =
            away.map(|(crowd, topology)| Marked::of(ledger, *topology, &crowds.get(*crowd).pods));
        let wanting =
            crowds.of(ask.identity).iter().flat_map(|crowd| &crowds.get(*crowd).wanted_by);
        let keeping = wanting.filter(|one| one.want == Want::Away);
        Self {
            may_be_first: none && is_one,
            near,
            away: away.collect(),
            kept_away: keeping.map(|one| Marked::of(ledger, one.topology, &one.pods)).collect(),
        }
    }

    fn reason(&self, ledger: &Ledger, node: NodeIndex) -> Option<Reason> {
        let labelled = self.near.iter().all(|marked| marked.holds(ledger, node).is_some());
        let near = || self.near.iter().all(|marked| marked.holds(ledger, node) == Some(true));
        if !labelled || !(near() || self.may_be_first) {
            return Some(Reason::NotNear);
        }
        let any = |list: &[Marked]| list.iter().any(|one| one.holds(ledger, node) == Some(true));
        if any(&self.away) {
            return Some(Reason::NotAway);
        }
        any(&self.kept_away).then_some(Reason::KeptAway)
    }
}

impl Filter for InterPodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
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

    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
        let judgement = Judgement::new(ledger, ask);
        nodes.keep_where(|node| judgement.reason(ledger, node).is_none());
    }

    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal> {
        self.key_of_filter(ledger, ask)?;
        let reason = Judgement::new(ledger, ask).reason(ledger, node)?;
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
    fn name(&self) -> &'static str {
        "InterPodAffinity"
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
        let mut sums: Vec<(TopologyKey, Vec<i64>)> = Vec::new();
        for (weight, key, pods) in self.wishes(ledger, ask) {
            let topology = ledger.terms.topologies.get(key);
            let place = sums.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
                sums.push((key, vec![0; topology.places()]));
                sums.len() - 1
            });
            for entry in pods.entries() {
                if let Some(domain) = topology.domain(entry.node) {
                    sums[place].1[domain] += weight * i64::from(entry.all);
                }
            }
        }
        let raw = |node: NodeIndex| -> i64 {
            let sum = |(key, sums): &(TopologyKey, Vec<i64>)| {
                ledger.terms.topologies.get(*key).domain(node).map_or(0, |domain| sums[domain])
            };
            sums.iter().map(sum).sum()
        };
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        for node in nodes.iter() {
            let raw = raw(node);
            (least, most) = (least.min(raw), most.max(raw));
        }
        if most <= least {
            return;
        }
        for node in nodes.iter() {
            let share = (raw(node) - least) as f64 / (most - least) as f64;
            scores[node.get()] = (SCORE_MAX as f64 * share) as i32;
        }
    }
}
