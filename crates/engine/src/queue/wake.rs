//! Which change can cure which refusal.
//!
//! Each plugin is asked about a change and a pod that it refused, and answers from both alone. The
//! answers are those of kube-scheduler's queueing hints; where it is known to wake a pod in vain,
//! or to leave one asleep that could run, the answer says so.

mod cpus;
mod loads;
mod nodes;
mod pods;
mod reservations;
mod storage;

use std::sync::Arc;

use object::selector::label::Selector;

use super::change::Change;
use crate::ledger::{Ask, Ledger, LoadSettings};
use crate::plugin::Plugin;
use crate::plugins::node_affinity::NodeAffinity;
use crate::plugins::node_numa_resource::CpuSettings;
use crate::plugins::node_resources::Fit;
use crate::plugins::pod_topology_spread::PodTopologySpread;

/// What a profile tells the plugins whose answers depend on it.
#[derive(Debug, Clone, Default)]
pub struct Arguments {
    /// Of NodeAffinity.
    pub node_affinity: NodeAffinity,
    /// Of NodeResourcesFit.
    pub fit: Fit,
    /// Of PodTopologySpread.
    pub spread: PodTopologySpread,
    /// Of LoadAwareScheduling, where it refuses nodes.
    pub load: Option<Arc<LoadSettings>>,
    /// Of NodeNUMAResource, where it refuses nodes.
    pub cpus: Option<CpuSettings>,
    /// Whether pods use reservations.
    pub reserves: bool,
    /// The label of pods that any reservation may take over, where any may.
    pub takeover_label: Option<Box<str>>,
}

impl Arguments {
    /// Whether they and others lead to the same answers.
    pub(super) fn are_like(&self, other: &Self) -> bool {
        self.node_affinity.added == other.node_affinity.added
            && self.fit.ignored == other.fit.ignored
            && self.spread.defaults == other.spread.defaults
            && self.load == other.load
            && self.cpus == other.cpus
            && self.reserves == other.reserves
            && self.takeover_label == other.takeover_label
    }
}

/// Whether a change may let a pod run that a plugin refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// It cannot.
    No,
    /// It may.
    Yes,
    /// It cannot, and kube-scheduler tries the pod all the same.
    Vain,
    /// It may, and kube-scheduler leaves the pod asleep.
    Missed(Missed),
}

/// Why kube-scheduler leaves a pod asleep that may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Missed {
    /// It looks at what the pod wants of others, not at what others want of it.
    WishOfOthers,
    /// It wants a pod that is gone to match all terms that keep the pod away, not any.
    OneOfSeveralTerms,
    /// It does not know the labels of namespaces when it looks at terms.
    NamespaceSelector,
    /// It does not hear that labels of a namespace changed.
    NamespaceLabels,
    /// The last pod that the pod had to be near is gone, so that the pod may be the first.
    LastOfItsKind,
    /// A node is gone, and with it the domain of the pods on it.
    NodeGone,
    /// The labels of the pod itself changed, and with them what others want of it.
    OwnLabels,
    /// A pod that is being deleted does not count for spreading any longer.
    Deleting,
    /// A node counts for spreading, or does not any longer, by the pod's node affinity.
    CountedNodes,
    /// It compares what the pod asks of a node, not what the profile asks for it.
    AddedAffinity,
    /// It wants a node to have what the profile says is not looked at.
    IgnoredResources,
    /// It does not hear that other pods are alike now.
    Owners,
    /// A new node takes any number of volumes until its drivers say otherwise.
    NewNode,
    /// It wants a pod that is gone to be of the same namespace, also where both had the same disk.
    SharedDisk,
    /// Volumes that were promised to a pod are free: it does not get its node.
    BrokenPromise,
    /// It does not hear of this change of storage, or takes it for one that cannot be.
    Storage,
}

impl Hint {
    fn when(may: bool) -> Self {
        if may { Self::Yes } else { Self::No }
    }

    /// This answer, or another where this is a no.
    fn or(self, other: impl FnOnce() -> Self) -> Self {
        if self == Self::No { other() } else { self }
    }

    /// The answer where kube-scheduler tries the pod or does not, and it may run or may not.
    fn of_both(tried: bool, may: bool, missed: Missed) -> Self {
        match (tried, may) {
            (true, true) => Self::Yes,
            (true, false) => Self::Vain,
            (false, true) => Self::Missed(missed),
            (false, false) => Self::No,
        }
    }

    fn missed_when(may: bool, missed: Missed) -> Self {
        if may { Self::Missed(missed) } else { Self::No }
    }
}

/// Whether a change may let a pod run that asks this and that a plugin refused, where the profile
/// tells the plugins nothing.
#[must_use]
pub fn hint(plugin: Plugin, ledger: &Ledger, ask: Ask, change: &Change) -> Hint {
    hint_by(&Arguments::default(), plugin, ledger, ask, change)
}

/// The same where the profile tells them this.
#[must_use]
pub fn hint_by(
    arguments: &Arguments,
    plugin: Plugin,
    ledger: &Ledger,
    ask: Ask,
    change: &Change,
) -> Hint {
    match change {
        Change::Asked(_) | Change::PassedOver(_) | Change::Invited(_) => return Hint::Yes,
        Change::Overdue => return Hint::Vain,
        _ if !change.concerns().contains(plugin) => return Hint::No,
        _ if matches!(plugin, Plugin::Extender | Plugin::Other) => return Hint::Yes,
        _ => {}
    }
    let asked = Asked { arguments, plugin, ledger, ask };
    if arguments.reserves {
        if reservations::may_cure(&asked, change) {
            return Hint::Yes;
        }
        if reservations::is_elsewhere(&asked, change) {
            return Hint::No;
        }
    }
    match change {
        Change::Node { old, new } => nodes::hint(&asked, old.as_deref(), new.as_deref()),
        Change::Placed { old, new } => pods::placed(&asked, old.as_deref(), new.as_deref()),
        Change::Own { old, new, .. } => pods::own(&asked, old, new),
        Change::Namespace => Hint::Missed(Missed::NamespaceLabels),
        Change::Owners(namespace) => {
            let own = ledger.terms.crowds.namespace_of(ask.identity, &ledger.symbols);
            let may = *own == **namespace && asked.is_spread_by_default();
            Hint::missed_when(may, Missed::Owners)
        }
        Change::Storage { old, new } => storage::hint(plugin, ledger, ask, old, new),
        Change::Load { node, before } => loads::hint(&asked, node, before),
        Change::Layout(node) => cpus::hint(&asked, Some(node)),
        Change::Outside(_)
        | Change::Asked(_)
        | Change::PassedOver(_)
        | Change::Invited(_)
        | Change::Overdue => Hint::No,
    }
}

/// Who is asked, and about which pod.
struct Asked<'a> {
    arguments: &'a Arguments,
    plugin: Plugin,
    ledger: &'a Ledger,
    ask: Ask,
}

/// A rule by which a pod must be spread, its own or one of the profile.
struct Rule<'a> {
    topology_key: &'a str,
    /// Labels of the pods that are counted.
    pods: &'a Selector,
    honours_affinity: bool,
    honours_taints: bool,
}

impl<'a> Asked<'a> {
    /// Whether the profile says how the pod must be spread, where services and controllers know of
    /// others that are like it.
    fn is_spread_by_default(&self) -> bool {
        let binds = self.arguments.spread.defaults.iter().any(|rule| rule.binds);
        binds && self.ledger.terms.told_spread(self.ask.spread).0.is_empty()
    }

    /// The rules by which the pod must be spread.
    fn rules(&self) -> Vec<Rule<'a>> {
        let terms = &self.ledger.terms;
        let own = &terms.told_spread(self.ask.spread).0;
        let own = own.iter().filter(|rule| rule.binds).map(|rule| Rule {
            topology_key: &rule.topology_key,
            pods: &rule.pods.labels,
            honours_affinity: rule.honours_affinity,
            honours_taints: rule.honours_taints,
        });
        let like = self.ask.like.filter(|_| self.is_spread_by_default());
        let like = like.and_then(|like| terms.crowds.selector(like).0.first());
        let defaults = like.into_iter().flat_map(|like| {
            let binding = self.arguments.spread.defaults.iter().filter(|rule| rule.binds);
            binding.map(|rule| Rule {
                topology_key: &rule.topology_key,
                pods: &like.labels,
                honours_affinity: true,
                honours_taints: false,
            })
        });
        own.chain(defaults).collect()
    }
}

#[cfg(test)]
mod tests;
