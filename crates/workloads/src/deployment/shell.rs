//! Carries out what the core decides for deployments.

use std::sync::Arc;

use api::deployment::DeploymentStatus;
use api::{Deployment, ReplicaSet, Resource as _};
use chassis::client::{Client, DeleteOptions, Patch, ResourceType};
use chassis::controller::{Reconciler, Requeue};
use chassis::events::{Recorder, Subject};
use chassis::informer::Change;
use chassis::key::Key;
use chassis::store::{IndexId, SharedStore};
use serde_json::{Value, json};

use super::{Facts, NewSet, Plan, SetChange, plan, revision, status};
use crate::facts::{Packed, PodFact};
use crate::failure::{Failure, unless_gone};
use crate::informer::orphans_of;
use crate::ownership::{self, Candidate, Claimant, Ownership};
use crate::pods::is_namespace_going;
use crate::server;
use crate::start::Start;
use crate::write;

/// How many deployments are looked at side by side.
const WORKERS: usize = 5;

struct Shell {
    client: Client,
    deployments: SharedStore<Packed<Deployment>>,
    sets: SharedStore<Packed<ReplicaSet>>,
    sets_by_owner: IndexId,
    pods: SharedStore<PodFact>,
    pods_by_owner: IndexId,
    events: Recorder,
}

/// Subscribes the controller and starts its loop.
pub fn start(start: &mut Start<'_>) {
    let events = start.recorder("deployment-controller");
    let mailbox = start.mailbox("deployment");
    let informers = &mut *start.informers;
    let mut synced = Vec::new();
    let deployments = informers.deployments.store(&mut synced);
    let sets = informers.replica_sets.store(&mut synced);
    let pods = informers.pods.store(&mut synced);
    let inbox = mailbox.clone();
    informers.deployments.subscribe(move |change| inbox.add(change.key.clone()));
    let (inbox, known) = (mailbox.clone(), deployments.clone());
    informers.replica_sets.subscribe(move |change| {
        concerned(change, &known).into_iter().for_each(|key| inbox.add(key));
    });
    // A deployment that recreates its pods waits for the last of the old ones to go.
    let (inbox, known) = (mailbox.clone(), sets.clone());
    informers.pods.subscribe(move |change| {
        let Some(pod) = change.old.filter(|_| change.new.is_none()) else { return };
        let Some(owner) = pod.controller_of(ReplicaSet::GROUP, ReplicaSet::KIND) else { return };
        let namespace = pod.meta.key.namespace();
        let set = known.get(&Key::namespaced(namespace, &owner.name));
        if let Some(owner) = set.as_ref().and_then(|set| set.metadata.controller()) {
            inbox.add(Key::namespaced(namespace, &owner.name));
        }
    });
    let shell = Shell {
        client: start.client.clone(),
        deployments,
        sets,
        sets_by_owner: informers.sets_by_owner,
        pods,
        pods_by_owner: informers.pods_by_owner,
        events,
    };
    start.run(mailbox, synced, WORKERS, Arc::new(shell));
}

/// The deployments that a change of a replica set concerns.
fn concerned(
    change: &Change<'_, Packed<ReplicaSet>>,
    deployments: &SharedStore<Packed<Deployment>>,
) -> Vec<Key> {
    let mut keys = Vec::new();
    for set in change.states() {
        let namespace = &set.metadata.namespace;
        match set.metadata.controller() {
            Some(owner) if owner.kind == Deployment::KIND => {
                keys.push(Key::namespaced(namespace, &owner.name));
            }
            Some(_) => {}
            None => {
                let deployments = deployments.read();
                let matching = deployments.in_namespace(namespace).filter(|(_, deployment)| {
                    ownership::matches(&deployment.selector, &set.metadata.labels)
                });
                keys.extend(matching.map(|(key, _)| key.clone()));
            }
        }
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn subject(deployment: &Deployment) -> Subject {
    Subject::of::<Deployment>((&deployment.metadata).into())
}

impl Reconciler for Shell {
    type Failure = Failure;

    async fn reconcile(&self, key: Key) -> Result<Requeue, Failure> {
        let Some(deployment) = self.deployments.get(&key) else { return Ok(Requeue::OnChange) };
        // A selector of everything would take over the whole namespace; the server has not
        // accepted one since apps/v1.
        if deployment.selector.is_everything() {
            let message =
                "This deployment is selecting all pods. A non-empty selector is required.";
            self.events.warning(&subject(&deployment), "SelectingAll", message.to_owned());
            return Ok(Requeue::OnChange);
        }
        let Some(sets) = self.own_sets(&deployment).await? else {
            // Its end is on its way through the watch; nothing is done for it until then.
            return Ok(Requeue::OnChange);
        };
        let refs: Vec<&Packed<ReplicaSet>> = sets.iter().map(|set| &**set).collect();
        let now = self.client.clock().now();
        let old_pods_run = deployment.spec.recreates() && self.old_pods_run(&deployment, &sets);
        let plan = plan(&Facts { deployment: &deployment, sets: &refs, old_pods_run, now });
        let mut revision = plan.revision.clone();
        if let Some(new) = &plan.create {
            revision = self.create(&deployment, new, &plan).await?.or(revision);
        }
        for change in &plan.change {
            self.change(&deployment, change).await?;
        }
        for set in &plan.delete {
            self.delete(&key, set).await?;
        }
        self.report(&deployment, &plan.status, revision.as_deref()).await?;
        Ok(plan.look_again.into())
    }
}

impl Shell {
    /// The sets of a deployment, after it has taken and let go what it must; `None` when the
    /// deployment turns out to be gone or going.
    async fn own_sets(
        &self,
        deployment: &Packed<Deployment>,
    ) -> Result<Option<Vec<Arc<Packed<ReplicaSet>>>>, Failure> {
        let candidates: Vec<Arc<Packed<ReplicaSet>>> = {
            let sets = self.sets.read();
            let orphans = orphans_of(&deployment.metadata.namespace);
            let own = sets.find(self.sets_by_owner, &deployment.metadata.uid);
            own.chain(sets.find(self.sets_by_owner, &orphans)).map(|(_, set)| set.clone()).collect()
        };
        let claimant =
            Claimant { uid: &deployment.metadata.uid, going: deployment.metadata.is_going() };
        let (mut own, mut alive) = (Vec::new(), None);
        for set in candidates {
            let candidate = Candidate {
                controller: set.metadata.controller(),
                matches: ownership::matches(&deployment.selector, &set.metadata.labels),
                going: set.metadata.is_going(),
            };
            match ownership::decide(claimant, &candidate) {
                Ownership::Ours => own.push(set),
                Ownership::Adopt => {
                    if !self.is_alive(deployment, &mut alive).await? {
                        return Ok(None);
                    }
                    self.adopt(deployment, &set).await?;
                    own.push(set);
                }
                Ownership::Release => self.release(deployment, &set).await?,
                Ownership::Foreign => {}
            }
        }
        Ok(Some(own))
    }

    /// Asks the server, and asks it once.
    async fn is_alive(
        &self,
        deployment: &Deployment,
        known: &mut Option<bool>,
    ) -> Result<bool, Failure> {
        if known.is_none() {
            let who = (&deployment.metadata).into();
            *known = Some(server::is_alive::<Deployment>(&self.client, who).await?);
        }
        Ok(*known == Some(true))
    }

    async fn adopt(&self, deployment: &Deployment, set: &ReplicaSet) -> Result<(), Failure> {
        let (meta, owner) = (&set.metadata, deployment.controller_reference());
        let patch =
            write::adoption(&meta.uid, &meta.resource_version, &meta.owner_references, &owner);
        self.patch_set(&meta.namespace, &meta.name, patch, "adopt").await.map(|_| ())
    }

    async fn release(&self, deployment: &Deployment, set: &ReplicaSet) -> Result<(), Failure> {
        let (meta, uid) = (&set.metadata, &deployment.metadata.uid);
        let goes = |owner: &api::OwnerReference| owner.uid == *uid;
        let patch = write::release(&meta.uid, &meta.resource_version, &meta.owner_references, goes);
        self.patch_set(&meta.namespace, &meta.name, patch, "release").await.map(|_| ())
    }

    async fn patch_set(
        &self,
        namespace: &str,
        name: &str,
        patch: Value,
        doing: &str,
    ) -> Result<bool, Failure> {
        let access = self.client.access::<Value>(ResourceType::of::<ReplicaSet>(), namespace);
        let answer = access.patch(name, &Patch::Merge(patch)).await;
        let written = unless_gone(answer, format!("{doing} replica set {namespace}/{name}"))?;
        Ok(written.is_some())
    }

    async fn change(&self, deployment: &Deployment, change: &SetChange) -> Result<(), Failure> {
        let doing = match change.replicas {
            Some(size) => format!("scale to {size}"),
            None => "annotate".to_owned(),
        };
        let namespace = &deployment.metadata.namespace;
        let written = self.patch_set(namespace, &change.name, change.patch(), &doing).await?;
        if let Some(size) = change.replicas.filter(|size| written && *size != change.size) {
            self.tell_scaled(deployment, &change.name, change.size, size);
        }
        Ok(())
    }

    fn tell_scaled(&self, deployment: &Deployment, set: &str, from: i32, to: i32) {
        let way = if from < to { "up" } else { "down" };
        let message = format!("Scaled {way} replica set {set} from {from} to {to}");
        self.events.normal(&subject(deployment), "ScalingReplicaSet", message);
    }

    async fn delete(&self, key: &Key, set: &SetChange) -> Result<(), Failure> {
        let access = self.client.access::<Value>(ResourceType::of::<ReplicaSet>(), key.namespace());
        let options = DeleteOptions::of(&set.uid).at(&set.resource_version);
        let answer = access.delete(&set.name, &options).await;
        unless_gone(answer, format!("delete old replica set {}", set.name)).map(|_| ())
    }

    /// Makes the newest set. Its revision comes back when it was made, and nothing when it
    /// was there already and the watch is behind.
    async fn create(
        &self,
        deployment: &Packed<Deployment>,
        new: &NewSet,
        plan: &Plan,
    ) -> Result<Option<String>, Failure> {
        let namespace = &deployment.metadata.namespace;
        let access =
            self.client.access::<Packed<ReplicaSet>>(ResourceType::of::<ReplicaSet>(), namespace);
        let error = match access.create(&new.body).await {
            Ok(_) => {
                if new.size > 0 {
                    self.tell_scaled(deployment, &new.name, 0, new.size);
                }
                return Ok(Some(new.revision.clone()));
            }
            Err(error) => error,
        };
        let doing = format!("make replica set {namespace}/{}", new.name);
        if is_namespace_going(&error) {
            return Ok(None);
        }
        if !error.is_already_exists() {
            let message = status::creation_failure(&new.name, &error.told());
            self.events.warning(&subject(deployment), status::NOT_CREATED, message);
            let now = self.client.clock().now();
            let told = status::not_created(deployment, &plan.status, &new.name, &error.told(), now);
            // What matters is the failure below; this is only its report.
            let _ = self.report(deployment, &told, None).await;
            return Err(Failure::of(doing)(error));
        }
        let there = access.find(&new.name).await.map_err(Failure::of(doing))?;
        let Some(there) = there else {
            return Err(Failure::Unknown(format!("replica set {} came and went", new.name)));
        };
        let is_ours =
            there.metadata.controller().is_some_and(|owner| owner.uid == deployment.metadata.uid);
        if is_ours && there.template.makes_same_pods(&deployment.template) {
            return Ok(None);
        }
        let mut told = deployment.status.clone();
        told.collision_count = Some(told.collision_count.unwrap_or(0).saturating_add(1));
        self.report(deployment, &told, None).await?;
        Err(Failure::Unknown(format!("the name of replica set {} is taken", new.name)))
    }

    /// Writes status and revision together. The revision goes the same way since an
    /// annotation written to the deployment itself would count as a change of its spec.
    async fn report(
        &self,
        deployment: &Packed<Deployment>,
        status: &DeploymentStatus,
        revision: Option<&str>,
    ) -> Result<(), Failure> {
        let meta = &deployment.metadata;
        let change = write::difference(&deployment.status, status);
        let noted = meta.annotations.get(revision::REVISION).map(String::as_str);
        let revision = revision.filter(|revision| noted != Some(revision));
        if change.is_none() && revision.is_none() {
            return Ok(());
        }
        let mut patch = json!({ "status": change.unwrap_or_else(|| json!({})) });
        if let Some(revision) = revision {
            patch["metadata"]["annotations"] = json!({ revision::REVISION: revision });
        }
        server::report::<Deployment>(&self.client, meta.into(), patch).await.map(|_| ())
    }

    /// Whether pods of a set other than the newest have not ended yet.
    fn old_pods_run(
        &self,
        deployment: &Packed<Deployment>,
        sets: &[Arc<Packed<ReplicaSet>>],
    ) -> bool {
        let newest = sets.iter().find(|set| set.template.makes_same_pods(&deployment.template));
        let newest = newest.map(|set| set.metadata.uid.as_str());
        let pods = self.pods.read();
        sets.iter().filter(|set| Some(set.metadata.uid.as_str()) != newest).any(|set| {
            set.status.replicas > 0
                || pods
                    .find(self.pods_by_owner, &set.metadata.uid)
                    .any(|(_, pod)| !pod.phase.is_terminal())
        })
    }
}
