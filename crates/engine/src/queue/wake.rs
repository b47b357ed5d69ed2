//! Which change can cure which refusal.
//!
//! Each plugin is asked about a change and a pod that it refused, and answers from both alone. The
//! answers are those of kube-scheduler's queueing hints; where it is known to wake a pod in vain,
//! or to leave one asleep that could run, the answer says so.

mod nodes;
mod pods;

use super::change::Change;
use crate::ledger::{Ask, Ledger};
use crate::plugin::Plugin;

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
}

impl Hint {
    fn when(may: bool) -> Self {
        if may { Self::Yes } else { Self::No }
    }

    /// This answer, or another where this is a no.
    fn or(self, other: impl FnOnce() -> Self) -> Self {
        if self == Self::No { other() } else { self }
    }

    fn missed_when(may: bool, missed: Missed) -> Self {
        if may { Self::Missed(missed) } else { Self::No }
    }
}

/// Whether a change may let a pod run that asks this and that a plugin refused.
#[must_use]
pub fn hint(plugin: Plugin, ledger: &Ledger, ask: Ask, change: &Change) -> Hint {
    match change {
        Change::Node { old, new } => {
            nodes::hint(plugin, ledger, ask, old.as_deref(), new.as_deref())
        }
        Change::Placed { old, new } => {
            pods::placed(plugin, ledger, ask, old.as_deref(), new.as_deref())
        }
        Change::Own { old, new, .. } => pods::own(plugin, ledger, ask, old, new),
        Change::Asked(_) => Hint::Yes,
        Change::Overdue => Hint::Vain,
        Change::Namespace => match plugin {
            Plugin::InterPodAffinity => Hint::Missed(Missed::NamespaceLabels),
            Plugin::Extender | Plugin::Other => Hint::Yes,
            _ => Hint::No,
        },
        Change::Storage(_) => Hint::when(matches!(
            plugin,
            Plugin::VolumeRestrictions
                | Plugin::NodeVolumeLimits
                | Plugin::VolumeBinding
                | Plugin::VolumeZone
                | Plugin::Extender
                | Plugin::Other
        )),
    }
}
