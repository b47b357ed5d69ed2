//! Who refused a pod, as the queue remembers it.

use super::Plugins;

/// Who refused a pod. Nobody did where the attempt failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Rejection {
    /// They said that no node can take it.
    pub unschedulable: Plugins,
    /// They wait for something, and have it tried at once when that is there.
    pub pending: Plugins,
    /// Whether no node would take it whoever left it.
    pub is_hopeless: bool,
}

impl Rejection {
    pub(super) fn is_error(self) -> bool {
        self.unschedulable.is_empty() && self.pending.is_empty()
    }

    /// All of them.
    pub(super) fn plugins(self) -> Plugins {
        self.unschedulable.and(self.pending)
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            unschedulable: self.unschedulable.and(other.unschedulable),
            pending: self.pending.and(other.pending),
            is_hopeless: self.is_hopeless && other.is_hopeless,
        }
    }
}
