//! How pods are spread over domains, while pods come and go.

use super::{PodTopologySpread, counts};
use crate::judge::{Judge, Judging, Passing, Way};
use crate::ledger::{Ask, Ledger, NodeIndex, SpreadRule};
use crate::node_set::NodeSet;
use crate::reason::{Code, Reason, Refusal};

/// A binding rule, and how its pods are spread.
struct Spread {
    rule: SpreadRule,
    /// Nodes that count.
    counting: NodeSet,
    /// Pods in each domain; none where a domain does not count.
    filled: Vec<Option<i64>>,
    /// The two least filled domains at first. Pods move in one domain at a time, so one of them
    /// is the least filled of the others.
    least: [Option<(usize, i64)>; 2],
    domains: usize,
    /// What the pod itself adds.
    own: i64,
}

impl Spread {
    fn new(ledger: &Ledger, ask: Ask, rule: SpreadRule, nodes: &NodeSet) -> Self {
        let topology = ledger.terms.topologies.get(rule.topology);
        let mut filled = vec![None; topology.places()];
        let mut counting = nodes.clone();
        counting.keep_where(|node| counts(ledger, ask, &rule, node));
        for domain in counting.iter().filter_map(|node| topology.domain(node)) {
            filled[domain] = Some(0);
        }
        let crowd = ledger.terms.crowds.get(rule.crowd);
        let entries = if rule.counts { crowd.pods.entries() } else { &[] };
        for entry in entries.iter().filter(|entry| counting.contains(entry.node)) {
            if let Some(count) = topology.domain(entry.node).and_then(|at| filled[at].as_mut()) {
                *count += i64::from(entry.staying);
            }
        }
        let mut least = [None; 2];
        let mut domains = 0;
        for (domain, count) in filled.iter().enumerate() {
            let Some(count) = count else { continue };
            domains += 1;
            let is_less = |other: Option<(usize, i64)>| other.is_none_or(|(_, most)| *count < most);
            if is_less(least[0]) {
                least = [Some((domain, *count)), least[0]];
            } else if is_less(least[1]) {
                least[1] = Some((domain, *count));
            }
        }
        let own = i64::from(ledger.terms.crowds.is_member(ask.identity, rule.crowd));
        Self { rule, counting, filled, least, domains, own }
    }

    /// How many pods the least filled domain has, where those of all but one are as at first.
    fn least(&self, moved: usize) -> i64 {
        if i64::try_from(self.domains).is_ok_and(|all| all < i64::from(self.rule.min_domains)) {
            return 0;
        }
        let others = self.least.iter().flatten().find(|(domain, _)| *domain != moved);
        let others = others.map(|(_, count)| *count);
        others.into_iter().chain(self.filled[moved]).min().unwrap_or(0)
    }

    fn reason(&self, ledger: &Ledger, node: NodeIndex) -> Option<Reason> {
        let topology_key = || self.rule.topology_key.clone();
        let Some(domain) = ledger.terms.topologies.get(self.rule.topology).domain(node) else {
            return Some(Reason::NoDomain { topology_key: topology_key() });
        };
        let skew = self.filled[domain].unwrap_or(0) + self.own - self.least(domain);
        let max_skew = i64::from(self.rule.max_skew);
        (skew > max_skew).then(|| Reason::Spread { topology_key: topology_key(), skew, max_skew })
    }
}

struct Spreads(Vec<Spread>);

/// What is known of how a pod and its like are spread.
pub(super) fn judge(plugin: &PodTopologySpread, ledger: &Ledger, ask: Ask) -> Judging {
    let rules = plugin.rules(ledger, ask, true);
    if rules.rules.is_empty() {
        return Judging::Nothing;
    }
    let mut nodes = ledger.nodes.present().clone();
    nodes.keep_where(|node| rules.let_in(ledger, node));
    let all = rules.rules.into_iter();
    let all = all.map(|rule| Spread::new(ledger, ask, rule.into_owned(), &nodes));
    Judging::Whole(Box::new(Spreads(all.collect())))
}

impl Judge for Spreads {
    fn follow(&mut self, ledger: &Ledger, pod: Passing, node: NodeIndex, way: Way) {
        // One that is being deleted was not counted while it was there.
        if pod.deleting {
            return;
        }
        for spread in &mut self.0 {
            let is_of = ledger.terms.crowds.is_member(pod.ask.identity, spread.rule.crowd);
            if is_of
                && spread.counting.contains(node)
                && let Some(domain) = ledger.terms.topologies.get(spread.rule.topology).domain(node)
                && let Some(count) = spread.filled[domain].as_mut()
            {
                *count += way.sign();
            }
        }
    }

    fn refusal(&self, ledger: &Ledger, node: NodeIndex) -> Option<Refusal> {
        let reason = self.0.iter().find_map(|spread| spread.reason(ledger, node))?;
        let code = match reason {
            Reason::NoDomain { .. } => Code::Unresolvable,
            _ => Code::Unschedulable,
        };
        Some(Refusal::new(code, reason))
    }
}
