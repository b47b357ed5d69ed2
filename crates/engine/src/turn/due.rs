//! Decisions that wait to be asked for, in their order: thousands where a large gang gets its nodes. Whether there is
//! one for a pod is known without a look at all of them.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Decision;
use crate::fact::Uid;

/// Decisions that wait to be asked for.
#[derive(Default)]
pub(super) struct Due {
    line: VecDeque<Decision>,
    /// How many there are for each pod.
    of: FxHashMap<Uid, usize>,
}

impl Due {
    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    pub(super) fn push(&mut self, decision: Decision) {
        *self.of.entry(decision.pod.uid.clone()).or_default() += 1;
        self.line.push_back(decision);
    }

    pub(super) fn extend(&mut self, decisions: impl IntoIterator<Item = Decision>) {
        decisions.into_iter().for_each(|decision| self.push(decision));
    }

    pub(super) fn pop(&mut self) -> Option<Decision> {
        let decision = self.line.pop_front()?;
        if let Some(count) = self.of.get_mut(&decision.pod.uid) {
            *count -= 1;
            if *count == 0 {
                self.of.remove(&decision.pod.uid);
            }
        }
        Some(decision)
    }

    /// Drops those for a pod; whether there was any.
    pub(super) fn drop_of(&mut self, uid: &Uid) -> bool {
        let has_any = self.of.remove(uid).is_some();
        if has_any {
            self.line.retain(|decision| decision.pod.uid != *uid);
        }
        has_any
    }

    /// Drops those for any of these pods; for which of them there was any.
    pub(super) fn drop_all(&mut self, uids: impl Iterator<Item = Uid>) -> FxHashSet<Uid> {
        let dropped: FxHashSet<Uid> = uids.filter(|uid| self.of.remove(uid).is_some()).collect();
        if !dropped.is_empty() {
            self.line.retain(|decision| !dropped.contains(&decision.pod.uid));
        }
        dropped
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Decision> {
        self.line.iter()
    }
}
