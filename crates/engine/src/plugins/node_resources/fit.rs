//! NodeResourcesFit: what a pod requests must be left on the node.

use super::ignored::IgnoredResources;
use super::strategy::{Counted, Strategy, Weighted, are_most, parts};
use crate::ledger::{Ask, Column, Ledger, NodeIndex, SAFE_BITS};
use crate::needs::Amounts;
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Normalise, Plugin, Reads, Score};
use crate::queue::Arguments;
use crate::reason::{Code, Reason, Refusal};

/// Refuses nodes with too little left, and scores by how full they are.
#[derive(Debug, Clone)]
pub struct Fit {
    /// How use makes a score.
    pub strategy: Strategy,
    /// What counts in the score.
    pub resources: Vec<Weighted>,
    /// What is not looked at.
    pub ignored: IgnoredResources,
}

impl Default for Fit {
    fn default() -> Self {
        let (resources, ignored) = (Weighted::cpu_and_memory(), IgnoredResources::default());
        Self { strategy: Strategy::LeastAllocated, resources, ignored }
    }
}

/// A resource that a pod requests, and what nodes have of it.
struct Wanted<'a> {
    name: &'a str,
    amount: i64,
    /// None where no node has any.
    column: Option<&'a Column>,
}

impl Wanted<'_> {
    fn at(&self, node: NodeIndex) -> (i64, i64) {
        let at = node.get();
        self.column.map_or((0, 0), |column| (column.allocatable[at], column.requested[at]))
    }

    fn fits(&self, node: NodeIndex) -> bool {
        let (allocatable, used) = self.at(node);
        self.amount <= allocatable.saturating_sub(used)
    }
}

impl Fit {
    /// Whether a resource is not looked at.
    #[must_use]
    pub fn ignores(&self, name: &str) -> bool {
        self.ignored.contain(name)
    }

    /// What a pod requests more than nothing of, in the order in which it is told.
    fn wanted<'a>(&self, ledger: &'a Ledger, ask: Ask) -> Vec<Wanted<'a>> {
        let columns = &ledger.nodes.resources;
        let Amounts { cpu_millis, memory_bytes, storage_bytes, scalars } =
            &ledger.asks.requests.get(ask.requests).charged;
        let plain = [
            ("cpu", *cpu_millis, &columns.cpu),
            ("memory", *memory_bytes, &columns.memory),
            ("ephemeral-storage", *storage_bytes, &columns.storage),
        ];
        let plain = plain.map(|(name, amount, column)| (name, amount, Some(column)));
        let scalars = scalars.iter().filter(|(name, _)| !self.ignores(name));
        let scalars = scalars.map(|(name, amount)| {
            (&**name, *amount, columns.find(name).map(|at| columns.scalar(at)))
        });
        plain
            .into_iter()
            .chain(scalars)
            .filter(|(_, amount, _)| *amount > 0)
            .map(|(name, amount, column)| Wanted { name, amount, column })
            .collect()
    }
}

const BLOCK: usize = u64::BITS as usize;

/// Takes out the nodes without room for pods or with too little left, many at once; false where
/// amounts are too large for that.
fn keep_roomy(nodes: &mut NodeSet, pods: &[i64], allowed: &[i64], wanted: &[Wanted<'_>]) -> bool {
    let safe =
        |one: &Wanted<'_>| one.amount >> SAFE_BITS == 0 && one.column.is_some_and(Column::is_safe);
    if !wanted.iter().all(safe) {
        return false;
    }
    nodes.keep_masked(|first, count| {
        // Below zero where something falls short.
        let mut left = [0_i64; BLOCK];
        for Wanted { amount, column, .. } in wanted {
            let Some(Column { allocatable, requested, .. }) = column else { continue };
            let columns = allocatable[first..first + count].iter().zip(&requested[first..]);
            for (left, (allocatable, requested)) in left.iter_mut().zip(columns) {
                *left |= allocatable.wrapping_sub(*requested).wrapping_sub(*amount);
            }
        }
        let room = pods[first..first + count].iter().zip(&allowed[first..]);
        let mut mask = 0;
        for (bit, (left, (pods, allowed))) in left.iter().zip(room).enumerate() {
            mask |= u64::from((*left >= 0) & (pods < allowed)) << bit;
        }
        mask
    });
    true
}

impl Filter for Fit {
    fn plugin(&self) -> Plugin {
        Plugin::NodeResourcesFit
    }

    fn reads(&self) -> Reads {
        Reads::Load
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        Some(ledger.asks.requests.stamp(ask.requests))
    }

    fn tell(&self, arguments: &mut Arguments) {
        arguments.fit = self.clone();
    }

    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
        let wanted = self.wanted(ledger, ask);
        let (pods, allowed) = (&ledger.nodes.pods[..], &ledger.nodes.pods_allowed[..]);
        if are_most(nodes, pods.len()) && keep_roomy(nodes, pods, allowed, &wanted) {
            return;
        }
        nodes.keep_where(|node| {
            pods[node.get()] < allowed[node.get()] && wanted.iter().all(|one| one.fits(node))
        });
    }

    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal> {
        let mut refusal = Refusal { code: Code::Unschedulable, reasons: Vec::new() };
        let allowed = ledger.nodes.pods_allowed[node.get()];
        if ledger.nodes.pods[node.get()] >= allowed {
            refusal.reasons.push(Reason::TooManyPods { allowed });
        }
        for one in self.wanted(ledger, ask).iter().filter(|one| !one.fits(node)) {
            let ((allocatable, used), requested) = (one.at(node), one.amount);
            if requested > allocatable {
                refusal.code = Code::Unresolvable;
            }
            let resource = one.name.into();
            refusal.reasons.push(Reason::ShortOf { resource, requested, used, allocatable });
        }
        (!refusal.reasons.is_empty()).then_some(refusal)
    }
}

impl Score for Fit {
    fn plugin(&self) -> Plugin {
        Plugin::NodeResourcesFit
    }

    fn reads(&self) -> Reads {
        Reads::Load
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        Some(ledger.asks.requests.stamp(ask.requests))
    }

    fn normalise(&self) -> Normalise {
        Normalise::No
    }

    fn score(&self, ledger: &Ledger, ask: Ask, nodes: &NodeSet, raw: &mut [i32]) {
        let parts = parts(ledger, ask, &self.resources, Counted::Scored);
        if are_most(nodes, raw.len()) {
            return self.strategy.score_all(&parts, raw);
        }
        nodes.each(|node| {
            raw[node] = i32::try_from(self.strategy.score(&parts, node)).unwrap_or(i32::MAX);
        });
    }
}
