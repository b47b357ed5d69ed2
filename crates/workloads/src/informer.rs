//! One watch for each resource, shared by every controller that reads it.
//!
//! An informer fills a store and tells its subscribers of each change, in API order. It
//! runs only when somebody has asked for it. Subscribers do little (they put a key into a
//! queue) and never wait, so that one slow controller cannot hold up the others.

use std::sync::Arc;

use api::{Deployment, Job, Namespace, PodDisruptionBudget, ReplicaSet, Resource, ServiceAccount};
use chassis::client::{Client, Object, ResourceType};
use chassis::key::Key;
use chassis::metrics::Metrics;
use chassis::reflector::{Delta, Reflector};
use chassis::store::{IndexId, SharedStore};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::facts::{LeaseFact, NodeFact, Packed, PodFact};

/// The field selector of the one config map that is watched.
const ROOT_CA_ONLY: &str = "metadata.name=kube-root-ca.crt";

/// What happened to one object.
pub struct Change<'a, T> {
    /// Which.
    pub key: &'a Key,
    /// Its state before; `None` when it is new.
    pub old: Option<&'a Arc<T>>,
    /// Its state now; `None` when it is gone.
    pub new: Option<&'a Arc<T>>,
}

impl<'a, T> Change<'a, T> {
    /// The states before and after, as far as there are.
    pub fn states(&self) -> impl Iterator<Item = &'a Arc<T>> {
        self.old.into_iter().chain(self.new)
    }
}

type Subscriber<T> = Box<dyn Fn(&Change<'_, T>) + Send>;

/// How watches run.
pub struct How<'a> {
    /// What spreads the waits after failures.
    pub seed: u64,
    /// Where lists and watches are counted.
    pub metrics: &'a Metrics,
    /// Cancelled when they are to end.
    pub stop: &'a CancellationToken,
}

/// The watch of one resource, before it runs.
pub struct Informer<T> {
    reflector: Reflector<T>,
    store: SharedStore<T>,
    subscribers: Vec<Subscriber<T>>,
    synced: CancellationToken,
    wanted: bool,
}

impl<T: Object + Sync> Informer<T> {
    fn new(reflector: Reflector<T>) -> Self {
        let (store, subscribers) = (SharedStore::default(), Vec::new());
        Self { reflector, store, subscribers, synced: CancellationToken::new(), wanted: false }
    }

    /// The objects; asking for them makes the informer run. The token is cancelled when
    /// the first list is in.
    pub fn store(&mut self, synced: &mut Vec<CancellationToken>) -> SharedStore<T> {
        self.wanted = true;
        synced.push(self.synced.clone());
        self.store.clone()
    }

    /// Hears of every change, after the store has taken it.
    pub fn subscribe(&mut self, subscriber: impl Fn(&Change<'_, T>) + Send + 'static) {
        self.wanted = true;
        self.subscribers.push(Box::new(subscriber));
    }

    /// Adds an index to the store.
    pub fn add_index(
        &mut self,
        values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) -> IndexId {
        self.store.write().add_index(values)
    }

    /// Starts the watch, if anybody wants it.
    fn start(self, tasks: &mut JoinSet<()>, how: &How<'_>) {
        if !self.wanted {
            return;
        }
        let Self { reflector, store, subscribers, synced, .. } = self;
        let take = move |delta: Delta<T>| {
            if matches!(delta, Delta::Synced) {
                store.write().apply(delta);
                synced.cancel();
                return;
            }
            let replaced = store.write().apply(delta);
            if let Some(key) = &replaced.key {
                let change = Change { key, old: replaced.old.as_ref(), new: replaced.new.as_ref() };
                subscribers.iter().for_each(|subscriber| subscriber(&change));
            }
        };
        let (reflector, stop) = (reflector.seed(how.seed).metrics(how.metrics), how.stop.clone());
        tasks.spawn(async move {
            // Everything is done on the way into the channel; what arrives is nothing.
            let (sink, mut drain) = mpsc::channel(1);
            let run = reflector.run(sink, take, stop);
            tokio::join!(run, async { while drain.recv().await.is_some() {} });
        });
    }
}

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
    pub budgets: Informer<PodDisruptionBudget>,
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
    pub fn start(self, tasks: &mut JoinSet<()>, how: &How<'_>) {
        self.pods.start(tasks, how);
        self.nodes.start(tasks, how);
        self.leases.start(tasks, how);
        self.deployments.start(tasks, how);
        self.replica_sets.start(tasks, how);
        self.jobs.start(tasks, how);
        self.namespaces.start(tasks, how);
        self.budgets.start(tasks, how);
        self.accounts.start(tasks, how);
        self.root_cas.start(tasks, how);
    }
}

fn all<K: Resource, T: Object + Sync>(client: &Client) -> Informer<T> {
    Informer::new(Reflector::new(client.access(ResourceType::of::<K>(), "")))
}
