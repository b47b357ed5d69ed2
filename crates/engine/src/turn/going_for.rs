//! Who goes for whom, seen from both sides.

use std::collections::{BTreeMap, BTreeSet};

use crate::fact::Uid;

/// Pods that go for others: by for whom, and by who goes.
#[derive(Debug, Default)]
pub(super) struct GoingFor {
    leavers: BTreeMap<Uid, BTreeSet<Uid>>,
    askers: BTreeMap<Uid, BTreeSet<Uid>>,
}

impl GoingFor {
    /// These go for a pod, and nobody else does.
    pub(super) fn put(&mut self, asker: &Uid, leavers: BTreeSet<Uid>) {
        self.remove(asker);
        for leaver in &leavers {
            self.askers.entry(leaver.clone()).or_default().insert(asker.clone());
        }
        self.leavers.insert(asker.clone(), leavers);
    }

    /// Nobody goes for a pod any longer; who did, where it was there.
    pub(super) fn remove(&mut self, asker: &Uid) -> Option<BTreeSet<Uid>> {
        let leavers = self.leavers.remove(asker)?;
        for leaver in &leavers {
            if let Some(askers) = self.askers.get_mut(leaver) {
                askers.remove(asker);
                if askers.is_empty() {
                    self.askers.remove(leaver);
                }
            }
        }
        Some(leavers)
    }

    /// Whether it was said who goes for a pod.
    pub(super) fn has(&self, asker: &Uid) -> bool {
        self.leavers.contains_key(asker)
    }

    /// Who goes for a pod.
    pub(super) fn leavers(&self, asker: &Uid) -> impl Iterator<Item = &Uid> {
        self.leavers.get(asker).into_iter().flatten()
    }

    /// For whom a pod goes.
    pub(super) fn askers(&self, leaver: &Uid) -> impl Iterator<Item = &Uid> {
        self.askers.get(leaver).into_iter().flatten()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.leavers.is_empty() && self.askers.is_empty()
    }
}
