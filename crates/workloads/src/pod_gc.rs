//! Pods that nobody else would end.
//!
//! Whoever runs a pod ends it: its node tells when it is over and lets it go. This
//! controller stands in where there is no such node: pods bound to a node that is gone, pods
//! that are to go from a node which is out of service, and pods that are to go and never had
//! a node. It also keeps the number of ended pods within a bound.
//!
//! A node that the watch does not show may only be late. So it is looked for again after a
//! while, and then asked for by name ([`Quarantine`]).

mod shell;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::facts::{NodeFact, PodFact};
use crate::node_lifecycle::health::ready;

pub use shell::start;

/// How many ended pods are kept; with more, the oldest go.
pub const ENDED_MAX: usize = 12_500;
/// How long a node may be missing before it is asked for.
const QUARANTINE: Duration = Duration::from_secs(40);
/// A node with this taint will not come back by itself.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Why a pod goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// There are too many ended pods.
    Surplus,
    /// It is to go, and its node is out of service.
    OutOfService,
    /// Its node is gone.
    Orphaned,
    /// It is to go and has no node.
    Unscheduled,
}

impl Why {
    /// One word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Surplus => "terminated",
            Self::OutOfService => "out-of-service",
            Self::Orphaned => "orphaned",
            Self::Unscheduled => "unscheduled",
        }
    }
}

/// The nodes that pods name and the watch does not show, and since when, on a clock that
/// never jumps.
#[derive(Debug, Clone, Default)]
pub struct Quarantine(BTreeMap<Box<str>, Duration>);

impl Quarantine {
    /// Notes which nodes of these pods are missing, and tells those that have been for so
    /// long that they may be asked for.
    pub fn look<'a>(
        &mut self,
        pods: impl IntoIterator<Item = &'a PodFact>,
        is_there: impl Fn(&str) -> bool,
        now: Duration,
    ) -> Vec<Box<str>> {
        let mut missing: BTreeSet<&str> = BTreeSet::new();
        for pod in pods {
            if !pod.node.is_empty() && !is_there(&pod.node) {
                missing.insert(&pod.node);
            }
        }
        self.0.retain(|node, _| missing.contains(&**node));
        for node in missing {
            self.0.entry(node.into()).or_insert(now);
        }
        let due = self.0.iter().filter(|(_, since)| now.saturating_sub(**since) >= QUARANTINE);
        due.map(|(node, _)| node.clone()).collect()
    }

    /// The node was asked for and is there: the watch is late.
    pub fn found(&mut self, node: &str) {
        self.0.remove(node);
    }
}

/// Which pods go, and why. `gone` are the nodes that are known to be gone.
#[must_use]
pub fn doomed<'a>(
    pods: &[&'a PodFact],
    node: impl Fn(&str) -> Option<std::sync::Arc<NodeFact>>,
    gone: &BTreeSet<Box<str>>,
    ended_max: usize,
) -> Vec<(&'a PodFact, Why)> {
    let mut ended: Vec<&PodFact> =
        pods.iter().copied().filter(|pod| pod.phase.is_terminal()).collect();
    let surplus = ended.len().saturating_sub(ended_max);
    if surplus > 0 {
        // What a node threw out goes first: no controller counts it as done.
        ended.sort_by_key(|pod| (!pod.is_evicted, pod.meta.created, pod.meta.key.name()));
        ended.truncate(surplus);
    } else {
        ended.clear();
    }
    let mut doomed: Vec<(&PodFact, Why)> =
        ended.into_iter().map(|pod| (pod, Why::Surplus)).collect();
    let known: BTreeSet<&str> = doomed.iter().map(|(pod, _)| &*pod.meta.uid).collect();
    let is_out = |node: &NodeFact| {
        !ready(&node.conditions).is_some_and(api::Condition::is_true)
            && node.taints.iter().any(|taint| taint.key == OUT_OF_SERVICE)
    };
    let mut others = Vec::new();
    for pod in pods.iter().copied().filter(|pod| !known.contains(&*pod.meta.uid)) {
        if gone.contains(&pod.node) {
            others.push((pod, Why::Orphaned));
        } else if pod.is_going() && pod.node.is_empty() {
            others.push((pod, Why::Unscheduled));
        } else if pod.is_going() && node(&pod.node).is_some_and(|node| is_out(&node)) {
            others.push((pod, Why::OutOfService));
        }
    }
    doomed.extend(others);
    doomed
}
