//! Lots that quotas refused, gone through in their order, some in each turn.
//!
//! Of each quota only the next lot is in line, so that to begin costs as much as there are quotas, however many
//! lots each has refused.

use std::collections::{BTreeMap, BTreeSet};

use crate::ledger::Charged;
use crate::queue::{InTurn, Queue};

/// Quotas whose lots are gone through.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// The next lots, with the quotas that refused them.
    line: BTreeMap<InTurn, Box<str>>,
    /// The same by quota.
    next: BTreeMap<Box<str>, InTurn>,
    /// Quotas whose lots are gone through once more afterwards.
    again: BTreeSet<Box<str>>,
}

/// A lot whose turn it is.
#[derive(Debug)]
#[must_use]
pub(super) struct Step {
    at: InTurn,
    quota: Box<str>,
}

impl Step {
    pub(super) fn lot(&self) -> Charged {
        self.at.1
    }
}

impl Sweep {
    /// Whether nothing is left to go through.
    pub(super) fn is_done(&self) -> bool {
        self.line.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Goes through the lots of a quota from the first one on, also where it is on its way. Whether there are any.
    pub(super) fn begin(&mut self, quota: &str, queue: &Queue) -> bool {
        let Some(first) = queue.lot_refused_by(quota, None) else { return false };
        if let Some(old) = self.next.insert(quota.into(), first.clone()) {
            self.line.remove(&old);
        }
        self.line.insert(first.clone(), quota.into());
        true
    }

    /// The same, where it is on its way once that is done: whoever comes last is looked at, however often this is
    /// said.
    pub(super) fn begin_or_repeat(&mut self, quota: &str, queue: &Queue) {
        if self.next.contains_key(quota) {
            self.again.insert(quota.into());
        } else {
            self.begin(quota, queue);
        }
    }

    /// The next lot; to be followed by [`Self::go_on`].
    pub(super) fn take(&mut self) -> Option<Step> {
        let (at, quota) = self.line.pop_first()?;
        self.next.remove(&quota);
        Some(Step { at, quota })
    }

    /// What was to be done with a lot is done, which may have changed what comes after it.
    pub(super) fn go_on(&mut self, Step { at, quota }: Step, queue: &Queue) {
        if let Some(next) = queue.lot_refused_by(&quota, Some(&at)) {
            self.line.insert(next.clone(), quota.clone());
            self.next.insert(quota, next.clone());
        } else if self.again.remove(&quota) {
            self.begin(&quota, queue);
        }
    }
}
