//! The pods of each node, those of the lowest priority first.

use super::{Ledger, NodeIndex};
use crate::fact::Uid;

/// A pod on a node, by what decides whether it has to give way.
pub type Resident = (i32, Uid);

/// The pods of each node.
#[derive(Debug, Clone, Default)]
pub struct Residents(Vec<Vec<Resident>>);

impl Residents {
    /// A pod is on a node.
    pub(crate) fn arrive(&mut self, node: NodeIndex, priority: i32, uid: &Uid) {
        if self.0.len() <= node.get() {
            self.0.resize_with(node.get() + 1, Vec::new);
        }
        let own = &mut self.0[node.get()];
        let resident = (priority, uid.clone());
        if let Err(place) = own.binary_search(&resident) {
            own.insert(place, resident);
        }
    }

    /// It is there no longer.
    pub(crate) fn leave(&mut self, node: NodeIndex, priority: i32, uid: &Uid) {
        let Some(own) = self.0.get_mut(node.get()) else { return };
        let place = own.binary_search_by(|(other, name)| (other, name).cmp(&(&priority, uid)));
        if let Ok(place) = place {
            own.remove(place);
        }
        if own.is_empty() {
            // A node that is gone leaves nothing behind.
            *own = Vec::new();
        }
    }

    /// The pods on a node.
    #[must_use]
    pub fn on(&self, node: NodeIndex) -> &[Resident] {
        self.0.get(node.get()).map_or(&[], Vec::as_slice)
    }

    /// Those of them whose priority is below another one.
    #[must_use]
    pub fn below(&self, node: NodeIndex, priority: i32) -> &[Resident] {
        let all = self.on(node);
        &all[..all.partition_point(|(own, _)| *own < priority)]
    }

    /// Whether no node has a pod.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Vec::is_empty)
    }
}

impl Ledger {
    /// A copy for questions about nodes, as [`Self::snapshot`] is, with all pods of one node.
    #[must_use]
    pub fn snapshot_with_pods_on(&self, node: NodeIndex) -> Self {
        let mut copy = self.snapshot(None);
        for (priority, uid) in self.residents.on(node) {
            let Some(row) = self.pods.get(uid) else { continue };
            copy.residents.arrive(node, *priority, uid);
            copy.pods.insert(uid.clone(), row.clone());
        }
        copy
    }
}
