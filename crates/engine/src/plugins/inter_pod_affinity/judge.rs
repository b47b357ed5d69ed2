//! Counts of pods that others must be near to or away from, while pods come and go.

use crate::judge::{Judge, Judging};
use crate::ledger::{Ask, CrowdId, Ledger, NodeIndex, Passing, Tally, TopologyKey, Want, Way};
use crate::reason::{Code, Reason, Refusal};

/// How many pods there are in each domain.
struct Counts {
    topology: TopologyKey,
    by_domain: Vec<i64>,
    /// In all of them.
    total: i64,
}

impl Counts {
    fn new(ledger: &Ledger, topology: TopologyKey) -> Self {
        let places = ledger.terms.topologies.get(topology).places();
        Self { topology, by_domain: vec![0; places], total: 0 }
    }

    fn of(ledger: &Ledger, topology: TopologyKey, pods: &Tally) -> Self {
        let mut counts = Self::new(ledger, topology);
        for entry in pods.entries() {
            counts.add(ledger, entry.node, entry.all.into());
        }
        counts
    }

    fn add(&mut self, ledger: &Ledger, node: NodeIndex, pods: i64) {
        if let Some(domain) = ledger.terms.topologies.get(self.topology).domain(node) {
            self.by_domain[domain] += pods;
            self.total += pods;
        }
    }

    /// How many there are in the domain of a node, where it has one.
    fn at(&self, ledger: &Ledger, node: NodeIndex) -> Option<i64> {
        let domain = ledger.terms.topologies.get(self.topology).domain(node)?;
        Some(self.by_domain[domain])
    }
}

/// What pods in each domain mean for a pod.
struct Neighbours {
    ask: Ask,
    /// The pods that count for the terms below.
    near_all: Option<CrowdId>,
    /// For each term of what must be near.
    near: Vec<Counts>,
    /// For each term of what must be away.
    away: Vec<(CrowdId, Counts)>,
    /// Pods that keep the pod away, by what is near to them.
    kept_away: Vec<Counts>,
}

/// What is known of the neighbours of a pod.
pub(super) fn judge(ledger: &Ledger, ask: Ask) -> Judging {
    let crowds = &ledger.terms.crowds;
    let wants = ledger.terms.affinity(ask.pod_affinity);
    let near = wants.near_all.map_or(&[][..], |_| &wants.near);
    let near = near.iter().filter_map(|(_, topology)| {
        Some(Counts::of(ledger, *topology, &crowds.get(wants.near_all?).pods))
    });
    let away = wants
        .away
        .iter()
        .map(|(crowd, topology)| (*crowd, Counts::of(ledger, *topology, &crowds.get(*crowd).pods)));
    let mut own = Neighbours {
        ask,
        near_all: wants.near_all,
        near: near.collect(),
        away: away.collect(),
        kept_away: Vec::new(),
    };
    for one in crowds.of(ask.identity).iter().flat_map(|crowd| &crowds.get(*crowd).wanted_by) {
        if one.want == Want::Away {
            let counts = own.keeping(ledger, one.topology);
            for entry in one.pods.entries() {
                counts.add(ledger, entry.node, entry.all.into());
            }
        }
    }
    let kept_away = own.kept_away.iter().any(|counts| counts.total > 0);
    if own.near.is_empty() && own.away.is_empty() && !kept_away {
        return Judging::Nothing;
    }
    Judging::Whole(Box::new(own))
}

impl Neighbours {
    fn keeping(&mut self, ledger: &Ledger, topology: TopologyKey) -> &mut Counts {
        let place = self.kept_away.iter().position(|counts| counts.topology == topology);
        let place = place.unwrap_or_else(|| {
            self.kept_away.push(Counts::new(ledger, topology));
            self.kept_away.len() - 1
        });
        &mut self.kept_away[place]
    }

    /// Whether no pod that must be near is anywhere, and the pod is one itself.
    fn may_be_first(&self, ledger: &Ledger) -> bool {
        let crowds = &ledger.terms.crowds;
        self.near_all.is_some_and(|all| crowds.is_member(self.ask.identity, all))
            && self.near.iter().all(|counts| counts.total == 0)
    }

    fn reason(&self, ledger: &Ledger, node: NodeIndex) -> Option<Reason> {
        let mut near = true;
        for counts in &self.near {
            match counts.at(ledger, node) {
                Some(count) => near &= count > 0,
                None => return Some(Reason::NotNear),
            }
        }
        if !near && !self.may_be_first(ledger) {
            return Some(Reason::NotNear);
        }
        let some = |counts: &Counts| counts.at(ledger, node).is_some_and(|count| count > 0);
        if self.away.iter().any(|(_, counts)| some(counts)) {
            return Some(Reason::NotAway);
        }
        self.kept_away.iter().any(some).then_some(Reason::KeptAway)
    }
}

impl Judge for Neighbours {
    fn follow(&mut self, ledger: &Ledger, pod: Passing, node: NodeIndex, way: Way) {
        let crowds = &ledger.terms.crowds;
        let is_of = |crowd| crowds.is_member(pod.ask.identity, crowd);
        if self.near_all.is_some_and(is_of) {
            for counts in &mut self.near {
                counts.add(ledger, node, way.sign());
            }
        }
        for (crowd, counts) in &mut self.away {
            if is_of(*crowd) {
                counts.add(ledger, node, way.sign());
            }
        }
        for (crowd, topology) in &ledger.terms.affinity(pod.ask.pod_affinity).away {
            if crowds.is_member(self.ask.identity, *crowd) {
                self.keeping(ledger, *topology).add(ledger, node, way.sign());
            }
        }
    }

    fn refusal(&self, ledger: &Ledger, node: NodeIndex) -> Option<Refusal> {
        let reason = self.reason(ledger, node)?;
        let code = match reason {
            Reason::NotNear => Code::Unresolvable,
            _ => Code::Unschedulable,
        };
        Some(Refusal::new(code, reason))
    }
}
