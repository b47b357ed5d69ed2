//! Pods that a job would have counted, if it were still there.
//!
//! The tracking finalizer holds a pod until its job has counted it. When the job is gone or
//! has ended, nobody will; the finalizer is taken off, so that the pod can go.

use std::sync::Arc;

use api::{Job, Resource as _};
use chassis::client::{Client, ResourceType};
use chassis::controller::{Reconciler, Requeue};
use chassis::key::Key;
use chassis::store::SharedStore;

use super::{is_finished, is_ours};
use crate::facts::{Packed, PodFact, TRACKING_FINALIZER};
use crate::failure::Failure;
use crate::pods::PodHand;
use crate::start::Start;

/// How many pods are looked at side by side.
const WORKERS: usize = 2;

/// Whether a pod may be one that nobody will count.
fn is_suspect(pod: &PodFact, jobs: &SharedStore<Packed<Job>>) -> bool {
    if !pod.meta.has_finalizer(TRACKING_FINALIZER) {
        return false;
    }
    let Some(owner) = pod.controller_of(Job::GROUP, Job::KIND) else { return true };
    let job = jobs.get(&Key::namespaced(pod.meta.key.namespace(), &owner.name));
    job.is_none_or(|job| !will_count(&job, &owner.uid))
}

/// Whether a job, or whoever runs it in our place, will yet count the pods of the job with
/// this uid.
fn will_count(job: &Job, uid: &str) -> bool {
    job.metadata.uid == uid && (!is_finished(job) || !is_ours(job))
}

/// Subscribes the loop and starts it.
pub fn start(start: &mut Start<'_>, hand: &PodHand) {
    let mailbox = start.mailbox("job-orphans");
    let informers = &mut *start.informers;
    let mut synced = Vec::new();
    let jobs = informers.jobs.store(&mut synced);
    let pods = informers.pods.store(&mut synced);
    let (inbox, known) = (mailbox.clone(), jobs.clone());
    informers.pods.subscribe(move |change| {
        if let Some(pod) = change.new
            && is_suspect(pod, &known)
        {
            inbox.add(change.key.clone());
        }
    });
    let (inbox, all_pods, by_owner) = (mailbox.clone(), pods.clone(), informers.pods_by_owner);
    informers.jobs.subscribe(move |change| {
        let Some(uid) = change.states().last().map(|job| job.metadata.uid.clone()) else { return };
        if change.new.is_none_or(|job| is_finished(job)) {
            let pods = all_pods.read();
            pods.find(by_owner, &uid).for_each(|(key, _)| inbox.add(key.clone()));
        }
    });
    let (client, hand) = (start.client.clone(), hand.clone());
    start.run(mailbox, synced, WORKERS, Arc::new(Shell { client, hand, jobs, pods }));
}

struct Shell {
    client: Client,
    hand: PodHand,
    jobs: SharedStore<Packed<Job>>,
    pods: SharedStore<PodFact>,
}

impl Reconciler for Shell {
    type Failure = Failure;

    async fn reconcile(&self, key: Key) -> Result<Requeue, Failure> {
        let Some(pod) = self.pods.get(&key).filter(|pod| is_suspect(pod, &self.jobs)) else {
            return Ok(Requeue::OnChange);
        };
        let namespace = key.namespace();
        let mut workload = None;
        if let Some(owner) = pod.controller_of(Job::GROUP, Job::KIND) {
            // The watch of jobs may be behind that of pods: the server knows.
            let access = self.client.access::<Packed<Job>>(ResourceType::of::<Job>(), namespace);
            let doing = format!("read job {namespace}/{}", owner.name);
            let job = access.find(&owner.name).await.map_err(Failure::of(doing))?;
            if job.is_some_and(|job| will_count(&job, &owner.uid)) {
                return Ok(Requeue::OnChange);
            }
            workload = Some(Key::namespaced(namespace, &owner.name));
        }
        self.hand.untrack(workload.as_ref(), &pod).await?;
        Ok(Requeue::OnChange)
    }
}
