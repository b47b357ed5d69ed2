//! The watches that the controllers share, one for each resource that any of them reads.

use api::{Deployment, Job, Namespace, PodDisruptionBudget, ReplicaSet, Resource, ServiceAccount};
use chassis::client::{Client, Object, ResourceType};
use chassis::informer::{How, Informer};
use chassis::reflector::Reflector;
use chassis::store::IndexId;
use tokio::task::JoinSet;

use crate::facts::{Budget, LeaseFact, NodeFact, Packed, PodFact};

/// The field selector of the one config map that is watched.
const ROOT_CA_ONLY: &str = "metadata.name=kube-root-ca.crt";

/// The informers of the resources that controllers read by their fields.
pub struct Informers {
    /// Pods.
    pub pods: Informer<PodFact>,
    /// Pods by the uid of their controller, or by `orphan/<namespace>` without one.
    pub pods_by_owner: IndexId,
    /// Pods by the name of their node.
    pub pods_by_node: IndexId,
    /// Nodes.
    pub nodes: Informer<NodeFact>,
    /// Leases.
    pub leases: Informer<LeaseFact>,
    /// Deployments.
    pub deployments: Informer<Packed<Deployment>>,
    /// Replica sets.
    pub replica_sets: Informer<Packed<ReplicaSet>>,
    /// Replica sets by the uid of their controller, or by `orphan/<namespace>`.
    pub sets_by_owner: IndexId,
    /// Jobs.
    pub jobs: Informer<Packed<Job>>,
    /// Namespaces.
    pub namespaces: Informer<Namespace>,
    /// Disruption budgets.
    pub budgets: Informer<Budget>,
    /// Service accounts.
    pub accounts: Informer<ServiceAccount>,
    /// The config maps that carry the root certificate.
    pub root_cas: Informer<crate::root_ca::RootCa>,
}

/// Under which text an object without a controller is found in the index by owner.
#[must_use]
pub fn orphans_of(namespace: &str) -> String {
    format!("orphan/{namespace}")
}

impl Informers {
    /// Informers of all that `client` reaches; none runs yet.
    #[must_use]
    pub fn new(client: &Client) -> Self {
        let config_maps = ResourceType::namespaced("", "v1", "configmaps");
        let mut pods = all::<api::Pod, PodFact>(client);
        let pods_by_owner = pods.add_index(|pod| match pod.meta.controller() {
            Some(owner) => vec![owner.uid.clone()],
            None => vec![orphans_of(pod.meta.key.namespace())],
        });
        let pods_by_node = pods.add_index(|pod| {
            if pod.node.is_empty() { Vec::new() } else { vec![pod.node.clone().into()] }
        });
        let mut replica_sets = all::<ReplicaSet, Packed<ReplicaSet>>(client);
        let sets_by_owner = replica_sets.add_index(|set| match set.metadata.controller() {
            Some(owner) => vec![owner.uid.clone()],
            None => vec![orphans_of(&set.metadata.namespace)],
        });
        Self {
            pods,
            pods_by_owner,
            pods_by_node,
            nodes: all::<api::Node, _>(client),
            leases: all::<api::Lease, _>(client),
            deployments: all::<Deployment, _>(client),
            replica_sets,
            sets_by_owner,
            jobs: all::<Job, _>(client),
            namespaces: all::<Namespace, _>(client),
            budgets: all::<PodDisruptionBudget, _>(client),
            accounts: all::<ServiceAccount, _>(client),
            root_cas: Informer::new(
                Reflector::new(client.access(config_maps, "")).fields(ROOT_CA_ONLY),
            ),
        }
    }

    /// Starts those that somebody wants.
    pub fn start(self, tasks: &mut JoinSet<()>, how: &How) {
        tasks.spawn(self.pods.run(how.clone()));
        tasks.spawn(self.nodes.run(how.clone()));
        tasks.spawn(self.leases.run(how.clone()));
        tasks.spawn(self.deployments.run(how.clone()));
        tasks.spawn(self.replica_sets.run(how.clone()));
        tasks.spawn(self.jobs.run(how.clone()));
        tasks.spawn(self.namespaces.run(how.clone()));
        tasks.spawn(self.budgets.run(how.clone()));
        tasks.spawn(self.accounts.run(how.clone()));
        tasks.spawn(self.root_cas.run(how.clone()));
    }
}

fn all<K: Resource, T: Object + Sync>(client: &Client) -> Informer<T> {
    Informer::new(Reflector::new(client.access(ResourceType::of::<K>(), "")))
}
