//! What a controller did to pods and has not yet seen back.
//!
//! A watch lags behind the writes. A controller that counts pods in its store only would
//! make a pod twice. So each write leaves a claim, which holds until the watch shows the
//! write's effect, the pod vanishes, or a time has passed after which the effect cannot be
//! on its way any more. The time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chassis::controller::Mailbox;
use chassis::informer::{Change, Informer};
use chassis::key::Key;
use chassis::store::SharedStore;
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::facts::{Packed, PodFact, TRACKING_FINALIZER, Templated};

/// How long a claim holds at most: longer than any watch lags that is not broken.
const HOLDS: SignedDuration = SignedDuration::from_mins(5);

/// The open claims of one workload, by the uids of its pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    created: BTreeMap<Box<str>, (Timestamp, Option<u32>)>,
    deleted: BTreeMap<Box<str>, Timestamp>,
    released: BTreeMap<Box<str>, Timestamp>,
    /// How many creations are under way.
    under_way: usize,
    /// The pods that the watch showed meanwhile: it may be faster than the answer.
    seen: BTreeSet<Box<str>>,
}

impl Claims {
    /// So many pods are about to be made.
    pub fn send(&mut self, count: usize) {
        self.under_way = self.under_way.saturating_add(count);
    }

    /// So many of them were, or were refused; those that were made are claimed by now.
    pub fn answered(&mut self, count: usize) {
        self.under_way = self.under_way.saturating_sub(count);
        if self.under_way == 0 {
            self.seen.clear();
        }
    }

    /// A pod was made, with this index in its job. One that was seen before the answer came
    /// needs no claim, even if it is gone again.
    pub fn create(&mut self, uid: &str, index: Option<u32>, now: Timestamp) {
        if !self.seen.contains(uid) {
            self.created.insert(uid.into(), (now, index));
        }
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
        if self.under_way > 0 {
            self.seen.insert(uid.into());
        }
    }

    /// The pod is gone, and all claims on it.
    pub fn saw_gone(&mut self, uid: &str) {
        self.saw(uid);
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

    /// When the first claim is too old, if nothing settles it before: nobody else tells then.
    #[must_use]
    pub fn expires_in(&self, now: Timestamp) -> Option<Duration> {
        let created = self.created.values().map(|(since, _)| since);
        let all = created.chain(self.deleted.values()).chain(self.released.values());
        let held = now.duration_since(*all.min()?);
        Some(Duration::try_from(HOLDS.saturating_sub(held)).unwrap_or_default())
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
        let settled = self.deleted.is_empty() && self.released.is_empty();
        self.created.is_empty() && settled && self.under_way == 0
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

/// What the controller of workloads that make pods reads and claims.
pub struct Watched<K> {
    /// The workloads.
    pub workloads: SharedStore<Packed<K>>,
    /// The pods, of whoever they are.
    pub pods: SharedStore<PodFact>,
    /// What was done to them and has not been seen yet.
    pub claims: Arc<ClaimBook>,
    /// What must be in before the controller works.
    pub synced: Vec<CancellationToken>,
}

/// Lets `mailbox` hear of every workload of kind `K` that changes, or whose pods do.
pub fn watch<K: Templated + DeserializeOwned + Send + Sync + 'static>(
    own: &mut Informer<Packed<K>>,
    pods: &mut Informer<PodFact>,
    mailbox: &Arc<Mailbox>,
) -> Watched<K> {
    let claims = Arc::new(ClaimBook::default());
    let mut synced = Vec::new();
    let workloads = own.store(&mut synced);
    let (inbox, book) = (mailbox.clone(), claims.clone());
    own.subscribe(move |change| {
        if change.new.is_none() {
            book.forget(change.key);
        }
        inbox.add(change.key.clone());
    });
    let store = pods.store(&mut synced);
    let (inbox, book, known) = (mailbox.clone(), claims.clone(), workloads.clone());
    pods.subscribe(move |change| {
        concerned(change, &known, &book).into_iter().for_each(|key| inbox.add(key));
    });
    Watched { workloads, pods: store, claims, synced }
}

/// The workloads of kind `K` that a change of a pod concerns; the claims on the pod are
/// settled on the way.
fn concerned<K: Templated + DeserializeOwned + Send + 'static>(
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

    #[test]
    fn a_pod_that_is_seen_before_the_answer_comes_is_not_claimed() {
        let check = |story: &str, want| {
            let mut claims = Claims::default();
            for word in story.split_whitespace() {
                match word {
                    "send" => claims.send(1),
                    "answered" => claims.answered(1),
                    "made" => claims.create("a", None, at(0)),
                    "saw" => claims.saw("a"),
                    "other" => claims.saw("b"),
                    _ => claims.saw_gone("a"),
                }
            }
            assert_eq!((claims.unseen(), claims.is_empty()), want, "{story}");
        };
        check("send made answered", (1, false));
        check("send saw made answered", (0, true));
        check("send saw gone made answered", (0, true));
        check("send gone made answered", (0, true));
        check("send other made answered", (1, false));
        check("send made answered saw", (0, true));
        check("send made answered gone", (0, true));
        check("send answered", (0, true));
        // A book must not forget that a creation is under way.
        check("send", (0, false));
        check("send send saw answered made answered", (0, true));
    }

    #[test]
    fn the_oldest_claim_expires_first() {
        let mut claims = Claims::default();
        let left = |claims: &Claims, now| claims.expires_in(at(now)).map(|left| left.as_secs());
        assert_eq!(left(&claims, 0), None);
        claims.create("a", None, at(50));
        assert_eq!(left(&claims, 60), Some(290));
        claims.delete("b", at(20));
        claims.release("c", at(70));
        assert_eq!((left(&claims, 100), left(&claims, 320)), (Some(220), Some(0)));
        claims.settle(&[], at(320));
        assert_eq!(left(&claims, 320), Some(30));
        assert_eq!(left(&claims, 9999), Some(0));
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
