//! PodTopologySpread: pods and their like are spread over domains.

mod judge;

use std::borrow::Cow;

use super::{node_affinity, taint_toleration};
use crate::judge::Judging;
use crate::ledger::{Ask, Ledger, NodeIndex, SpreadRule};
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Normalise, Reads, SCORE_MAX, Score};
use crate::reason::{Code, Reason, Refusal};

/// The label of a node's own name: each node is a domain of its own.
const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Refuses nodes where a binding rule would be broken, and prefers those where others hold best.
#[derive(Debug, Clone)]
pub struct PodTopologySpread {
    /// Rules for pods that have none, over the pods that their services and controllers select.
    pub defaults: Vec<DefaultRule>,
    /// Whether nodes without all labels of the default rules take part all the same.
    pub lenient: bool,
}

/// A rule for pods that have none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultRule {
    /// Whether the rule binds.
    pub binds: bool,
    /// How many pods one domain may have more than the least filled one.
    pub max_skew: i32,
    /// The label whose values are the domains.
    pub topology_key: Box<str>,
}

impl Default for PodTopologySpread {
    /// Kubernetes' own: over nodes and over zones, and neither binds.
    fn default() -> Self {
        let rule = |max_skew, key: &str| {
            let topology_key = key.into();
            DefaultRule { binds: false, max_skew, topology_key }
        };
        Self { defaults: vec![rule(3, HOSTNAME), rule(5, ZONE)], lenient: true }
    }
}

/// The rules for a pod that bind, or those that do not.
struct Rules<'a> {
    rules: Vec<Cow<'a, SpreadRule>>,
    /// Whether only nodes with the labels of all rules take part.
    strict: bool,
}

impl Rules<'_> {
    fn let_in(&self, ledger: &Ledger, node: NodeIndex) -> bool {
        let labelled = |rule: &Cow<'_, SpreadRule>| {
            ledger.terms.topologies.get(rule.topology).domain(node).is_some()
        };
        !self.strict || self.rules.iter().all(labelled)
    }
}

impl PodTopologySpread {
    fn rules<'a>(&self, ledger: &'a Ledger, ask: Ask, binding: bool) -> Rules<'a> {
        let own = ledger.terms.spread(ask.spread);
        let Some(crowd) = ask.like.filter(|_| own.is_empty()) else {
            let own = own.iter().filter(|rule| rule.binds == binding);
            return Rules { rules: own.map(Cow::Borrowed).collect(), strict: true };
        };
        let rules = self.defaults.iter().filter(|rule| rule.binds == binding);
        let rules = rules.filter_map(|rule| {
            Some(Cow::Owned(SpreadRule {
                crowd,
                counts: true,
                topology: ledger.terms.topologies.find(&rule.topology_key)?,
                topology_key: rule.topology_key.clone(),
                binds: rule.binds,
                max_skew: rule.max_skew,
                min_domains: 1,
                honours_affinity: true,
                honours_taints: false,
            }))
        });
        Rules { rules: rules.collect(), strict: binding || !self.lenient }
    }

    fn key_of(&self, ledger: &Ledger, ask: Ask, binding: bool) -> Option<Key> {
        (!self.rules(ledger, ask, binding).rules.is_empty()).then_some(0)
    }

    fn standings<'a>(&self, ledger: &'a Ledger, ask: Ask) -> Vec<Standing<'a>> {
        let rules = self.rules(ledger, ask, true);
        let mut nodes = ledger.nodes.present().clone();
        nodes.keep_where(|node| rules.let_in(ledger, node));
        let standing = |rule: &Cow<'a, SpreadRule>| {
            let filled = filled(ledger, ask, rule, &nodes);
            let domains = filled.iter().flatten().count() as i64;
            let few = domains < i64::from(rule.min_domains);
            let least = filled.iter().flatten().min().copied().filter(|_| !few).unwrap_or(0);
            let own = i64::from(ledger.terms.crowds.is_member(ask.identity, rule.crowd));
            Standing { rule: rule.clone(), filled, least, own }
        };
        rules.rules.iter().map(standing).collect()
    }
}

/// Whether a node counts for a rule.
fn counts(ledger: &Ledger, ask: Ask, rule: &SpreadRule, node: NodeIndex) -> bool {
    let admitted = || node_affinity::admits(ledger, node_affinity::asked(ledger, ask), node);
    let tolerated = || {
        let tolerations = taint_toleration::tolerations(ledger, ask);
        taint_toleration::untolerated(ledger.nodes.taints(node), tolerations).is_none()
    };
    (!rule.honours_affinity || admitted()) && (!rule.honours_taints || tolerated())
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
    rule: Cow<'a, SpreadRule>,
    filled: Vec<Option<i64>>,
    least: i64,
    own: i64,
}

impl Standing<'_> {
    fn reason(&self, ledger: &Ledger, node: NodeIndex) -> Option<Reason> {
        let topology_key = || self.rule.topology_key.clone();
        let Some(domain) = ledger.terms.topologies.get(self.rule.topology).domain(node) else {
            return Some(Reason::NoDomain { topology_key: topology_key() });
        };
        let skew = self.filled[domain].unwrap_or(0) + self.own - self.least;
        let max_skew = i64::from(self.rule.max_skew);
        (skew > max_skew).then(|| Reason::Spread { topology_key: topology_key(), skew, max_skew })
    }
}

impl Filter for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn reads(&self) -> Reads {
        Reads::Cluster
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        self.key_of(ledger, ask, true)
    }

    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
        let standings = self.standings(ledger, ask);
        nodes.keep_where(|node| standings.iter().all(|one| one.reason(ledger, node).is_none()));
    }

    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal> {
        let reason = self.standings(ledger, ask).iter().find_map(|one| one.reason(ledger, node))?;
        let code = match reason {
            Reason::NoDomain { .. } => Code::Unresolvable,
            _ => Code::Unschedulable,
        };
        Some(Refusal::new(code, reason))
    }

    fn judge(&self, ledger: &Ledger, ask: Ask) -> Judging {
        judge::judge(self, ledger, ask)
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
    /// Weighs a rule for the nodes that can take the pod and take part.
    fn new(
        ledger: &Ledger,
        ask: Ask,
        rule: &'a SpreadRule,
        scored: &NodeSet,
        counted: &NodeSet,
    ) -> Self {
        let is_hostname = *rule.topology_key == *HOSTNAME;
        if is_hostname {
            let weight = weight(scored.len());
            return Self { rule, filled: Vec::new(), weight, is_hostname };
        }
        let topology = ledger.terms.topologies.get(rule.topology);
        let mut reached = vec![false; topology.places()];
        // Nodes without the label are together one more domain.
        let mut unlabelled = false;
        for node in scored.iter() {
            match topology.domain(node) {
                Some(domain) => reached[domain] = true,
                None => unlabelled = true,
            }
        }
        let size = reached.iter().filter(|reached| **reached).count() + usize::from(unlabelled);
        let filled = filled(ledger, ask, rule, counted);
        Self { rule, filled, weight: weight(size), is_hostname }
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
        Some(count as f64 * self.weight + f64::from(self.rule.max_skew - 1))
    }
}

/// What a pod counts where there are so many domains: a pod more in one of many says less.
fn weight(domains: usize) -> f64 {
    ((domains + 2) as f64).ln()
}

impl Score for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn reads(&self) -> Reads {
        Reads::Cluster
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        self.key_of(ledger, ask, false)
    }

    fn normalise(&self) -> Normalise {
        Normalise::No
    }

    fn score(&self, ledger: &Ledger, ask: Ask, nodes: &NodeSet, scores: &mut [i32]) {
        let rules = self.rules(ledger, ask, false);
        let (mut scored, mut counted) = (nodes.clone(), ledger.nodes.present().clone());
        scored.keep_where(|node| rules.let_in(ledger, node));
        counted.keep_where(|node| rules.let_in(ledger, node));
        let weighed: Vec<Weighed<'_>> = rules
            .rules
            .iter()
            .map(|rule| Weighed::new(ledger, ask, rule, &scored, &counted))
            .collect();
        let (mut least, mut most) = (i64::MAX, 0);
        for node in scored.iter() {
            // In the order of the rules, as kube-scheduler adds them up.
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

    fn topology_keys(&self) -> Vec<&str> {
        self.defaults.iter().map(|rule| &*rule.topology_key).collect()
    }
}
