//! Carries out what the core decides for replica sets.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{ReplicaSet, Resource as _};
use chassis::client::Client;
use chassis::controller::{Reconciler, Requeue};
use chassis::events::Subject;
use chassis::key::Key;
use chassis::store::{IndexId, SharedStore};
use serde_json::json;

use super::{Facts, Plan, Trouble, plan, status};
use crate::claims::{self, ClaimBook, Watched};
use crate::facts::{Packed, PodFact};
use crate::failure::Failure;
use crate::informer::orphans_of;
use crate::pods::{Order, PodHand};
use crate::server;
use crate::start::Start;
use crate::write::{self, NewPod};

/// How many sets are looked at side by side.
const WORKERS: usize = 5;

struct Shell {
    client: Client,
    sets: SharedStore<Packed<ReplicaSet>>,
    sets_by_owner: IndexId,
    pods: SharedStore<PodFact>,
    pods_by_owner: IndexId,
    claims: Arc<ClaimBook>,
    hand: PodHand,
}

/// Subscribes the controller and starts its loop.
pub fn start(start: &mut Start<'_>) {
    let events = start.recorder("replicaset-controller");
    let mailbox = start.mailbox("replica-set");
    let informers = &mut *start.informers;
    let Watched { workloads, pods, claims, synced } =
        claims::watch(&mut informers.replica_sets, &mut informers.pods, &mailbox);
    let shell = Shell {
        client: start.client.clone(),
        sets: workloads,
        sets_by_owner: informers.sets_by_owner,
        hand: PodHand::new(start.client, pods.clone(), &claims, events),
        pods,
        pods_by_owner: informers.pods_by_owner,
        claims,
    };
    start.run(mailbox, synced, WORKERS, Arc::new(shell));
}

impl Reconciler for Shell {
    type Failure = Failure;

    async fn reconcile(&self, key: Key) -> Result<Requeue, Failure> {
        let Some(set) = self.sets.get(&key) else { return Ok(Requeue::OnChange) };
        let pods = self.candidates(&set);
        let refs: Vec<&PodFact> = pods.iter().map(|pod| &**pod).collect();
        let now = self.client.clock().now();
        let claims = self.claims.with(&key, |claims| {
            claims.settle(refs.iter().copied(), now);
            claims.clone()
        });
        // Who is crowded matters only where there may be too many.
        let wanted = usize::try_from(set.spec.replicas()).unwrap_or(0);
        let siblings = if refs.len() > wanted { self.siblings(&set) } else { Vec::new() };
        let crowding = crowding(&siblings);
        let facts = Facts { set: &set, pods: &refs, claims: &claims, crowding: &crowding, now };
        let plan = plan(&facts);
        if !self.take_over(&set, &plan).await? {
            // Its end is on its way through the watch; nothing is done for it until then.
            return Ok(Requeue::OnChange);
        }
        let trouble = self.scale(&key, &set, &plan).await;
        let (told, failure) = match trouble {
            Some((told, failure)) => (Some(told), Some(failure)),
            None => (None, None),
        };
        let (status, next) = status(&set, &plan.own, told.as_ref(), now);
        if let Some(patch) = write::difference(&set.status, &status) {
            let patch = json!({ "status": patch });
            server::report::<ReplicaSet>(&self.client, (&set.metadata).into(), patch).await?;
        }
        let next = [next, self.hand.next_expiry(&key)].into_iter().flatten().min();
        failure.map_or(Ok(next.into()), Err)
    }
}

impl Shell {
    /// The pods that name the set as their controller, and those that may be adopted.
    fn candidates(&self, set: &ReplicaSet) -> Vec<Arc<PodFact>> {
        let pods = self.pods.read();
        let own = pods.find(self.pods_by_owner, &set.metadata.uid);
        let orphans = orphans_of(&set.metadata.namespace);
        let orphans = pods.find(self.pods_by_owner, &orphans);
        own.chain(orphans).map(|(_, pod)| pod.clone()).collect()
    }

    /// The active pods of this set and of the other sets of the same deployment.
    fn siblings(&self, set: &ReplicaSet) -> Vec<Arc<PodFact>> {
        let sets: Vec<String> = match set.metadata.controller() {
            None => vec![set.metadata.uid.clone()],
            Some(owner) => {
                let sets = self.sets.read();
                sets.find(self.sets_by_owner, &owner.uid)
                    .map(|(_, set)| set.metadata.uid.clone())
                    .collect()
            }
        };
        let pods = self.pods.read();
        sets.iter()
            .flat_map(|uid| pods.find(self.pods_by_owner, uid))
            .map(|(_, pod)| pod.clone())
            .filter(|pod| pod.is_active())
            .collect()
    }

    /// Adopts and releases pods. Says false when the set turns out to be gone or going.
    async fn take_over(&self, set: &ReplicaSet, plan: &Plan<'_>) -> Result<bool, Failure> {
        if !plan.adopt.is_empty()
            && !server::is_alive::<ReplicaSet>(&self.client, (&set.metadata).into()).await?
        {
            return Ok(false);
        }
        let owner = set.controller_reference();
        for pod in &plan.adopt {
            self.hand.adopt(pod, &owner, None).await?;
        }
        for pod in &plan.release {
            self.hand.release(pod, &set.metadata.uid).await?;
        }
        Ok(true)
    }

    async fn scale(
        &self,
        key: &Key,
        set: &Packed<ReplicaSet>,
        plan: &Plan<'_>,
    ) -> Option<(Trouble, Failure)> {
        let subject = Subject::of::<ReplicaSet>((&set.metadata).into());
        if plan.create > 0 {
            let unread = self.hand.never_read(&set.metadata.uid);
            if let Some(pod) = unread.first().filter(|_| unread.len() >= plan.create) {
                let told = format!("pod {pod} is there and cannot be read");
                return Some((Trouble::Create(told.clone()), Failure::Unknown(told)));
            }
            let create = plan.create - unread.len();
            let (template, owner) = (set.template.unpack(), set.controller_reference());
            let generate_name = write::name_prefix(&set.metadata.name);
            let body = NewPod { generate_name, ..NewPod::default() }.build(&template, &owner);
            let orders = (0..create).map(|_| Order { body: body.clone(), index: None }).collect();
            let refused = self.hand.create(&subject, orders).await.refused?;
            let trouble = Trouble::Create(refused.told());
            return Some((trouble, Failure::of(format!("make pods of {key}"))(refused)));
        }
        if !plan.delete.is_empty() {
            let (_, refused) = self.hand.delete(&subject, &plan.delete).await;
            let refused = refused?;
            let trouble = Trouble::Delete(refused.told());
            return Some((trouble, Failure::of(format!("delete pods of {key}"))(refused)));
        }
        None
    }
}

fn crowding(pods: &[Arc<PodFact>]) -> BTreeMap<&str, usize> {
    let mut crowding = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.node.is_empty()) {
        *crowding.entry(&*pod.node).or_insert(0) += 1;
    }
    crowding
}
