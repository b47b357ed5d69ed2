//! Carries out what the core decides for replica sets.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{ReplicaSet, Resource as _};
use chassis::client::{Client, Patch};
use chassis::controller::Requeue;
use chassis::key::Key;
use chassis::store::{IndexId, SharedStore};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Facts, Plan, Trouble, plan, status};
use crate::claims::ClaimBook;
use crate::facts::{Packed, PodFact};
use crate::failure::{Failure, unless_gone};
use crate::informer::{Change, Informers, orphans_of, resource_of};
use crate::pods::{Order, PodHand};
use crate::worker::{Mailbox, Worker};
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
pub fn start(
    client: &Client,
    informers: &mut Informers,
    tasks: &mut JoinSet<()>,
    stop: &CancellationToken,
) {
    let mailbox = Mailbox::new(client.clock(), 11);
    let claims = Arc::new(ClaimBook::default());
    let mut synced = Vec::new();
    let sets = informers.replica_sets.store(&mut synced);
    let pods = informers.pods.store(&mut synced);
    let box_of_sets = mailbox.clone();
    let book = claims.clone();
    informers.replica_sets.subscribe(move |change| {
        if change.new.is_none() {
            book.forget(change.key);
        }
        box_of_sets.add(change.key.clone());
    });
    let (box_of_pods, book, all_sets) = (mailbox.clone(), claims.clone(), sets.clone());
    informers.pods.subscribe(move |change| {
        concerned(change, &all_sets, &book).into_iter().for_each(|key| box_of_pods.add(key));
    });
    let shell = Arc::new(Shell {
        client: client.clone(),
        sets,
        sets_by_owner: informers.sets_by_owner,
        hand: PodHand::new(client, pods.clone(), &claims),
        pods,
        pods_by_owner: informers.pods_by_owner,
        claims,
    });
    let worker = Worker { name: "replica-set", mailbox, synced, workers: WORKERS };
    let stop = stop.clone();
    tasks.spawn(worker.run(stop, move |key| {
        let shell = shell.clone();
        async move { shell.reconcile(key).await }
    }));
}

/// The sets that a change of a pod concerns; the claims on the pod are settled on the way.
fn concerned(
    change: &Change<'_, PodFact>,
    sets: &SharedStore<Packed<ReplicaSet>>,
    book: &ClaimBook,
) -> Vec<Key> {
    let mut keys = Vec::new();
    for pod in change.states() {
        if let Some(owner) = pod.controller_of(ReplicaSet::GROUP, ReplicaSet::KIND) {
            let key = Key::namespaced(pod.meta.key.namespace(), &owner.name);
            book.with(&key, |claims| match change.new {
                Some(_) => claims.saw(&pod.meta.uid),
                None => claims.saw_gone(&pod.meta.uid),
            });
            keys.push(key);
        } else if pod.meta.controller().is_none() && change.new.is_some() {
            let sets = sets.read();
            let matching = sets
                .in_namespace(pod.meta.key.namespace())
                .filter(|(_, set)| pod.meta.labels.match_selector(&set.selector));
            keys.extend(matching.map(|(key, _)| key.clone()));
        }
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

impl Shell {
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
        let wanted = usize::try_from(set.spec.replicas.unwrap_or(1)).unwrap_or(0);
        let siblings = if refs.len() > wanted { self.siblings(&set) } else { Vec::new() };
        let crowding = crowding(&siblings);
        let facts = Facts { set: &set, pods: &refs, claims: &claims, crowding: &crowding, now };
        let plan = plan(&facts);
        self.take_over(&set, &plan).await?;
        let trouble = self.scale(&key, &set, &plan).await;
        let (told, failure) = match trouble {
            Some((told, failure)) => (Some(told), Some(failure)),
            None => (None, None),
        };
        let (status, next) = status(&set, &plan.own, told.as_ref(), now);
        if let Some(patch) = write::difference(&set.status, &status) {
            let meta = &set.metadata;
            let patch = write::status_patch(&meta.uid, &meta.resource_version, patch);
            let access = self.client.access::<Value>(resource_of::<ReplicaSet>(), key.namespace());
            let answer = access.patch_sub(key.name(), "status", &Patch::Merge(patch)).await;
            unless_gone(answer, format!("report on replica set {key}"))?;
        }
        match (failure, next) {
            (Some(failure), _) => Err(failure),
            (None, Some(wait)) => Ok(Requeue::After(wait)),
            (None, None) => Ok(Requeue::OnChange),
        }
    }

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

    async fn take_over(&self, set: &ReplicaSet, plan: &Plan<'_>) -> Result<(), Failure> {
        if !plan.adopt.is_empty() {
            // The store may lag behind a deletion of the set, and a pod must not be given
            // to a set that is gone.
            let access = self
                .client
                .access::<Packed<ReplicaSet>>(resource_of::<ReplicaSet>(), &set.metadata.namespace);
            let doing = format!("read replica set {}", set.metadata.name);
            let live = access.find(&set.metadata.name).await.map_err(Failure::of(doing))?;
            let is_it = |live: &Packed<ReplicaSet>| {
                live.metadata.uid == set.metadata.uid && !live.metadata.is_going()
            };
            if !live.is_some_and(|live| is_it(&live)) {
                return Ok(());
            }
        }
        let owner = set.controller_reference();
        for pod in &plan.adopt {
            self.hand.adopt(pod, &owner).await?;
        }
        for pod in &plan.release {
            self.hand.release(pod, &set.metadata.uid).await?;
        }
        Ok(())
    }

    async fn scale(
        &self,
        key: &Key,
        set: &Packed<ReplicaSet>,
        plan: &Plan<'_>,
    ) -> Option<(Trouble, Failure)> {
        if plan.create > 0 {
            let (template, owner) = (set.template.unpack(), set.controller_reference());
            let generate_name = write::name_prefix(&set.metadata.name);
            let body = NewPod { generate_name, ..NewPod::default() }.build(&template, &owner);
            let orders =
                (0..plan.create).map(|_| Order { body: body.clone(), index: None }).collect();
            let refused = self.hand.create(key, orders).await.refused?;
            let trouble = Trouble::Create(refusal_text(&refused));
            return Some((trouble, Failure::of(format!("make pods of {key}"))(refused)));
        }
        if !plan.delete.is_empty() {
            let (_, refused) = self.hand.delete(key, &plan.delete).await;
            let refused = refused?;
            let trouble = Trouble::Delete(refusal_text(&refused));
            return Some((trouble, Failure::of(format!("delete pods of {key}"))(refused)));
        }
        None
    }
}

/// The server's own words where there are any.
fn refusal_text(error: &chassis::client::Error) -> String {
    error.refusal().map_or_else(|| error.to_string(), |refusal| refusal.message.clone())
}

fn crowding(pods: &[Arc<PodFact>]) -> BTreeMap<&str, usize> {
    let mut crowding = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.node.is_empty()) {
        *crowding.entry(&*pod.node).or_insert(0) += 1;
    }
    crowding
}
