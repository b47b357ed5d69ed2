//! PodTopologySpread: pods and their like are spread over domains.

mod judge;

use super::terms::admit_terms;
use super::{node_affinity, taint_toleration};
use crate::judge::Judging;
use crate::ledger::{Ask, CrowdId, Entry, Ledger, NodeIndex, Topology, TopologyKey};
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Lent, Normalise, Plugin, Reads, SCORE_MAX, Score, Wanted};
use crate::queue::Arguments;
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

/// A rule for a pod, its own or a default one.
#[derive(Clone, Copy)]
struct Rule<'a> {
    crowd: CrowdId,
    /// Whether pods are counted at all, or only the one that is placed.
    counts: bool,
    key: TopologyKey,
    topology: &'a Topology,
    topology_key: &'a str,
    max_skew: i32,
    min_domains: i32,
    honours_affinity: bool,
    honours_taints: bool,
}

/// The rules for a pod that bind, or those that do not.
struct Rules<'a> {
    rules: Vec<Rule<'a>>,
    /// Whether only nodes with the labels of all rules take part.
    strict: bool,
}

impl Rules<'_> {
    /// Takes out the nodes that take no part.
    fn let_in(&self, nodes: &mut NodeSet) {
        if self.strict {
            self.rules.iter().for_each(|rule| nodes.keep(rule.topology.labelled()));
        }
    }

    /// The nodes that take part, whether they can take the pod or not.
    fn present(&self, ledger: &Ledger) -> NodeSet {
        let mut nodes = ledger.nodes.present().clone();
        self.let_in(&mut nodes);
        nodes
    }
}

impl PodTopologySpread {
    fn default_keys(&self) -> Vec<&str> {
        self.defaults.iter().map(|rule| &*rule.topology_key).collect()
    }

    fn rules<'a>(&'a self, ledger: &'a Ledger, ask: Ask, binding: bool) -> Rules<'a> {
        let topologies = &ledger.terms.topologies;
        let own = ledger.terms.spread(ask.spread);
        let Some(crowd) = ask.like.filter(|_| own.is_empty()) else {
            let own = own.iter().filter(|rule| rule.binds == binding);
            let rules = own.map(|rule| Rule {
                crowd: rule.crowd,
                counts: rule.counts,
                key: rule.topology,
                topology: topologies.get(rule.topology),
                topology_key: &rule.topology_key,
                max_skew: rule.max_skew,
                min_domains: rule.min_domains,
                honours_affinity: rule.honours_affinity,
                honours_taints: rule.honours_taints,
            });
            return Rules { rules: rules.collect(), strict: true };
        };
        let rules = self.defaults.iter().filter(|rule| rule.binds == binding);
        let rules = rules.filter_map(|rule| {
            let key = topologies.find(&rule.topology_key)?;
            Some(Rule {
                crowd,
                counts: true,
                key,
                topology: topologies.get(key),
                topology_key: &rule.topology_key,
                max_skew: rule.max_skew,
                min_domains: 1,
                honours_affinity: true,
                honours_taints: false,
            })
        });
        Rules { rules: rules.collect(), strict: binding || !self.lenient }
    }

    fn key_of(&self, ledger: &Ledger, ask: Ask, binding: bool) -> Option<Key> {
        let own = ledger.terms.spread(ask.spread);
        let some = if own.is_empty() {
            ask.like.is_some()
                && self.defaults.iter().any(|rule| {
                    rule.binds == binding
                        && ledger.terms.topologies.find(&rule.topology_key).is_some()
                })
        } else {
            own.iter().any(|rule| rule.binds == binding)
        };
        some.then_some(0)
    }

    fn standings<'a>(&'a self, ledger: &'a Ledger, ask: Ask) -> Vec<Standing<'a>> {
        let rules = self.rules(ledger, ask, true);
        if rules.rules.is_empty() {
            return Vec::new();
        }
        let nodes = rules.present(ledger);
        let standing = |rule: &Rule<'a>| {
            let filled = filled(ledger, ask, rule, &nodes);
            let counting = || filled.iter().copied().filter(|filled| *filled != OUT);
            let few = counting().count() < usize::try_from(rule.min_domains).unwrap_or(0);
            let least = counting().min().filter(|_| !few).unwrap_or(0);
            let own = i64::from(ledger.terms.crowds.is_member(ask.identity, rule.crowd));
            Standing { rule: *rule, filled, least, own }
        };
        rules.rules.iter().map(standing).collect()
    }
}

/// Takes out the nodes that do not count for a rule.
fn keep_counting(ledger: &Ledger, ask: Ask, rule: &Rule<'_>, nodes: &mut NodeSet) {
    let affinity = node_affinity::asked(ledger, ask);
    if rule.honours_affinity && !affinity.admits_all() {
        node_affinity::Asked::new(ledger, affinity).keep_admitted(nodes);
    }
    if rule.honours_taints {
        taint_toleration::take_out_untolerated(ledger, ask, nodes);
    }
}

/// How many pods there are in a domain that does not count.
const OUT: i64 = -1;

/// How many pods of a rule there are in each domain; [`OUT`] where a domain does not count.
fn filled(ledger: &Ledger, ask: Ask, rule: &Rule<'_>, nodes: &NodeSet) -> Vec<i64> {
    filled_by(ledger, rule, &counting(ledger, ask, rule, nodes))
}

/// The nodes that count for a rule.
fn counting(ledger: &Ledger, ask: Ask, rule: &Rule<'_>, nodes: &NodeSet) -> NodeSet {
    let mut counting = nodes.clone();
    counting.keep(rule.topology.labelled());
    keep_counting(ledger, ask, rule, &mut counting);
    counting
}

/// How many pods of a rule there are in each domain, on nodes that count.
fn filled_by(ledger: &Ledger, rule: &Rule<'_>, counting: &NodeSet) -> Vec<i64> {
    let topology = rule.topology;
    let mut filled = reached(topology, counting);
    if rule.counts {
        for entry in ledger.terms.crowds.get(rule.crowd).pods.entries() {
            if counting.contains(entry.node)
                && let Some(domain) = topology.domain(entry.node)
            {
                filled[domain] += i64::from(entry.staying);
            }
        }
    }
    filled
}

/// By domain, 0 where it has one of these nodes and [`OUT`] where it has none.
fn reached(topology: &Topology, nodes: &NodeSet) -> Vec<i64> {
    if topology.labelled().is_within(nodes) {
        let domains = 0..topology.places();
        return domains.map(|own| if topology.nodes_in(own) > 0 { 0 } else { OUT }).collect();
    }
    let mut reached = vec![OUT; topology.places()];
    let column = topology.column();
    nodes.each(|node| {
        if let Some(reached) = column.get(node).and_then(|own| reached.get_mut(*own as usize)) {
            *reached = 0;
        }
    });
    reached
}

/// A binding rule, and how things stand.
struct Standing<'a> {
    rule: Rule<'a>,
    filled: Vec<i64>,
    least: i64,
    own: i64,
}

impl Standing<'_> {
    /// The skew if the pod came to a domain with so many pods.
    fn skew(&self, filled: i64) -> i64 {
        filled.max(0) + self.own - self.least
    }

    fn reason(&self, node: NodeIndex) -> Option<Reason> {
        let Some(domain) = self.rule.topology.domain(node) else {
            return Some(Reason::NoDomain { topology_key: self.rule.topology_key.into() });
        };
        let (skew, max_skew) = (self.skew(self.filled[domain]), i64::from(self.rule.max_skew));
        let topology_key = self.rule.topology_key.into();
        (skew > max_skew).then_some(Reason::Spread { topology_key, skew, max_skew })
    }

    /// Takes out the nodes for which there is a reason.
    fn sift(&self, nodes: &mut NodeSet) {
        nodes.keep(self.rule.topology.labelled());
        let max_skew = i64::from(self.rule.max_skew);
        let most = self.filled.iter().copied().max().unwrap_or(0);
        if self.skew(most) <= max_skew {
            return;
        }
        let open: Vec<bool> =
            self.filled.iter().map(|filled| self.skew(*filled) <= max_skew).collect();
        let column = self.rule.topology.column();
        nodes.keep_dense(|node| {
            let domain = column.get(node).map_or(usize::MAX, |domain| *domain as usize);
            open.get(domain).is_some_and(|open| *open)
        });
    }
}

impl Filter for PodTopologySpread {
    fn plugin(&self) -> Plugin {
        Plugin::PodTopologySpread
    }

    fn reads(&self) -> Reads {
        Reads::Cluster
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        self.key_of(ledger, ask, true)
    }

    fn tell(&self, arguments: &mut Arguments) {
        arguments.spread = self.clone();
    }

    fn admit(&self, _: &Ledger, ask: Ask) -> Result<(), Refusal> {
        admit_terms(ask)
    }

    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
        self.standings(ledger, ask).iter().for_each(|standing| standing.sift(nodes));
    }

    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal> {
        let reason = self.standings(ledger, ask).iter().find_map(|one| one.reason(node))?;
        let code = match reason {
            Reason::NoDomain { .. } => Code::Unresolvable,
            _ => Code::Unschedulable,
        };
        Some(Refusal::new(code, reason))
    }

    fn topology_keys(&self) -> Vec<&str> {
        self.default_keys()
    }

    fn judge(&self, ledger: &Ledger, ask: Ask) -> Judging {
        judge::judge(self, ledger, ask)
    }
}

/// What a pod counts where there are so many domains: a pod more in one of many says less.
fn weight(domains: usize) -> f64 {
    ((domains + 2) as f64).ln()
}

/// The nearest integer, halves away from zero, of a number that is not below zero. Unlike
/// [`f64::round`] it needs no call.
fn rounded(number: f64) -> i64 {
    let whole = number as i64;
    whole + i64::from(number - whole as f64 >= 0.5)
}

/// The nodes that take part in weighing rules that do not bind.
struct Field {
    /// Those that can take the pod.
    scored: NodeSet,
    /// Those whose pods are counted.
    counted: NodeSet,
}

impl Rule<'_> {
    /// What a count of pods adds.
    fn worth(&self, count: i64, weight: f64) -> f64 {
        count as f64 * weight + f64::from(self.max_skew - 1)
    }

    /// Adds what the rule is worth to the sum of each node with its label.
    fn weigh(&self, ledger: &Ledger, ask: Ask, field: &Field, sums: &mut [f64]) {
        if self.topology_key == HOSTNAME {
            return self.weigh_hosts(ledger, &field.scored, sums);
        }
        let reached =
            reached(self.topology, &field.scored).iter().filter(|own| **own != OUT).count();
        // Nodes without the label are together one more domain.
        let unlabelled = !field.scored.is_within(self.topology.labelled());
        let weight = weight(reached + usize::from(unlabelled));
        let filled = filled(ledger, ask, self, &field.counted);
        let worth: Vec<f64> =
            filled.iter().map(|count| self.worth((*count).max(0), weight)).collect();
        for (sum, domain) in sums.iter_mut().zip(self.topology.column()) {
            if let Some(worth) = worth.get(*domain as usize) {
                *sum += worth;
            }
        }
    }

    /// The same where each node is a domain of its own: few of them have pods.
    fn weigh_hosts(&self, ledger: &Ledger, scored: &NodeSet, sums: &mut [f64]) {
        let weight = weight(scored.len());
        let tally = &ledger.terms.crowds.get(self.crowd).pods;
        let entries = if self.counts { tally.entries() } else { &[] };
        let labelled = |entry: &&Entry| self.topology.domain(entry.node).is_some();
        let filled = entries.iter().filter(labelled).map(|entry| {
            let node = entry.node.get();
            (node, sums[node] + self.worth(entry.staying.into(), weight))
        });
        let filled: Vec<(usize, f64)> = filled.collect();
        let empty = self.worth(0, weight);
        if ledger.nodes.present().is_within(self.topology.labelled()) {
            sums.iter_mut().for_each(|sum| *sum += empty);
        } else {
            self.topology.labelled().each(|node| sums[node] += empty);
        }
        for (node, sum) in filled {
            sums[node] = sum;
        }
    }
}

impl PodTopologySpread {
    /// Calls with the score of each node that takes part.
    fn weigh(
        &self,
        (ledger, ask): (&Ledger, Ask),
        nodes: &NodeSet,
        lent: &mut Lent,
        mut call: impl FnMut(usize, i32),
    ) {
        let rules = self.rules(ledger, ask, false);
        let mut scored = nodes.clone();
        rules.let_in(&mut scored);
        let field = Field { counted: rules.present(ledger), scored };
        let Lent { sums, scores: raw, .. } = lent;
        sums.clear();
        sums.resize(ledger.nodes.places(), 0.0);
        // In the order of the rules, as kube-scheduler adds them up.
        rules.rules.iter().for_each(|rule| rule.weigh(ledger, ask, &field, sums));
        raw.resize(sums.len(), 0);
        let (mut least, mut most) = (i64::MAX, 0);
        field.scored.each(|node| {
            let own = rounded(sums[node]);
            (least, most) = (least.min(own), most.max(own));
            raw[node] = i32::try_from(own).unwrap_or(i32::MAX);
        });
        field.scored.each(|node| call(node, score(raw[node].into(), least, most)));
    }
}

/// The score of a node: the fewer pods there are, the better.
fn score(raw: i64, least: i64, most: i64) -> i32 {
    if most == 0 {
        return SCORE_MAX as i32;
    }
    let share = SCORE_MAX * (most + least - raw);
    if share < EXACT && most < EXACT {
        // Exact for such integers, and faster than dividing them.
        return (share as f64 / most as f64) as i32;
    }
    i32::try_from(share / most).unwrap_or(0)
}

/// Integers below this have exact floating-point numbers.
const EXACT: i64 = 1 << 52;

impl Score for PodTopologySpread {
    fn plugin(&self) -> Plugin {
        Plugin::PodTopologySpread
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
        let mut lent = Lent::default();
        self.weigh((ledger, ask), nodes, &mut lent, |node, score| scores[node] = score);
    }

    fn add(&self, wanted: Wanted<'_>, nodes: &NodeSet, totals: &mut [i32], lent: &mut Lent) {
        let Wanted { ledger, ask, weight } = wanted;
        self.weigh((ledger, ask), nodes, lent, |node, score| totals[node] += weight * score);
    }

    fn topology_keys(&self) -> Vec<&str> {
        self.default_keys()
    }
}
