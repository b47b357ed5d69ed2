//! The writes to pods that several controllers make, carried out.

use std::sync::Arc;
use std::time::Duration;

use api::OwnerReference;
use chassis::client::{Client, DeleteOptions, Error, Patch, ResourceType};
use chassis::events::{Recorder, Subject};
use chassis::key::Key;
use chassis::store::SharedStore;
use futures::future::join_all;
use serde_json::Value;

use crate::claims::ClaimBook;
use crate::facts::{PodFact, TRACKING_FINALIZER};
use crate::failure::{Failure, unless_gone};
use crate::write;

/// How many pods one look at a workload makes or deletes at most.
pub const BURST_MAX: usize = 500;

/// A number of pods as statuses write it.
#[must_use]
pub fn count(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}

/// The hand that writes pods for the workloads of one kind.
#[derive(Clone)]
pub struct PodHand {
    client: Client,
    store: SharedStore<PodFact>,
    claims: Arc<ClaimBook>,
    events: Recorder,
}

/// A pod to make, with its index in a job.
pub struct Order {
    /// The pod as the server takes it.
    pub body: Value,
    /// Its index.
    pub index: Option<u32>,
}

/// How far a burst of creations got.
#[derive(Debug, Default)]
pub struct Made {
    /// How many pods were made.
    pub count: usize,
    /// Why no more were; `None` when all were made, or the namespace is going.
    pub refused: Option<Error>,
}

impl PodHand {
    /// A hand that leaves claims in `claims` and tells users through `events`.
    pub fn new(
        client: &Client,
        store: SharedStore<PodFact>,
        claims: &Arc<ClaimBook>,
        events: Recorder,
    ) -> Self {
        Self { client: client.clone(), store, claims: claims.clone(), events }
    }

    /// Makes pods in batches that double; after a batch with a failure no more are made.
    pub async fn create(&self, owner: &Subject, orders: Vec<Order>) -> Made {
        let mut made = Made::default();
        let workload = &owner.key;
        let access =
            self.client.access::<PodFact>(ResourceType::of::<api::Pod>(), workload.namespace());
        let mut rest = orders.as_slice();
        for size in write::slow_start(orders.len()) {
            let (batch, later) = rest.split_at(size);
            rest = later;
            // Left before the pods can be seen: the watch may be faster than the answers.
            self.claims.with(workload, |claims| claims.send(size));
            let answers = join_all(batch.iter().map(|order| access.create(&order.body))).await;
            for (order, answer) in batch.iter().zip(answers) {
                match answer {
                    Ok(pod) => {
                        made.count += 1;
                        self.claim_created(workload, &pod, order.index);
                        let message = format!("Created pod: {}", pod.meta.key.name());
                        self.events.normal(owner, "SuccessfulCreate", message);
                    }
                    Err(error) => {
                        if !is_namespace_going(&error) {
                            let message = format!("Error creating: {}", error.told());
                            self.events.warning(owner, "FailedCreate", message);
                        }
                        made.refused = Some(error);
                    }
                }
            }
            self.claims.with(workload, |claims| claims.answered(size));
            if made.refused.is_some() {
                break;
            }
        }
        // A namespace that is going takes no pods; there is nothing to try again.
        made.refused = made.refused.filter(|error| !is_namespace_going(error));
        made
    }

    fn claim_created(&self, workload: &Key, pod: &PodFact, index: Option<u32>) {
        let now = self.client.clock().now();
        self.claims.with(workload, |claims| claims.create(&pod.meta.uid, index, now));
    }

    /// The pods of the workload of this uid that are there and never could be read. They must
    /// not be made a second time.
    pub fn never_read(&self, workload_uid: &str) -> Vec<Key> {
        self.store.read().never_read(workload_uid).cloned().collect()
    }

    /// How long until the oldest open claim of a workload is too old.
    pub fn next_expiry(&self, workload: &Key) -> Option<Duration> {
        let now = self.client.clock().now();
        self.claims.with(workload, |claims| claims.expires_in(now))
    }

    /// Deletes pods, and says how many went and why others did not.
    pub async fn delete(
        &self,
        owner: &Subject,
        pods: &[&PodFact],
    ) -> (Vec<Box<str>>, Option<Error>) {
        let workload = &owner.key;
        let access =
            self.client.access::<Value>(ResourceType::of::<api::Pod>(), workload.namespace());
        let deletions = pods.iter().map(|pod| {
            let options = DeleteOptions::of(&pod.meta.uid);
            let access = &access;
            async move { access.delete(pod.meta.key.name(), &options).await }
        });
        let (mut gone, mut refused) = (Vec::new(), None);
        let now = self.client.clock().now();
        for (pod, answer) in pods.iter().zip(join_all(deletions).await) {
            let is_deleted = answer.is_ok();
            match answer {
                Err(error) if !error.is_not_found() => {
                    let message = format!("Error deleting: {}", error.told());
                    self.events.warning(owner, "FailedDelete", message);
                    refused = Some(error);
                }
                _ => {
                    if is_deleted {
                        let message = format!("Deleted pod: {}", pod.meta.key.name());
                        self.events.normal(owner, "SuccessfulDelete", message);
                    }
                    gone.push(pod.meta.uid.clone());
                    if self.store.get(&pod.meta.key).is_some() {
                        self.claims.with(workload, |claims| claims.delete(&pod.meta.uid, now));
                    }
                }
            }
        }
        (gone, refused)
    }

    /// Makes a workload the managing owner of a pod, and adds a finalizer with it where the
    /// workload must see the pod before it goes. The pod as it is then comes back, and nothing
    /// where it is gone.
    ///
    /// # Errors
    /// When the pod changed meanwhile, or the request fails.
    pub async fn adopt(
        &self,
        pod: &PodFact,
        owner: &OwnerReference,
        finalizer: Option<&str>,
    ) -> Result<Option<PodFact>, Failure> {
        let meta = &pod.meta;
        let mut patch = write::adoption(&meta.uid, &meta.resource_version, &meta.owners, owner);
        if let Some(name) = finalizer {
            write::add_finalizer(&mut patch, &meta.finalizers, name);
        }
        self.patch(&meta.key, patch, "adopt pod").await
    }

    /// Takes a workload away from the owners of a pod.
    ///
    /// # Errors
    /// When the pod changed meanwhile, or the request fails.
    pub async fn release(&self, pod: &PodFact, owner_uid: &str) -> Result<(), Failure> {
        let meta = &pod.meta;
        let goes = |owner: &OwnerReference| owner.uid == owner_uid;
        let patch = write::release(&meta.uid, &meta.resource_version, &meta.owners, goes);
        self.patch(&meta.key, patch, "release pod").await.map(|_| ())
    }

    /// Removes the finalizer that kept a pod until its job had counted it. A pod that was
    /// changed since it was read is read again. Its workload claims the pod as released
    /// until that is seen; a pod without one has nobody to claim it.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn untrack(&self, workload: Option<&Key>, pod: &PodFact) -> Result<(), Failure> {
        let key = &pod.meta.key;
        let without = |meta: &crate::facts::Meta| {
            let finalizers = &meta.finalizers;
            let (uid, version) = (&meta.uid, &meta.resource_version);
            write::without_finalizer(uid, version, finalizers, TRACKING_FINALIZER)
        };
        let mut outcome =
            self.patch(key, without(&pod.meta), "remove finalizer of pod").await.map(drop);
        if outcome.as_ref().is_err_and(Failure::is_conflict) {
            let access =
                self.client.access::<PodFact>(ResourceType::of::<api::Pod>(), key.namespace());
            let found = access.find(key.name()).await.map_err(Failure::of("read pod"))?;
            outcome = match found.filter(|found| found.meta.uid == pod.meta.uid) {
                Some(pod) if pod.meta.has_finalizer(TRACKING_FINALIZER) => {
                    self.patch(key, without(&pod.meta), "remove finalizer of pod").await.map(drop)
                }
                _ => Ok(()),
            };
        }
        outcome?;
        let now = self.client.clock().now();
        if let Some(workload) = workload
            && self.store.get(key).is_some()
        {
            self.claims.with(workload, |claims| claims.release(&pod.meta.uid, now));
        }
        Ok(())
    }

    async fn patch(
        &self,
        key: &Key,
        patch: Value,
        doing: &str,
    ) -> Result<Option<PodFact>, Failure> {
        let access = self.client.access::<PodFact>(ResourceType::of::<api::Pod>(), key.namespace());
        let answer = access.patch(key.name(), &Patch::Merge(patch)).await;
        unless_gone(answer, format!("{doing} {key}"))
    }
}

/// Whether the server refuses new objects because their namespace is going.
#[must_use]
pub fn is_namespace_going(error: &Error) -> bool {
    error.refusal().is_some_and(|refusal| {
        refusal.causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
    })
}
