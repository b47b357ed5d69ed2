//! What changed while pods are in flight: they are held against it when they come back refused.

use super::{Change, Entry, Queue, Wake, Woken, arrivals};
use crate::fact::Uid;
use crate::ledger::Ledger;

/// How many changes are kept. Beyond that the older half is forgotten, and pods that were popped
/// before it are tried again, whatever it was.
pub(super) const CHANGES_MAX: usize = 8192;

impl Queue {
    pub(super) fn log_end(&self) -> u64 {
        self.log_start + self.log.len() as u64
    }

    /// Keeps a change for the pods in flight.
    pub(super) fn keep_change(&mut self, change: Change) {
        self.log.push_back(change);
        if self.log.len() > CHANGES_MAX {
            let forgotten = self.log.len() / 2;
            self.log.drain(..forgotten);
            self.log_start += forgotten as u64;
        }
    }

    /// How what changed since a pod was popped wakes it.
    pub(super) fn woken_since(
        &mut self,
        since: u64,
        uid: &Uid,
        entry: &Entry,
        ledger: &Ledger,
    ) -> Option<Woken> {
        let rejection = entry.rejection;
        // No change does more.
        let most = match rejection.pending.is_empty() {
            true => Wake::AfterBackoff,
            false => Wake::AtOnce,
        };
        let Some(first) = since.checked_sub(self.log_start) else {
            return Some(Woken { wake: most, cause: arrivals::FORGOTTEN });
        };
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        let (mut woken, mut weighed) = (None, 0);
        for change in self.log.iter().skip(first).filter(|change| concerns(change, uid)) {
            weighed += 1;
            let Some(wake) = self.wake_any(entry, rejection, ledger, change) else { continue };
            woken = Some(Woken { wake, cause: change.cause() });
            if wake == most {
                break;
            }
        }
        self.changes_weighed += weighed;
        woken
    }

    /// Drops changes that no pod in flight has to be held against.
    pub(super) fn forget_changes(&mut self) {
        let needed = self.flights.first().map_or(self.log_end(), |(since, _)| *since);
        while self.log_start < needed {
            self.log.pop_front();
            self.log_start += 1;
        }
    }
}

/// Whether a change is any business of a pod: those of other pods without a node are not.
fn concerns(change: &Change, pod: &Uid) -> bool {
    change.pod().is_none_or(|only| only == pod)
}
