//! LoadAwareScheduling: pods go where machines are really idle.
//!
//! What a node uses, and what the pods on it that it does not report yet are taken to use, must leave
//! room for what the pod is taken to use. How loads follow from reports is in
//! [`crate::ledger::Loads`]; here they are held against pods.

#[cfg(test)]
mod tests;

use std::hash::BuildHasher as _;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use crate::judge::Judging;
use crate::ledger::{Ask, Book, Estimate, Ledger, LoadSettings, NodeIndex, Overload, Passing};
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Normalise, Plugin, Reads, SCORE_MAX, Score};
use crate::queue::Arguments;
use crate::reason::{Code, Reason, Refusal};

/// Refuses nodes that are in use too much, and scores the others by how little they are.
#[derive(Debug, Clone, Default)]
pub struct LoadAware {
    /// How load is judged.
    pub settings: Arc<LoadSettings>,
}

impl LoadAware {
    /// What a pod is taken to use, by the book of these settings.
    fn asked<'a>(&self, ledger: &'a Ledger, ask: Ask) -> Option<(&'a Book, Estimate)> {
        let book = ledger.loads.book(&self.settings)?;
        Some((book, ledger.estimate(book, ask)))
    }
}

fn refused(why: Overload) -> Refusal {
    let reason = match why {
        Overload::Expired => Reason::LoadUnknown,
        Overload::Beyond { resource, is_window, percent, most } => {
            Reason::Overloaded { resource, is_window, percent, most }
        }
    };
    Refusal::new(Code::Unschedulable, reason)
}

/// A number for what a pod is taken to use.
fn key(estimate: &Estimate) -> Key {
    FxBuildHasher.hash_one((estimate.is_prod, &estimate.amounts))
}

impl Filter for LoadAware {
    fn plugin(&self) -> Plugin {
        Plugin::LoadAwareScheduling
    }

    fn reads(&self) -> Reads {
        Reads::Load
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        let (_, estimate) = self.asked(ledger, ask)?;
        (!estimate.is_daemon).then(|| key(&estimate))
    }

    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
        let Some((book, estimate)) = self.asked(ledger, ask) else { return };
        if estimate.is_daemon {
            return;
        }
        let rooms = book.rooms(estimate.is_prod);
        nodes.keep_where(|node| {
            rooms
                .iter()
                .zip(&estimate.amounts)
                .all(|(column, more)| column.get(node.get()).is_none_or(|room| more <= room))
        });
    }

    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal> {
        let (book, estimate) = self.asked(ledger, ask)?;
        ledger.overload(book, &estimate, node).map(refused)
    }

    /// What they use is used already: only what the reservation holds beyond them is more.
    fn refusal_adopting(
        &self,
        ledger: &Ledger,
        ask: Ask,
        node: NodeIndex,
        pods: &[Passing],
    ) -> Option<Refusal> {
        let (book, mut estimate) = self.asked(ledger, ask)?;
        for pod in pods {
            let own = ledger.estimate(book, pod.ask);
            let amounts = estimate.amounts.iter_mut().zip(&own.amounts);
            amounts.for_each(|(left, own)| *left = left.saturating_sub(*own));
        }
        // Of what there is no more, there is room on every node.
        estimate.amounts.iter_mut().filter(|left| **left <= 0).for_each(|left| *left = i64::MIN);
        ledger.overload(book, &estimate, node).map(refused)
    }

    /// As upstream, nobody counts on a load that would be lower if somebody went: what a pod uses is
    /// measured, and that it is gone shows in the next report.
    fn judge(&self, _ledger: &Ledger, _ask: Ask) -> Judging {
        Judging::Fixed
    }

    fn tell(&self, arguments: &mut Arguments) {
        arguments.load = Some(Arc::clone(&self.settings));
    }

    fn loads(&self) -> Option<&Arc<LoadSettings>> {
        Some(&self.settings)
    }
}

impl Score for LoadAware {
    fn plugin(&self) -> Plugin {
        Plugin::LoadAwareScheduling
    }

    fn reads(&self) -> Reads {
        Reads::Load
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        let score = &self.settings.score;
        let is_flat = score.dominant == 0 && score.weights.values().all(|weight| *weight == 0);
        let (_, estimate) = self.asked(ledger, ask).filter(|_| !is_flat)?;
        Some(key(&estimate))
    }

    fn normalise(&self) -> Normalise {
        Normalise::No
    }

    fn score(&self, ledger: &Ledger, ask: Ask, nodes: &NodeSet, raw: &mut [i32]) {
        let Some((book, estimate)) = self.asked(ledger, ask) else {
            return nodes.each(|node| raw[node] = 0);
        };
        let (used, capacity) = book.scored(estimate.is_prod);
        let score = &self.settings.score;
        let weights: Vec<i64> = book
            .tracked()
            .iter()
            .map(|name| score.weights.get(name).copied().unwrap_or(0))
            .collect();
        let whole = weights.iter().sum::<i64>() + score.dominant;
        nodes.each(|node| {
            raw[node] = 0;
            if whole == 0 || !book.fresh().contains(NodeIndex::at(node)) {
                return;
            }
            let (mut sum, mut least) = (0, SCORE_MAX);
            for (at, more) in estimate.amounts.iter().enumerate() {
                let (used, capacity) = (used[at][node].saturating_add(*more), capacity[at][node]);
                let idle = idle(used, capacity);
                sum += weights[at] * idle;
                // What the node does not have cannot be short.
                if capacity != 0 {
                    least = least.min(idle);
                }
            }
            let score = (sum + score.dominant * least) / whole;
            raw[node] = i32::try_from(score).unwrap_or(i32::MAX);
        });
    }

    fn loads(&self) -> Option<&Arc<LoadSettings>> {
        Some(&self.settings)
    }
}

/// How much of what there is is not used, of [`SCORE_MAX`].
fn idle(used: i64, capacity: i64) -> i64 {
    if capacity == 0 || used > capacity {
        return 0;
    }
    let free = i128::from(capacity) - i128::from(used.max(0));
    // Numbers of twice the length are dear to divide, and almost never needed.
    match i64::try_from(free * i128::from(SCORE_MAX)) {
        Ok(free) => free / capacity,
        Err(_) => i64::try_from(free * i128::from(SCORE_MAX) / i128::from(capacity)).unwrap_or(0),
    }
}
