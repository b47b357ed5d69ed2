//! Pods that a job would have counted, if it were still there.
//!
//! The tracking finalizer holds a pod until its job has counted it. When the job is gone or
//! has ended, nobody will; the finalizer is taken off, so that the pod can go.

use std::sync::Arc;

use api::{Job, Resource as _};
use chassis::client::Client;
use chassis::controller::Requeue;
use chassis::key::Key;
use chassis::store::SharedStore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{is_finished, is_ours};
use crate::facts::{Packed, PodFact, TRACKING_FINALIZER};
use crate::failure::Failure;
use crate::informer::{Informers, resource_of};
use crate::pods::PodHand;
use crate::worker::{Mailbox, Worker};

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
pub fn start(
    client: &Client,
    informers: &mut Informers,
    hand: &PodHand,
    tasks: &mut JoinSet<()>,
    stop: &CancellationToken,
) {
    let mailbox = Mailbox::new(client.clock(), 14);
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
    let (client, hand) = (client.clone(), hand.clone());
    let worker = Worker { name: "job-orphans", mailbox, synced, workers: 2 };
    tasks.spawn(worker.run(stop.clone(), move |key| {
        let (client, hand) = (client.clone(), hand.clone());
        let pod = pods.get(&key).filter(|pod| is_suspect(pod, &jobs));
        async move { untrack(&client, &hand, pod).await }
    }));
}

async fn untrack(
    client: &Client,
    hand: &PodHand,
    pod: Option<Arc<PodFact>>,
) -> Result<Requeue, Failure> {
    let Some(pod) = pod else { return Ok(Requeue::OnChange) };
    let namespace = pod.meta.key.namespace();
    let mut workload = pod.meta.key.clone();
    if let Some(owner) = pod.controller_of(Job::GROUP, Job::KIND) {
        // The watch of jobs may be behind that of pods: the server knows.
        let access = client.access::<Packed<Job>>(resource_of::<Job>(), namespace);
        let doing = format!("read job {namespace}/{}", owner.name);
        let job = access.find(&owner.name).await.map_err(Failure::of(doing))?;
        if job.is_some_and(|job| will_count(&job, &owner.uid)) {
            return Ok(Requeue::OnChange);
        }
        workload = Key::namespaced(namespace, &owner.name);
    }
    hand.untrack(&workload, &pod).await?;
    Ok(Requeue::OnChange)
}
