//! Carries out what the graph says.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{OwnerReference, Resource};
use chassis::client::{Access, Client, DeleteOptions, Patch, Propagation, ResourceType};
use chassis::controller::{Reconciler, Requeue};
use chassis::informer::Informer;
use chassis::key::Key;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::graph::{FOREGROUND, Found, ORPHAN, Stage, Uid, Verdict};
use super::watches::{Ground, keep};
use crate::facts::{MetadataOnly, Owned};
use crate::failure::{Failure, all_of, unless_gone};
use crate::start::Start;
use crate::write;

/// How many objects are looked at side by side.
const WORKERS: usize = 20;
/// How often the graph may ask for owners before it has to decide.
const QUESTIONS_MAX: usize = 2;

/// Subscribes the collector and starts its loops.
pub fn start(start: &mut Start<'_>) {
    let mailbox = start.mailbox("garbage-collector");
    let informers = &mut *start.informers;
    let ground = Ground::new(&mailbox);
    share::<api::Pod, _>(&ground, &mut informers.pods);
    share::<api::Node, _>(&ground, &mut informers.nodes);
    share::<api::Lease, _>(&ground, &mut informers.leases);
    share::<api::Deployment, _>(&ground, &mut informers.deployments);
    share::<api::ReplicaSet, _>(&ground, &mut informers.replica_sets);
    share::<api::Job, _>(&ground, &mut informers.jobs);
    share::<api::Namespace, _>(&ground, &mut informers.namespaces);
    share::<api::PodDisruptionBudget, _>(&ground, &mut informers.budgets);
    share::<api::ServiceAccount, _>(&ground, &mut informers.accounts);
    let ready = CancellationToken::new();
    let synced = vec![ready.clone()];
    let how = (start.seed, start.metrics.clone());
    let watches = keep(ground.clone(), start.client.clone(), how, ready, start.stop.clone());
    start.tasks.spawn(watches);
    let collector = Collector { client: start.client.clone(), ground };
    start.run(mailbox, synced, WORKERS, Arc::new(collector));
}

/// Takes the objects of a resource from its informer, which runs anyway.
fn share<K: Resource, T: Owned + Sync>(ground: &Arc<Ground>, informer: &mut Informer<T>) {
    // The informer is asked for even where no other controller wants it: one watch of a
    // lean type costs no more than one of metadata.
    let (ground, id) = (ground.clone(), ground.share(ResourceType::of::<K>(), informer.synced()));
    informer.subscribe(move |change| ground.take(id, change));
}

struct Collector {
    client: Client,
    ground: Arc<Ground>,
}

/// An object to write to, as the server last told it.
struct Target {
    access: Access<MetadataOnly>,
    live: MetadataOnly,
    told: String,
}

impl Reconciler for Collector {
    type Failure = Failure;

    /// A key is the uid of an object.
    async fn reconcile(&self, key: Key) -> Result<Requeue, Failure> {
        self.look(key.name()).await
    }
}

impl Collector {
    async fn look(&self, uid: &str) -> Result<Requeue, Failure> {
        let Some(entry) = self.ground.with(|graph| graph.get(uid).cloned()) else {
            return Ok(Requeue::OnChange);
        };
        if entry.stage == Stage::Going || (entry.stage == Stage::Alive && entry.owners.is_empty()) {
            return Ok(Requeue::OnChange);
        }
        // Most looks find that all is well, and cost no request.
        let known = self.ground.with(|graph| graph.judge(uid, &entry.owners, &BTreeMap::new()));
        match known {
            Verdict::Keep => return Ok(Requeue::OnChange),
            Verdict::LookAt(others) => {
                self.ground.look_at(others);
                return Ok(Requeue::OnChange);
            }
            _ => {}
        }
        let Some(target) = self.target(uid).await? else { return Ok(Requeue::OnChange) };
        let mut found = BTreeMap::new();
        for _ in 0..=QUESTIONS_MAX {
            let owners = &target.live.metadata.owner_references;
            let verdict = self.ground.with(|graph| graph.judge(uid, owners, &found));
            match verdict {
                Verdict::Ask(owners) => {
                    for owner in owners {
                        let answer = self.ask(entry.key.namespace(), &owner).await?;
                        if answer == Found::Gone {
                            let namespace = entry.key.namespace();
                            self.ground.with(|graph| graph.note_absent(namespace, &owner));
                        }
                        found.insert(owner.uid, answer);
                    }
                }
                verdict => return self.carry_out(&target, verdict).await,
            }
        }
        Err(Failure::Unknown(format!("the owners of {} keep changing", target.told)))
    }

    /// The object as it is now; `None` when it is gone, which the graph then learns.
    async fn target(&self, uid: &str) -> Result<Option<Target>, Failure> {
        let found = self
            .ground
            .with(|graph| graph.get(uid).map(|entry| (entry.resource, entry.key.clone())));
        let Some((id, key)) = found else { return Ok(None) };
        let Some(resource) = self.ground.resource(id) else { return Ok(None) };
        let told = format!("{resource} {key}");
        let access = self.client.access::<MetadataOnly>(resource, key.namespace()).metadata_only();
        let doing = format!("read {told}");
        let live = access.find(key.name()).await.map_err(Failure::of(doing))?;
        match live.filter(|live| live.metadata.uid == uid) {
            Some(live) => Ok(Some(Target { access, live, told })),
            None => {
                let looks = self.ground.with(|graph| graph.forget(uid));
                self.ground.look_at(looks);
                Ok(None)
            }
        }
    }

    /// Asks the server for an owner that the graph does not know.
    async fn ask(&self, namespace: &str, owner: &OwnerReference) -> Result<Found, Failure> {
        let doing = format!("find owner {} {}", owner.kind, owner.name);
        let Some(served) = self.ground.of_kind(&owner.api_version, &owner.kind) else {
            // A kind that is not served may be served tomorrow: its objects are not gone.
            let (kind, version) = (&owner.kind, &owner.api_version);
            return Err(Failure::Unknown(format!(
                "cannot {doing}: the server has no kind {kind} of {version}"
            )));
        };
        let namespace = if served.resource.namespaced { namespace } else { "" };
        if served.resource.namespaced && namespace.is_empty() {
            return Ok(Found::Misplaced);
        }
        let access = self.client.access::<MetadataOnly>(served.resource, namespace).metadata_only();
        let live = access.find(&owner.name).await.map_err(Failure::of(doing))?;
        let Some(live) = live.filter(|live| live.metadata.uid == owner.uid) else {
            return Ok(Found::Gone);
        };
        let has = |name: &str| live.metadata.finalizers.iter().any(|own| own == name);
        Ok(Found::There(Stage::of(live.metadata.is_going(), has(FOREGROUND), has(ORPHAN))))
    }

    async fn carry_out(&self, target: &Target, verdict: Verdict) -> Result<Requeue, Failure> {
        let has = |name: &str| target.live.metadata.finalizers.iter().any(|own| own == name);
        match verdict {
            Verdict::Keep | Verdict::Ask(_) => {}
            Verdict::LookAt(others) => self.ground.look_at(others),
            Verdict::Delete => {
                let policy = match (has(ORPHAN), has(FOREGROUND)) {
                    (true, _) => Propagation::Orphan,
                    (false, true) => Propagation::Foreground,
                    (false, false) => Propagation::Background,
                };
                delete(target, policy).await?;
            }
            Verdict::DeleteForeground { unblock } => {
                if unblock {
                    unblock_owners(target).await?;
                }
                delete(target, Propagation::Foreground).await?;
            }
            Verdict::DropOwners(gone) => drop_owners(target, &gone).await?,
            Verdict::Finish => remove_finalizer(target, FOREGROUND).await?,
            Verdict::SetFree(dependents) => {
                self.set_free(&target.live.metadata.uid, dependents).await?;
                remove_finalizer(target, ORPHAN).await?;
            }
        }
        Ok(Requeue::OnChange)
    }

    async fn set_free(&self, owner: &str, dependents: Vec<Uid>) -> Result<(), Failure> {
        let set_free = |dependent: Uid| async move {
            match self.target(&dependent).await? {
                Some(target) => drop_owners(&target, &[owner.to_owned()]).await,
                None => Ok(()),
            }
        };
        all_of(dependents.into_iter().map(set_free).collect()).await
    }
}

async fn delete(target: &Target, policy: Propagation) -> Result<(), Failure> {
    let meta = &target.live.metadata;
    // At exactly this version, whose owners were judged.
    let options = DeleteOptions::of(&meta.uid).at(&meta.resource_version).leaving(policy);
    let answer = target.access.delete(&meta.name, &options).await;
    if unless_gone(answer, format!("delete {}", target.told))?.is_some() {
        tracing::debug!(object = target.told, ?policy, "collected");
    }
    Ok(())
}

async fn drop_owners(target: &Target, gone: &[String]) -> Result<(), Failure> {
    let meta = &target.live.metadata;
    if !meta.owner_references.iter().any(|owner| gone.contains(&owner.uid)) {
        return Ok(());
    }
    let goes = |owner: &OwnerReference| gone.contains(&owner.uid);
    let patch = write::release(&meta.uid, &meta.resource_version, &meta.owner_references, goes);
    let answer = target.access.patch(&meta.name, &Patch::Merge(patch)).await;
    unless_gone(answer, format!("take owners from {}", target.told)).map(|_| ())
}

async fn unblock_owners(target: &Target) -> Result<(), Failure> {
    let meta = &target.live.metadata;
    let mut owners = meta.owner_references.clone();
    owners.iter_mut().for_each(|owner| owner.block_owner_deletion = Some(false));
    let patch = json!({ "metadata": { "uid": meta.uid, "ownerReferences": owners } });
    let answer = target.access.patch(&meta.name, &Patch::Merge(patch)).await;
    unless_gone(answer, format!("unblock the owners of {}", target.told)).map(|_| ())
}

async fn remove_finalizer(target: &Target, name: &str) -> Result<(), Failure> {
    let meta = &target.live.metadata;
    if !meta.finalizers.iter().any(|own| own == name) {
        return Ok(());
    }
    let patch = write::without_finalizer(&meta.uid, &meta.resource_version, &meta.finalizers, name);
    let answer = target.access.patch(&meta.name, &Patch::Merge(patch)).await;
    unless_gone(answer, format!("remove finalizer {name} of {}", target.told)).map(|_| ())
}
