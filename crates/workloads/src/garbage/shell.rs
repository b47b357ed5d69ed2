//! Carries out what the graph says.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::OwnerReference;
use chassis::client::{Access, Client, DeleteOptions, Patch, Preconditions, ResourceType};
use chassis::controller::Requeue;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::graph::{FOREGROUND, Found, ORPHAN, Stage, Uid, Verdict};
use super::watches::{Ground, Live, keep};
use crate::facts::Owned;
use crate::failure::{Failure, unless_gone};
use crate::informer::{Informer, Informers, resource_of};
use crate::worker::{Mailbox, Worker};
use crate::write;

/// How many objects are looked at side by side.
const WORKERS: usize = 20;
/// How often the graph may ask for owners before it has to decide.
const QUESTIONS_MAX: usize = 2;

/// Subscribes the collector and starts its loops.
pub fn start(
    client: &Client,
    informers: &mut Informers,
    tasks: &mut JoinSet<()>,
    stop: &CancellationToken,
) {
    let mailbox = Mailbox::new(client.clock(), 20);
    let ground = Ground::new(&mailbox);
    let mut synced = Vec::new();
    share(&ground, &mut informers.pods, resource_of::<api::Pod>(), &mut synced);
    share(&ground, &mut informers.nodes, resource_of::<api::Node>(), &mut synced);
    share(&ground, &mut informers.leases, resource_of::<api::Lease>(), &mut synced);
    share(&ground, &mut informers.deployments, resource_of::<api::Deployment>(), &mut synced);
    share(&ground, &mut informers.replica_sets, resource_of::<api::ReplicaSet>(), &mut synced);
    share(&ground, &mut informers.jobs, resource_of::<api::Job>(), &mut synced);
    share(&ground, &mut informers.namespaces, resource_of::<api::Namespace>(), &mut synced);
    let budgets = resource_of::<api::PodDisruptionBudget>();
    share(&ground, &mut informers.budgets, budgets, &mut synced);
    let accounts = resource_of::<api::ServiceAccount>();
    share(&ground, &mut informers.accounts, accounts, &mut synced);
    let ready = CancellationToken::new();
    synced.push(ready.clone());
    tasks.spawn(keep(ground.clone(), client.clone(), ready, stop.clone()));
    let worker = Worker { name: "garbage-collector", mailbox, synced, workers: WORKERS };
    let collector = Arc::new(Collector { client: client.clone(), ground });
    tasks.spawn(worker.run(stop.clone(), move |uid| {
        let collector = collector.clone();
        async move { collector.look(uid.name()).await }
    }));
}

/// Takes the objects of a resource from its informer, which runs anyway.
fn share<T: Owned + Sync>(
    ground: &Arc<Ground>,
    informer: &mut Informer<T>,
    resource: ResourceType,
    synced: &mut Vec<CancellationToken>,
) {
    // The informer is asked for even where no other controller wants it: one watch of a
    // lean type costs no more than one of metadata.
    let _ = informer.store(synced);
    let (ground, id) = (ground.clone(), ground.share(resource));
    informer.subscribe(move |change| ground.take(id, change));
}

struct Collector {
    client: Client,
    ground: Arc<Ground>,
}

/// An object to write to, as the server last told it.
struct Target {
    access: Access<Live>,
    live: Live,
    told: String,
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
                            self.ground.with(|graph| graph.note_gone(&owner.uid));
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
        let access = self.client.access::<Live>(resource, key.namespace()).metadata_only();
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
            return Err(Failure::Unknown(format!(
                "cannot {doing}: an object without a namespace has an owner in one"
            )));
        }
        let access = self.client.access::<Live>(served.resource, namespace).metadata_only();
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
                    (true, _) => "Orphan",
                    (false, true) => "Foreground",
                    (false, false) => "Background",
                };
                delete(target, policy).await?;
            }
            Verdict::DeleteForeground { unblock } => {
                if unblock {
                    unblock_owners(target).await?;
                }
                delete(target, "Foreground").await?;
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
        for dependent in dependents {
            if let Some(target) = self.target(&dependent).await? {
                drop_owners(&target, &[owner.to_owned()]).await?;
            }
        }
        Ok(())
    }
}

async fn delete(target: &Target, policy: &'static str) -> Result<(), Failure> {
    let meta = &target.live.metadata;
    // At exactly this version, whose owners were judged.
    let preconditions = Preconditions {
        uid: Some(meta.uid.clone()),
        resource_version: Some(meta.resource_version.clone()),
    };
    let options = DeleteOptions {
        preconditions: Some(preconditions),
        propagation_policy: Some(policy),
        ..DeleteOptions::default()
    };
    let answer = target.access.delete(&meta.name, &options).await;
    if unless_gone(answer, format!("delete {}", target.told))?.is_some() {
        tracing::debug!(object = target.told, policy, "collected");
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
