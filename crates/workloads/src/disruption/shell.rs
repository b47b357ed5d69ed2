//! Finds what a budget is computed from, and writes what comes out.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Deployment, OwnerReference, PodDisruptionBudget, ReplicaSet, Resource as _};
use chassis::client::Client;
use chassis::controller::{Reconciler, Requeue};
use chassis::events::{Recorder, Subject};
use chassis::key::Key;
use chassis::store::SharedStore;
use serde::Deserialize;
use serde_json::json;

use super::{Next, Scales, status};
use crate::discovery::Recent;
use crate::facts::{Budget, Packed, PodFact};
use crate::failure::{Failure, unless_gone};
use crate::server;
use crate::start::Start;
use crate::write;

/// How many budgets are looked at side by side.
const WORKERS: usize = 2;

struct Shell {
    client: Client,
    budgets: SharedStore<Budget>,
    pods: SharedStore<PodFact>,
    sets: SharedStore<Packed<ReplicaSet>>,
    deployments: SharedStore<Packed<Deployment>>,
    resources: Recent,
    events: Recorder,
}

/// Subscribes the controller and starts its loop.
pub fn start(start: &mut Start<'_>) {
    let events = start.recorder("controllermanager");
    let mailbox = start.mailbox("disruption");
    let informers = &mut *start.informers;
    let mut synced = Vec::new();
    let shell = Arc::new(Shell {
        client: start.client.clone(),
        budgets: informers.budgets.store(&mut synced),
        pods: informers.pods.store(&mut synced),
        sets: informers.replica_sets.store(&mut synced),
        deployments: informers.deployments.store(&mut synced),
        resources: Recent::default(),
        events,
    });
    let inbox = mailbox.clone();
    informers.budgets.subscribe(move |change| inbox.add(change.key.clone()));
    let (inbox, budgets) = (mailbox.clone(), shell.budgets.clone());
    informers.pods.subscribe(move |change| {
        let budgets = budgets.read();
        for (key, budget) in budgets.in_namespace(change.key.namespace()) {
            if change.states().any(|pod| pod.meta.labels.match_selector(&budget.selector)) {
                inbox.add(key.clone());
            }
        }
    });
    start.run(mailbox, synced, WORKERS, shell);
}

/// The size of something that can be scaled.
#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct Scale {
    metadata: api::ObjectMeta,
    spec: ScaleSpec,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct ScaleSpec {
    replicas: i32,
}

impl Reconciler for Shell {
    type Failure = Failure;

    async fn reconcile(&self, key: Key) -> Result<Requeue, Failure> {
        let Some(budget) = self.budgets.get(&key).filter(|own| !own.metadata.is_going()) else {
            return Ok(Requeue::OnChange);
        };
        let pods: Vec<Arc<PodFact>> = {
            let pods = self.pods.read();
            let all = pods.in_namespace(key.namespace());
            let chosen = all.filter(|(_, pod)| pod.meta.labels.match_selector(&budget.selector));
            chosen.map(|(_, pod)| pod.clone()).collect()
        };
        let refs: Vec<&PodFact> = pods.iter().map(|pod| &**pod).collect();
        if refs.is_empty() {
            let subject = Subject::of::<PodDisruptionBudget>((&budget.metadata).into());
            self.events.normal(&subject, "NoPods", "No matching pods found".to_owned());
        }
        let scales = self.scales(&budget, &refs).await?;
        let (status, next) = status(&budget, &refs, &scales, self.client.clock().now());
        if let Some(patch) = write::difference(&budget.status, &status) {
            let (who, patch) = ((&budget.metadata).into(), json!({ "status": patch }));
            server::report::<PodDisruptionBudget>(&self.client, who, patch).await?;
        }
        match next {
            Next::OnChange => Ok(Requeue::OnChange),
            Next::After(wait) => Ok(Requeue::After(wait)),
            Next::Retry(what) => Err(Failure::Unknown(what)),
        }
    }
}

impl Shell {
    /// The sizes of the controllers of these pods, where the budget asks for them.
    async fn scales(
        &self,
        budget: &PodDisruptionBudget,
        pods: &[&PodFact],
    ) -> Result<Scales, Failure> {
        let counts_pods = matches!(budget.spec.min_available, Some(api::IntOrString::Int(_)));
        if counts_pods && budget.spec.max_unavailable.is_none() {
            return Ok(Scales::new());
        }
        let mut owners: BTreeMap<&str, &OwnerReference> = BTreeMap::new();
        for owner in pods.iter().filter_map(|pod| pod.meta.controller()) {
            owners.insert(&owner.uid, owner);
        }
        let namespace = &budget.metadata.namespace;
        let mut scales = Scales::new();
        for (uid, owner) in owners {
            let scale = match self.known_scale(namespace, owner) {
                Some(scale) => Some(scale),
                None => self.asked_scale(namespace, owner).await?,
            };
            scales.insert(uid.to_owned(), scale);
        }
        Ok(scales)
    }

    /// The size of a replica set, or of the deployment that it belongs to.
    fn known_scale(&self, namespace: &str, owner: &OwnerReference) -> Option<i32> {
        if owner.kind != ReplicaSet::KIND || owner.api_version != ReplicaSet::api_version() {
            return None;
        }
        let set = self.sets.get(&Key::namespaced(namespace, &owner.name))?;
        if set.metadata.uid != owner.uid {
            return None;
        }
        let Some(above) = set.metadata.controller().filter(|own| own.kind == Deployment::KIND)
        else {
            return Some(set.spec.replicas());
        };
        let deployment = self.deployments.get(&Key::namespaced(namespace, &above.name))?;
        (deployment.metadata.uid == above.uid).then(|| deployment.spec.replicas())
    }

    /// The size that the server tells for anything with a `scale` subresource.
    async fn asked_scale(
        &self,
        namespace: &str,
        owner: &OwnerReference,
    ) -> Result<Option<i32>, Failure> {
        let doing = format!("find out the size of {} {namespace}/{}", owner.kind, owner.name);
        let found = self.resources.of_kind(&self.client, &owner.api_version, &owner.kind).await;
        let Some(served) = found.map_err(Failure::of(doing.as_str()))? else {
            return Ok(None);
        };
        let access = self.client.access::<Scale>(served.resource, namespace);
        let found = unless_gone(access.get_sub(&owner.name, "scale").await, doing)?;
        Ok(found.filter(|scale| scale.metadata.uid == owner.uid).map(|scale| scale.spec.replicas))
    }
}
