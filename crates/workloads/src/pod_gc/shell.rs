//! Looks at all pods every now and then, and ends those that the core names.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::{Node, Pod};
use chassis::client::{Client, DeleteOptions, Nameplate, Patch, ResourceType};
use chassis::controller::{Failure as _, Reconciler, Requeue};
use chassis::key::Key;
use chassis::store::SharedStore;
use futures::future::join_all;
use object::time::Time;
use serde_json::{Value, json};

use super::{ENDED_MAX, Quarantine, Why, doomed};
use crate::facts::{NodeFact, PodFact};
use crate::failure::{Failure, unless_gone};
use crate::start::Start;

/// How often all pods are looked at.
const PERIOD: Duration = Duration::from_secs(20);
/// How many pods are ended side by side.
const IN_FLIGHT_MAX: usize = 16;

struct Shell {
    client: Client,
    nodes: SharedStore<NodeFact>,
    pods: SharedStore<PodFact>,
    quarantine: Mutex<Quarantine>,
}

/// Subscribes the controller and starts its loop. There is one key, for all pods.
pub fn start(start: &mut Start<'_>) {
    let mailbox = start.mailbox("pod-gc");
    let mut synced = Vec::new();
    let shell = Shell {
        client: start.client.clone(),
        nodes: start.informers.nodes.store(&mut synced),
        pods: start.informers.pods.store(&mut synced),
        quarantine: Mutex::default(),
    };
    mailbox.add(Key::cluster("pods"));
    start.run(mailbox, synced, 1, Arc::new(shell));
}

impl Reconciler for Shell {
    type Failure = Failure;

    async fn reconcile(&self, _: Key) -> Result<Requeue, Failure> {
        let pods: Vec<Arc<PodFact>> = self.pods.read().iter().map(|(_, pod)| pod.clone()).collect();
        let refs: Vec<&PodFact> = pods.iter().map(|pod| &**pod).collect();
        let gone = self.gone(&refs).await?;
        let node = |name: &str| self.nodes.get(&Key::cluster(name));
        for batch in doomed(&refs, node, &gone, ENDED_MAX).chunks(IN_FLIGHT_MAX) {
            join_all(batch.iter().map(|(pod, why)| self.end(pod, *why))).await;
        }
        Ok(Requeue::After(PERIOD))
    }
}

impl Shell {
    /// The nodes of these pods that are gone for sure.
    async fn gone(&self, pods: &[&PodFact]) -> Result<BTreeSet<Box<str>>, Failure> {
        let now = self.client.clock().monotonic();
        let is_there = |name: &str| {
            let (nodes, key) = (self.nodes.read(), Key::cluster(name));
            nodes.get(&key).is_some() || nodes.is_unreadable(&key)
        };
        let due = self.quarantine(|own| own.look(pods.iter().copied(), is_there, now));
        let access = self.client.access::<Nameplate>(ResourceType::of::<Node>(), "");
        let mut gone = BTreeSet::new();
        for name in due {
            let found = access.find(&name).await;
            match found.map_err(Failure::of(format!("look for node {name}")))? {
                Some(_) => self.quarantine(|own| own.found(&name)),
                None => {
                    gone.insert(name);
                }
            }
        }
        Ok(gone)
    }

    fn quarantine<R>(&self, use_it: impl FnOnce(&mut Quarantine) -> R) -> R {
        use_it(&mut self.quarantine.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends a pod. One that cannot be ended keeps none of the others; it is tried again.
    async fn end(&self, pod: &PodFact, why: Why) {
        let (key, why_word) = (&pod.meta.key, why.as_str());
        match self.fail_and_delete(pod, why).await {
            Ok(()) => tracing::info!(pod = %key, why = why_word, "pod ended"),
            Err(failure) => {
                tracing::warn!(pod = %key, why = why_word, error = failure.told(), "cannot end pod");
            }
        }
    }

    /// Marks a pod as failed, unless it has ended, and deletes it at once.
    async fn fail_and_delete(&self, pod: &PodFact, why: Why) -> Result<(), Failure> {
        let (key, uid) = (&pod.meta.key, &pod.meta.uid);
        let access = self.client.access::<Value>(ResourceType::of::<Pod>(), key.namespace());
        if !pod.phase.is_terminal() {
            let mut status = json!({ "phase": "Failed" });
            if why == Why::Orphaned {
                status["conditions"] = json!([{
                    "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists",
                    "lastTransitionTime": Time::from(self.client.clock().now()),
                }]);
            }
            let patch = json!({ "metadata": { "uid": uid }, "status": status });
            let answer = access.patch_sub(key.name(), "status", &Patch::Strategic(patch)).await;
            unless_gone(answer, format!("mark pod {key} as failed"))?;
        }
        let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::of(uid) };
        unless_gone(access.delete(key.name(), &options).await, format!("delete pod {key}"))
            .map(|_| ())
    }
}
