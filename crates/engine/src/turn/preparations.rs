//! Pods that have a node and whose volumes are on their way.

use std::collections::{BTreeMap, BTreeSet};

use crate::fact::{PodRef, StorageFact, Uid};
use crate::ledger::Ledger;
use crate::moment::Moment;
use crate::plugins::volume_binding::{Failure, Preparation, Progress};

/// Pods that have a node and whose volumes are on their way.
#[derive(Debug, Clone, Default)]
pub(super) struct Preparations {
    pods: BTreeMap<Uid, Entry>,
    deadlines: BTreeSet<(Moment, Uid)>,
}

#[derive(Debug, Clone)]
struct Entry {
    pod: PodRef,
    attempts: u32,
    preparation: Preparation,
    until: Moment,
}

/// A preparation that came to its end.
pub(super) struct Ended {
    pub(super) pod: PodRef,
    pub(super) attempts: u32,
    /// The node, or why it is none.
    pub(super) outcome: Result<Box<str>, Failure>,
}

impl Preparations {
    /// Remembers what was begun for a pod. What was begun for it before is given up.
    pub(super) fn begin(
        &mut self,
        pod: PodRef,
        attempts: u32,
        preparation: Preparation,
        until: Moment,
        ledger: &mut Ledger,
    ) {
        self.drop(&pod.uid, ledger);
        self.deadlines.insert((until, pod.uid.clone()));
        self.pods.insert(pod.uid.clone(), Entry { pod, attempts, preparation, until });
    }

    /// Gives up what was begun for a pod, and says whether anything was.
    pub(super) fn drop(&mut self, uid: &Uid, ledger: &mut Ledger) -> bool {
        let entry = self.take(uid);
        let was_begun = entry.is_some();
        if let Some(entry) = entry {
            entry.preparation.end(ledger);
        }
        was_begun
    }

    /// What prepares a pod is written, and made these versions.
    pub(super) fn written(&mut self, uid: &Uid, versions: &[u64]) {
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.preparation.written(versions);
        }
    }

    fn take(&mut self, uid: &Uid) -> Option<Entry> {
        let entry = self.pods.remove(uid)?;
        self.deadlines.remove(&(entry.until, uid.clone()));
        Some(entry)
    }

    /// The pods that a fact of storage may bring further.
    pub(super) fn concerned(&self, fact: &StorageFact) -> Vec<Uid> {
        let concerned = |entry: &&Entry| entry.preparation.concerns(fact);
        self.pods.values().filter(concerned).map(|entry| entry.pod.uid.clone()).collect()
    }

    /// The pods on a node.
    pub(super) fn on(&self, node: &str) -> Vec<Uid> {
        let there = |entry: &&Entry| entry.preparation.node_name() == node;
        self.pods.values().filter(there).map(|entry| entry.pod.uid.clone()).collect()
    }

    /// Those of some pods that are ready, or never will be.
    pub(super) fn ended(&mut self, uids: &[Uid], ledger: &mut Ledger) -> Vec<Ended> {
        let mut ended = Vec::new();
        for uid in uids {
            let Some(entry) = self.pods.get_mut(uid) else { continue };
            let outcome = match entry.preparation.progress(ledger) {
                Progress::Waiting => continue,
                Progress::Ready => Ok(entry.preparation.node_name().into()),
                Progress::Failed(failure) => Err(failure),
            };
            ended.extend(self.end(uid, outcome, ledger));
        }
        ended
    }

    /// Those that took too long.
    pub(super) fn late(&mut self, now: Moment, ledger: &mut Ledger) -> Vec<Ended> {
        let mut ended = Vec::new();
        while self.deadlines.first().is_some_and(|(until, _)| *until <= now) {
            let Some((_, uid)) = self.deadlines.pop_first() else { break };
            ended.extend(self.end(&uid, Err(Failure::Late), ledger));
        }
        ended
    }

    fn end(
        &mut self,
        uid: &Uid,
        outcome: Result<Box<str>, Failure>,
        ledger: &mut Ledger,
    ) -> Option<Ended> {
        let Entry { pod, attempts, preparation, .. } = self.take(uid)?;
        preparation.end(ledger);
        Some(Ended { pod, attempts, outcome })
    }

    /// When the first of them takes too long.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.deadlines.first().map(|(until, _)| *until)
    }
}
