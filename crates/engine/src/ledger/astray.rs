//! Pods that are bound to nodes which are not there.
//!
//! Anybody can create a pod that names any node. Such a pod takes nothing of anybody, so it has no
//! place in the table of nodes; it gets one when its node comes.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::Ledger;
use crate::fact::Uid;

/// The pods that are bound to nodes which are not there, by the names of these.
#[derive(Debug, Clone, Default)]
pub(super) struct Astray(FxHashMap<Box<str>, BTreeSet<Uid>>);

impl Astray {
    /// A pod was bound to a node that is not there, and is bound to another one now, or was to none.
    pub(super) fn follow(&mut self, uid: &Uid, old: Option<&str>, new: Option<&str>) {
        if old == new {
            return;
        }
        if let Some(old) = old
            && let Some(pods) = self.0.get_mut(old)
        {
            pods.remove(uid);
            if pods.is_empty() {
                self.0.remove(old);
            }
        }
        if let Some(new) = new {
            self.0.entry(new.into()).or_default().insert(uid.clone());
        }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Ledger {
    /// A node has come: the pods that are bound to it are on it.
    pub(super) fn settle_astray(&mut self, name: &str) {
        let Some(node) = self.nodes.find(name) else { return };
        for uid in self.astray.0.remove(name).unwrap_or_default() {
            let Some(row) = self.pods.get_mut(&uid) else { continue };
            row.astray = None;
            row.bound = Some(node);
            let (pod, priority) = (row.passing(), row.priority);
            self.occupy(node, pod);
            self.residents.arrive(node, priority, &uid);
        }
    }

    /// Whether every pod that is bound is bound to a node that is or was there.
    #[must_use]
    pub fn is_none_astray(&self) -> bool {
        self.astray.is_empty()
    }
}
