//! PodTopologySpread: pods and their like are spread over domains.

use super::{node_affinity, taint_toleration};
use crate::ledger::{Ask, Ledger, NodeIndex, SpreadRule};
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Normalise, Reads, SCORE_MAX, Score};
use crate::reason::{Code, Reason, Refusal};

/// The label of a node's own name: each node is a domain of its own.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Refuses nodes where a binding rule would be broken, and prefers those where others hold best.
#[derive(Debug, Clone, Copy, Default)]
pub struct PodTopologySpread;

/// Whether a node counts for a rule.
fn counts(ledger: &Ledger, ask: Ask, rule: &SpreadRule, node: NodeIndex) -> bool {
    let admitted = || node_affinity::admits(ledger, node_affinity::asked(ledger, ask), node);
    let tolerated = || {
        let tolerations = taint_toleration::tolerations(ledger, ask);
        taint_toleration::untolerated(ledger.nodes.taints(node), tolerations).is_none()
    };
    (!rule.rule.honours_affinity || admitted()) && (!rule.rule.honours_taints || tolerated())
}

fn has_all_labels(ledger: &Ledger, rules: &[&SpreadRule], node: NodeIndex) -> bool {
    let has =
        |rule: &&SpreadRule| ledger.terms.topologies.get(rule.topology).domain(node).is_some();
    rules.iter().all(has)
}

/// How many pods of a rule there are in each domain; none where a domain does not count.
fn filled(ledger: &Ledger, ask: Ask, rule: &SpreadRule, nodes: &NodeSet) -> Vec<Option<i64>> {
    let topology = ledger.terms.topologies.get(rule.topology);
    let mut filled = vec![None; topology.places()];
    let mut counting = NodeSet::new();
    for node in nodes.iter().filter(|node| counts(ledger, ask, rule, *node)) {
        if let Some(domain) = topology.domain(node) {
            filled[domain].get_or_insert(0);
            counting.insert(node);
        }
    }
    if rule.counts {
        for entry in ledger.terms.crowds.get(rule.crowd).pods.entries() {
            if counting.contains(entry.node)
                && let Some(domain) = topology.domain(entry.node)
            {
                *filled[domain].get_or_insert(0) += i64::from(entry.staying);
            }
        }
    }
    filled
}

/// A binding rule, and how things stand.
struct Standing<'a> {
    rule: &'a SpreadRule,
    filled: Vec<Option<i64>>,
    least: i64,
    own: i64,
}

impl Standing<'_> {
    fn reason(&self, ledger: &Ledger, node: NodeIndex) -> Option<Reason> {
        let topology_key = || self.rule.rule.topology_key.clone();
        let Some(domain) = ledger.terms.topologies.get(self.rule.topology).domain(node) else {
            return Some(Reason::NoDomain { topology_key: topology_key() });
        };
        let skew = self.filled[domain].unwrap_or(0) + self.own - self.least;
        let max_skew = i64::from(self.rule.rule.max_skew);
        (skew > max_skew).then(|| Reason::Spread { topology_key: topology_key(), skew, max_skew })
    }
}

fn standings(ledger: &Ledger, ask: Ask) -> Vec<Standing<'_>> {
    let all = ledger.terms.spread(ask.spread).iter();
    let rules: Vec<&SpreadRule> = all.filter(|rule| rule.rule.binds).collect();
    let mut nodes = ledger.nodes.present().clone();
    nodes.keep_where(|node| has_all_labels(ledger, &rules, node));
    let standing = |rule: &&'_ SpreadRule| {
        let filled = filled(ledger, ask, rule, &nodes);
        let domains = filled.iter().flatten().count() as i64;
        let least = filled.iter().flatten().min().copied().unwrap_or(0);
        let few = domains < i64::from(rule.rule.min_domains);
        (filled, if few { 0 } else { least })
    };
    let of = |rule: &SpreadRule| i64::from(ledger.terms.crowds.is_member(ask.identity, rule.crowd));
    rules
        .iter()
        .map(|rule| {
            let (filled, least) = standing(rule);
            Standing { rule, filled, least, own: of(rule) }
        })
        .collect()
}

impl Filter for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn reads(&self) -> Reads {
        Reads::Cluster
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        let mut rules = ledger.terms.spread(ask.spread).iter();
        rules.any(|rule| rule.rule.binds).then_some(0)
    }

    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
        let standings = standings(ledger, ask);
        nodes.keep_where(|node| standings.iter().all(|one| one.reason(ledger, node).is_none()));
    }

    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal> {
        let reason = standings(ledger, ask).iter().find_map(|one| one.reason(ledger, node))?;
        let code = match reason {
            Reason::NoDomain { .. } => Code::Unresolvable,
            _ => Code::Unschedulable,
        };
        Some(Refusal::new(code, reason))
    }
}

/// A rule that does not bind, and what each domain counts.
struct Weighed<'a> {
    rule: &'a SpreadRule,
    filled: Vec<Option<i64>>,
    weight: f64,
    is_hostname: bool,
}

impl<'a> Weighed<'a> {
    /// Weighs a rule for the nodes that can take the pod and are not left out.
    fn new(
        ledger: &Ledger,
        ask: Ask,
        rule: &'a SpreadRule,
        scored: &NodeSet,
        counted: &NodeSet,
    ) -> Self {
        let topology = ledger.terms.topologies.get(rule.topology);
        let is_hostname = *rule.rule.topology_key == *HOSTNAME;
        let (size, filled) = if is_hostname {
            (scored.len(), Vec::new())
        } else {
            let mut reached = vec![false; topology.places()];
            // Nodes without the label are together one more domain.
            let mut unlabelled = false;
            for node in scored.iter() {
                match topology.domain(node) {
                    Some(domain) => reached[domain] = true,
                    None => unlabelled = true,
                }
            }
            let mut filled = filled(ledger, ask, rule, counted);
            for (count, reached) in filled.iter_mut().zip(&reached) {
                *count = count.filter(|_| *reached);
            }
            let size = reached.iter().filter(|reached| **reached).count();
            (size + usize::from(unlabelled), filled)
        };
        Self { rule, filled, weight: ((size + 2) as f64).ln(), is_hostname }
    }

    /// What the rule adds for a node; none where the node has no such label.
    fn at(&self, ledger: &Ledger, node: NodeIndex) -> Option<f64> {
        let domain = ledger.terms.topologies.get(self.rule.topology).domain(node)?;
        let count = match self.is_hostname {
            true if self.rule.counts => {
                ledger.terms.crowds.get(self.rule.crowd).pods.at(node).staying.into()
            }
            true => 0,
            false => self.filled[domain].unwrap_or(0),
        };
        Some(count as f64 * self.weight + f64::from(self.rule.rule.max_skew - 1))
    }
}

impl Score for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn reads(&self) -> Reads {
        Reads::Cluster
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        let mut rules = ledger.terms.spread(ask.spread).iter();
        rules.any(|rule| !rule.rule.binds).then_some(0)
    }

    fn normalise(&self) -> Normalise {
        Normalise::No
    }

    fn score(&self, ledger: &Ledger, ask: Ask, nodes: &NodeSet, scores: &mut [i32]) {
        let all = ledger.terms.spread(ask.spread).iter();
        let rules: Vec<&SpreadRule> = all.filter(|rule| !rule.rule.binds).collect();
        let (mut scored, mut counted) = (nodes.clone(), ledger.nodes.present().clone());
        scored.keep_where(|node| has_all_labels(ledger, &rules, node));
        counted.keep_where(|node| has_all_labels(ledger, &rules, node));
        let weighed: Vec<Weighed<'_>> =
            rules.iter().map(|rule| Weighed::new(ledger, ask, rule, &scored, &counted)).collect();
        let (mut least, mut most) = (i64::MAX, 0);
        for node in scored.iter() {
            // In this order, as kube-scheduler adds them up.
            let sum = weighed.iter().filter_map(|one| one.at(ledger, node)).fold(0.0, |a, b| a + b);
            let raw = sum.round() as i64;
            (least, most) = (least.min(raw), most.max(raw));
            scores[node.get()] = i32::try_from(raw).unwrap_or(i32::MAX);
        }
        for node in scored.iter() {
            let raw = i64::from(scores[node.get()]);
            let score = if most == 0 { SCORE_MAX } else { SCORE_MAX * (most + least - raw) / most };
            scores[node.get()] = i32::try_from(score).unwrap_or(0);
        }
    }
}
