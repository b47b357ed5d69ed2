//! How pods are spread over domains, while pods come and go.

use super::{OUT, PodTopologySpread, Rule, counting, filled_by};
use crate::judge::{Judge, Judging};
use crate::ledger::{Ask, CrowdId, Ledger, NodeIndex, Passing, TopologyKey, Way};
use crate::node_set::NodeSet;
use crate::reason::{Code, Reason, Refusal};

/// A binding rule, and how its pods are spread.
struct Spread {
    crowd: CrowdId,
    topology: TopologyKey,
    topology_key: Box<str>,
    max_skew: i64,
    /// Nodes that count.
    counting: NodeSet,
    /// Pods in each domain; [`OUT`] where a domain does not count.
    filled: Vec<i64>,
    /// The two least filled domains at first. Pods move in one domain at a time, so one of them
    /// is the least filled of the others.
    least: [Option<(usize, i64)>; 2],
    /// Whether there are fewer domains than the rule wants.
    few: bool,
    /// What the pod itself adds.
    own: i64,
}

impl Spread {
    fn new(ledger: &Ledger, ask: Ask, rule: &Rule<'_>, nodes: &NodeSet) -> Self {
        let counting = counting(ledger, ask, rule, nodes);
        let filled = filled_by(ledger, rule, &counting);
        let mut least = [None; 2];
        let mut domains = 0;
        for (domain, count) in filled.iter().enumerate() {
            if *count == OUT {
                continue;
            }
            domains += 1;
            let is_less = |other: Option<(usize, i64)>| other.is_none_or(|(_, most)| *count < most);
            if is_less(least[0]) {
                least = [Some((domain, *count)), least[0]];
            } else if is_less(least[1]) {
                least[1] = Some((domain, *count));
            }
        }
        Self {
            crowd: rule.crowd,
            topology: rule.key,
            topology_key: rule.topology_key.into(),
            max_skew: rule.max_skew.into(),
            counting,
            filled,
            least,
            few: domains < rule.min_domains,
            own: i64::from(ledger.terms.crowds.is_member(ask.identity, rule.crowd)),
        }
    }

    /// How many pods the least filled domain has, where those of all but one are as at first.
    fn least(&self, moved: usize) -> i64 {
        if self.few {
            return 0;
        }
        let others = self.least.iter().flatten().find(|(domain, _)| *domain != moved);
        let others = others.map(|(_, count)| *count);
        let own = Some(self.filled[moved]).filter(|own| *own != OUT);
        others.into_iter().chain(own).min().unwrap_or(0)
    }

    fn reason(&self, ledger: &Ledger, node: NodeIndex) -> Option<Reason> {
        let topology_key = || self.topology_key.clone();
        let Some(domain) = ledger.terms.topologies.get(self.topology).domain(node) else {
            return Some(Reason::NoDomain { topology_key: topology_key() });
        };
        let skew = self.filled[domain].max(0) + self.own - self.least(domain);
        let max_skew = self.max_skew;
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
    let nodes = rules.present(ledger);
    let all = rules.rules.iter().map(|rule| Spread::new(ledger, ask, rule, &nodes));
    Judging::Whole(Box::new(Spreads(all.collect())))
}

impl Judge for Spreads {
    fn follow(&mut self, ledger: &Ledger, pod: Passing, node: NodeIndex, way: Way) {
        // One that is being deleted was not counted while it was there.
        if pod.deleting {
            return;
        }
        for spread in &mut self.0 {
            let is_of = ledger.terms.crowds.is_member(pod.ask.identity, spread.crowd);
            if is_of
                && spread.counting.contains(node)
                && let Some(domain) = ledger.terms.topologies.get(spread.topology).domain(node)
                && spread.filled[domain] != OUT
            {
                spread.filled[domain] += way.sign();
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
