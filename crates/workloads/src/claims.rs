//! What a controller did to pods and has not yet seen back.
//!
//! A watch lags behind the writes. A controller that counts pods in its store only would
//! make a pod twice. So each write leaves a claim, which holds until the watch shows the
//! write's effect, the pod vanishes, or a time has passed after which the effect cannot be
//! on its way any more. The time is an argument.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use chassis::key::Key;
use chassis::store::SharedStore;
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;

use crate::facts::{Packed, PodFact, TRACKING_FINALIZER, Templated};
use crate::informer::Change;

/// How long a claim holds at most: longer than any watch lags that is not broken.
const HOLDS: SignedDuration = SignedDuration::from_mins(5);

/// The open claims of one workload, by the uids of its pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    created: BTreeMap<Box<str>, (Timestamp, Option<u32>)>,
    deleted: BTreeMap<Box<str>, Timestamp>,
    released: BTreeMap<Box<str>, Timestamp>,
}

impl Claims {
    /// A pod was made, with this index in its job.
    pub fn create(&mut self, uid: &str, index: Option<u32>, now: Timestamp) {
        self.created.insert(uid.into(), (now, index));
    }

    /// A pod was deleted.
    pub fn delete(&mut self, uid: &str, now: Timestamp) {
        self.deleted.insert(uid.into(), now);
    }

    /// The tracking finalizer of a pod was removed.
    pub fn release(&mut self, uid: &str, now: Timestamp) {
        self.released.insert(uid.into(), now);
    }

    /// The watch showed a pod, or that it is gone: whatever it shows, it was made.
    pub fn saw(&mut self, uid: &str) {
        self.created.remove(uid);
    }

    /// The pod is gone, and all claims on it.
    pub fn saw_gone(&mut self, uid: &str) {
        self.created.remove(uid);
        self.deleted.remove(uid);
        self.released.remove(uid);
    }

    /// Drops the claims whose effect these pods show, and those that are too old.
    pub fn settle<'a>(&mut self, pods: impl IntoIterator<Item = &'a PodFact>, now: Timestamp) {
        for pod in pods {
            self.created.remove(&pod.meta.uid);
            if pod.is_going() {
                self.deleted.remove(&pod.meta.uid);
            }
            if !pod.meta.has_finalizer(TRACKING_FINALIZER) {
                self.released.remove(&pod.meta.uid);
            }
        }
        let fresh = |since: &Timestamp| now.duration_since(*since) < HOLDS;
        self.created.retain(|_, (since, _)| fresh(since));
        self.deleted.retain(|_, since| fresh(since));
        self.released.retain(|_, since| fresh(since));
    }

    /// How many pods were made and not seen yet.
    #[must_use]
    pub fn unseen(&self) -> usize {
        self.created.len()
    }

    /// The indexes of the pods that were made and not seen yet.
    pub fn unseen_indexes(&self) -> impl Iterator<Item = u32> {
        self.created.values().filter_map(|(_, index)| *index)
    }

    /// Whether we deleted this pod.
    #[must_use]
    pub fn is_deleted(&self, uid: &str) -> bool {
        self.deleted.contains_key(uid)
    }

    /// Whether we removed the tracking finalizer of this pod.
    #[must_use]
    pub fn is_released(&self, uid: &str) -> bool {
        self.released.contains_key(uid)
    }

    /// Whether nothing is claimed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.created.is_empty() && self.deleted.is_empty() && self.released.is_empty()
    }
}

/// The claims of every workload of one kind.
#[derive(Debug, Default)]
pub struct ClaimBook(Mutex<BTreeMap<Key, Claims>>);

impl ClaimBook {
    /// Changes the claims of one workload.
    pub fn with<R>(&self, workload: &Key, change: impl FnOnce(&mut Claims) -> R) -> R {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let claims = book.entry(workload.clone()).or_default();
        let result = change(claims);
        if claims.is_empty() {
            book.remove(workload);
        }
        result
    }

    /// Forgets a workload.
    pub fn forget(&self, workload: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(workload);
    }
}

/// The workloads of kind `K` that a change of a pod concerns; the claims on the pod are
/// settled on the way.
pub fn concerned<K: Templated + DeserializeOwned + Send + 'static>(
    change: &Change<'_, PodFact>,
    workloads: &SharedStore<Packed<K>>,
    book: &ClaimBook,
) -> Vec<Key> {
    let mut keys = Vec::new();
    for pod in change.states() {
        let namespace = pod.meta.key.namespace();
        if let Some(owner) = pod.controller_of(K::GROUP, K::KIND) {
            let key = Key::namespaced(namespace, &owner.name);
            book.with(&key, |claims| match change.new {
                Some(_) => claims.saw(&pod.meta.uid),
                None => claims.saw_gone(&pod.meta.uid),
            });
            keys.push(key);
        } else if pod.meta.controller().is_none() && change.new.is_some() {
            let workloads = workloads.read();
            let matching = workloads
                .in_namespace(namespace)
                .filter(|(_, own)| pod.meta.labels.match_selector(&own.selector));
            keys.extend(matching.map(|(key, _)| key.clone()));
        }
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::facts::testing::{at, pod};

    #[test]
    fn a_claim_holds_until_its_effect_is_seen_or_too_old() {
        let check = |pods: &[PodFact], seconds, want: (usize, bool, bool)| {
            let mut claims = Claims::default();
            claims.create("uid-a", Some(3), at(0));
            claims.delete("uid-b", at(0));
            claims.release("uid-c", at(0));
            claims.settle(pods, at(seconds));
            let got = (claims.unseen(), claims.is_deleted("uid-b"), claims.is_released("uid-c"));
            assert_eq!(got, want);
        };
        check(&[], 1, (1, true, true));
        check(&[], 299, (1, true, true));
        check(&[], 300, (0, false, false));
        check(&[pod("a", "")], 1, (0, true, true));
        check(&[pod("b", "")], 1, (1, true, true));
        check(&[pod("b", "going")], 1, (1, false, true));
        check(&[pod("c", "tracked")], 1, (1, true, true));
        check(&[pod("c", "")], 1, (1, true, false));
    }

    proptest! {
        /// Whatever order creations and sightings come in, a pod is counted once.
        #[test]
        fn no_pod_is_counted_twice(made in prop::collection::vec(0..9u8, 0..20), cut in 0..20usize) {
            let mut claims = Claims::default();
            let mut seen: Vec<PodFact> = Vec::new();
            for (turn, name) in made.iter().enumerate() {
                claims.create(&format!("uid-{name}"), None, at(0));
                if turn >= cut {
                    seen.push(pod(&name.to_string(), ""));
                }
            }
            claims.settle(&seen, at(1));
            let visible: std::collections::BTreeSet<_> =
                seen.iter().map(|pod| pod.meta.uid.clone()).collect();
            let all: std::collections::BTreeSet<_> = made.iter().collect();
            prop_assert_eq!(visible.len() + claims.unseen(), all.len());
        }
    }
}
