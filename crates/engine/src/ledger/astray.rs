//! Pods that are bound to nodes which are not there.
//!
//! Anybody can create a pod that names any node. Such a pod takes nothing of anybody, so it has no
//! place in the table of nodes; it gets one when its node comes.

use super::Ledger;

impl Ledger {
    /// A node has come: the pods that are bound to it are on it.
    pub(super) fn settle_astray(&mut self, name: &str) {
        let Some(node) = self.nodes.find(name) else { return };
        for uid in self.astray.take(name) {
            let Some(row) = self.pods.get_mut(&uid) else { continue };
            row.astray = None;
            row.bound = Some(node);
            let (pod, priority) = (row.passing(), row.priority);
            self.move_in(node, &uid, pod, priority);
        }
    }

    /// Whether every pod that is bound is bound to a node that is or was there.
    #[cfg(test)]
    pub(crate) fn is_none_astray(&self) -> bool {
        self.astray.is_empty()
    }
}
